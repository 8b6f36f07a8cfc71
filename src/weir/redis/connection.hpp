#pragma once

#include <weir/error.hpp>
#include <weir/time.hpp>

#include "address.hpp"
#include "protocol.hpp"
#include "replies.hpp"
#include "tls.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
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
    bool asks = false;  // `ASKING` is sent before it: its node may use a slot that is moving there
    std::uint64_t end = 0;  // the position of its last byte in the written bytes
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

/// One connection, from its start to its end.
///
/// With TLS, it is open after the handshake. It encrypts each command when the command is added. So the number of
/// written bytes shows which commands were sent as a whole.
///
/// The connection waits for the socket only while a reply or a message is due, so that an idle connection keeps no
/// `run()` alive. `is_stale` detects that the server has closed it meanwhile.
///
/// Not thread-safe: all members but the destructor are called under the lock of the owner.
class connection : public std::enable_shared_from_this<connection> {
public:
    enum class phase : std::uint8_t { opening, open, closed };

    /// `tls` is null for a connection without encryption; otherwise it must outlive the connection.
    connection(boost::asio::any_io_executor ex, std::weak_ptr<connection_owner> owner,
               tls_context const* tls);
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
    /// Returns whether something arrived on an open connection without a due reply: its end, or an unexpected reply. The
    /// connection is then of no use.
    [[nodiscard]] bool is_stale();

    /// Returns the results of commands, in their order; the caller takes them out.
    [[nodiscard]] commands& outcomes() noexcept { return outcomes_; }

private:
    using stream = boost::asio::generic::stream_protocol;

    template <class F>
    void attempt(F f);
    void begin(address const& to);
    void connect_next();
    void begin_session();
    void shake_hands();
    void fail(error_code ec, std::string text = {}) noexcept;
    void drop_socket() noexcept;
    void end(error_code ec) noexcept;

    void add(std::vector<std::string_view> const& words, bool asks = false);
    void write();
    [[nodiscard]] error_code send() noexcept;

    void read();
    [[nodiscard]] error_code receive();
    void decrypt();
    void parse();
    void note_message(reply& said);

    void wait();
    void rest();
    template <class F>
    auto bound(F f);

    boost::asio::any_io_executor executor_;
    std::weak_ptr<connection_owner> owner_;
    tls_context const* tls_;
    std::string host_;
    std::optional<boost::asio::ip::tcp::resolver> resolver_;
    std::deque<stream::endpoint> endpoints_;  // not tried yet
    time_point until_{};
    time_point attempt_ends_{};

    std::optional<stream::socket> socket_;
    std::uint64_t sockets_ = 0;  // that were dropped
    std::optional<tls_session> session_;
    reply_reader replies_;
    std::string due_;            // bytes to write
    std::uint64_t written_ = 0;  // bytes, on all sockets

    phase phase_ = phase::opening;
    error_code error_;
    std::string text_;

    bool waits_to_write_ = false;
    bool waits_to_read_ = false;
    std::optional<reply> asked_;  // the reply to `ASKING` of the first of the sent commands
    bool has_subscribed_ = false;
    bool wants_messages_ = false;
    commands sent_;
    commands outcomes_;
    std::vector<std::string> messages_;
};

}  // namespace weir::inline v0_2::redis::detail
