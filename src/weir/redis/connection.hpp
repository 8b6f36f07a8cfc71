#pragma once

#include <weir/error.hpp>
#include <weir/time.hpp>

#include "address.hpp"
#include "replies.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct redisAsyncContext;

namespace weir::inline v0_2::redis::detail {

/// Returns the current time of the clock that connections use.
[[nodiscard]] inline time_point clock_time() noexcept {
    auto const t = std::chrono::steady_clock::now().time_since_epoch();
    return time_point(std::chrono::duration_cast<duration>(t));
}

/// A command and its result. The owner derives from it the data that it needs later.
struct command {
    virtual ~command() = default;

    reply said;
    bool is_answer = false;  // false: there was no reply
    std::uint64_t end = 0;   // the position of its last byte in the written bytes
};
/// A list of commands. They move from one list to another without an allocation.
using commands = std::list<std::unique_ptr<command>>;

class connection;

/// The owner of a connection, whose lock guards it.
class connection_owner {
public:
    /// Calls `event` under the lock, and then processes its results. The event may throw `std::bad_alloc`.
    virtual void serve(std::function<void()> const& event) noexcept = 0;

protected:
    ~connection_owner() = default;
};

/// One connection, from its start to its end: the adapter between hiredis' asynchronous interface and Asio.
///
/// hiredis owns the socket, the bytes to write and the bytes read. It sets hooks to be called when the socket is ready.
/// It calls back for each reply, and for each command that will have none. All these functions only record events; the
/// owner processes the records after hiredis has returned. So hiredis is never called or destroyed from one of its
/// callbacks.
///
/// The connection waits for the socket only while a reply or a message is due, so that an idle connection keeps no
/// `run()` alive. `is_stale` detects that the server has closed it meanwhile.
///
/// Not thread-safe: all members but the destructor are called under the lock of the owner.
class connection : public std::enable_shared_from_this<connection> {
public:
    enum class phase : std::uint8_t { opening, open, closed };

    connection(boost::asio::any_io_executor ex, std::weak_ptr<connection_owner> owner);
    connection(connection const&) = delete;
    connection& operator=(connection const&) = delete;
    ~connection();

    /// Starts to connect, until the given time. Call it once. If that fails immediately, the connection is closed.
    void open(address const& to, time_point until);
    /// Returns the time limit of the current endpoint: the remaining endpoints share the time.
    [[nodiscard]] time_point attempt_ends() const noexcept { return attempt_ends_; }
    /// Tries the next endpoint; closes the connection if there is none.
    void try_next();

    /// Adds a command to the bytes to write, and takes it from its list. If it throws `std::bad_alloc`, nothing has
    /// changed.
    void append(std::vector<std::string_view> const& words, commands& from,
                commands::iterator which);
    /// Writes all added commands at once.
    void flush();
    /// Asks for the messages of a channel, and waits for them from now on. It may be called again: each time the server
    /// confirms it by an empty message. After that, the connection takes no more commands. If it throws
    /// `std::bad_alloc`, nothing has changed.
    void subscribe(std::string const& channel);
    /// Waits for messages, or stops doing so, so that the connection keeps no `run()` alive.
    void wait_for_messages(bool on);
    /// Returns the messages of the channel, and empty ones for confirmations; the caller takes them out.
    [[nodiscard]] std::vector<std::string>& messages() noexcept { return messages_; }
    /// Closes the connection, with this error for all commands without a reply.
    void close(error_code ec, std::string text = {});
    /// Closes the connection at the end of the context, and releases everything that belongs to the context.
    void abandon() noexcept;

    [[nodiscard]] phase state() const noexcept { return phase_; }
    /// Returns why it was closed; `text` returns the words for it.
    [[nodiscard]] error_code const& error() const noexcept { return error_; }
    [[nodiscard]] std::string const& text() const noexcept { return text_; }

    /// Returns whether a reply is due.
    [[nodiscard]] bool is_busy() const noexcept { return !sent_.empty(); }
    /// Returns the commands without a reply.
    [[nodiscard]] commands const& sent() const noexcept { return sent_; }
    /// Returns whether something arrived on an open connection without a due reply: its end, or an unexpected reply.
    [[nodiscard]] bool is_stale() const noexcept;

    /// Returns the results of commands, in their order; the caller takes them out.
    [[nodiscard]] commands& outcomes() noexcept { return outcomes_; }

private:
    static connection& of(void* data) noexcept { return *static_cast<connection*>(data); }
    static void receive_reply(redisAsyncContext* ac, void* answer, void* data) noexcept;
    static void receive_message(redisAsyncContext* ac, void* answer, void* data) noexcept;

    template <class F>
    void attempt(F f);
    void begin(address const& to);
    void connect_next();
    bool attach(redisAsyncContext* made);
    template <class F>
    void call_hiredis(F f);
    void note_failure(redisAsyncContext const& ac) noexcept;
    void note_end() noexcept;
    void end(error_code ec) noexcept;
    void readable();
    void writable();
    void wait();
    void rest();
    template <class F>
    auto bound(F f);

    boost::asio::any_io_executor executor_;
    std::weak_ptr<connection_owner> owner_;
    std::optional<boost::asio::ip::tcp::resolver> resolver_;
    std::optional<boost::asio::posix::stream_descriptor> socket_;
    std::deque<boost::asio::ip::tcp::endpoint> endpoints_;  // not tried yet
    time_point until_{};
    time_point attempt_ends_{};
    redisAsyncContext* hiredis_ = nullptr;

    phase phase_ = phase::opening;
    error_code error_;
    std::string text_;
    int errno_ = 0;

    bool wants_to_write_ = false;
    bool waits_to_write_ = false;
    bool waits_to_read_ = false;
    bool wants_messages_ = false;
    std::uint64_t appended_ = 0;  // bytes
    commands sent_;
    commands outcomes_;
    std::vector<std::string> messages_;
    std::vector<char const*> starts_;  // of the words of a command
    std::vector<std::size_t> sizes_;
};

}  // namespace weir::inline v0_2::redis::detail
