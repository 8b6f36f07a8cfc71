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

namespace weir::redis::detail {

/// The time by which connections go.
[[nodiscard]] inline time_point clock_time() noexcept {
    auto const t = std::chrono::steady_clock::now().time_since_epoch();
    return time_point(std::chrono::duration_cast<duration>(t));
}

/// A command, and what has come of it. Its owner derives what it wants to find again.
struct command {
    virtual ~command() = default;

    reply said;
    bool is_answer = false;  // otherwise there was none
    std::uint64_t end = 0;   // how many bytes were written when it was written
};
/// Commands go from one list to another, which needs no memory.
using commands = std::list<std::unique_ptr<command>>;

class connection;

/// To whom a connection belongs, and whose lock guards it.
class connection_owner {
public:
    /// Something has happened: calls `event` under the lock, and then looks what has come of it. The event may throw
    /// `std::bad_alloc`.
    virtual void serve(std::function<void()> const& event) noexcept = 0;

protected:
    ~connection_owner() = default;
};

/// One connection, from its making to its end: the adapter between hiredis' asynchronous interface and Asio.
///
/// hiredis owns the socket, the bytes that are to be written and those that have been read. It asks to be called when
/// the socket is ready, by hooks; it calls back for each answer, and for each command that will have none. All
/// these functions here only note: what is noted is taken by the owner after hiredis has returned. So hiredis is
/// never called from one of its own callbacks, and nobody can destroy it there.
///
/// The socket is waited for only while an answer is due, so that an idle connection keeps no `run()` alive. That the
/// server has closed it meanwhile is seen by `is_stale`.
///
/// Not safe for threads: all members but the destructor are called under the lock of the owner.
class connection : public std::enable_shared_from_this<connection> {
public:
    enum class phase : std::uint8_t { opening, open, closed };

    connection(boost::asio::any_io_executor ex, std::weak_ptr<connection_owner> owner);
    connection(connection const&) = delete;
    connection& operator=(connection const&) = delete;
    ~connection();

    /// Once: begins to connect, which may take until then. It is closed at once if that fails at once.
    void open(address const& to, time_point until);
    /// Until when the endpoint that is tried now may take: those that are left share the time.
    [[nodiscard]] time_point attempt_ends() const noexcept { return attempt_ends_; }
    /// Tries the next endpoint. It is closed if there is none.
    void try_next();

    /// Adds a command to what is to be written, and takes it from its list; if it throws `std::bad_alloc`, nothing has
    /// changed.
    void append(std::vector<std::string_view> const& words, commands& from,
                commands::iterator which);
    /// Writes all that was added, at once.
    void flush();
    /// Ends it, with this error for all that has no answer yet.
    void close(error_code ec, std::string text = {});
    /// The same as the context ends: nothing is left that belongs to it.
    void abandon() noexcept;

    [[nodiscard]] phase state() const noexcept { return phase_; }
    /// Why it was closed, and in words.
    [[nodiscard]] error_code const& error() const noexcept { return error_; }
    [[nodiscard]] std::string const& text() const noexcept { return text_; }

    /// Whether an answer is due.
    [[nodiscard]] bool is_busy() const noexcept { return !sent_.empty(); }
    /// What has no answer yet.
    [[nodiscard]] commands const& sent() const noexcept { return sent_; }
    /// Whether something has come on an open connection on which nothing is due: its end, or what nobody has asked for.
    [[nodiscard]] bool is_stale() const noexcept;

    /// What has come of commands, in their order; to be taken out.
    [[nodiscard]] commands& outcomes() noexcept { return outcomes_; }

private:
    static connection& of(void* data) noexcept { return *static_cast<connection*>(data); }
    static void heard(redisAsyncContext* ac, void* answer, void* data) noexcept;

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
    template <class F>
    auto bound(F f);

    boost::asio::any_io_executor executor_;
    std::weak_ptr<connection_owner> owner_;
    std::optional<boost::asio::ip::tcp::resolver> resolver_;
    std::optional<boost::asio::posix::stream_descriptor> socket_;
    std::deque<boost::asio::ip::tcp::endpoint> endpoints_;  // that are still to be tried
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
    std::uint64_t appended_ = 0;  // bytes
    commands sent_;
    commands outcomes_;
    std::vector<char const*> starts_;  // of the words of a command
    std::vector<std::size_t> sizes_;
};

}  // namespace weir::redis::detail
