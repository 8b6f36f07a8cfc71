#pragma once

#include "asio.hpp"
#include "channel.hpp"
#include "http/buffer.hpp"
#include "presence.hpp"
#include "watchdog.hpp"

#include <boost/asio/append.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace net {

/// Moves a connection to another context.
[[nodiscard]] stream_socket move_to(asio::io_context& context, stream_socket socket);

struct opening;

enum class direction : std::uint8_t { reading, writing };

/// Decides when the handshakes of clients use the private key, which takes most of their CPU time.
class handshake_turns {
public:
    /// Completes when a handshake may use the key, with false if it may not.
    [[nodiscard]] virtual task<bool> begin() = 0;
    /// The handshake used the key, and sent its messages.
    [[nodiscard]] virtual task<> end() = 0;

protected:
    ~handshake_turns() = default;
};

/// A non-blocking socket with time limits, which may be encrypted. Use it on the thread of its watchdog.
class connection final : public watched {
public:
    connection(stream_socket socket, watchdog& dog);
    ~connection();

    /// Encrypts the connection from here on with the channel that `make(int descriptor)` returns. Completes when both
    /// sides agreed, or with an error: `access_denied` if `turns` rejected it. A time limit in the direction `reading`
    /// applies. `turns` is null if the channel has no costly part.
    template <class Make>
    [[nodiscard]] task<error_code> encrypt(Make const& make, handshake_turns* turns = nullptr) {
        channel_ = make(socket_.native_handle());
        return shake_hands(turns);
    }
    /// The connection is not encrypted from here on, for example because no handshake can succeed any more.
    void stop_encryption() noexcept { channel_.reset(); }
    /// Null without encryption.
    [[nodiscard]] channel const* encryption() const noexcept { return channel_.get(); }

    /// Completes with `(error_code, std::size_t)`.
    [[nodiscard]] auto receive(std::span<char> into) {
        return asio::async_initiate<decltype(as_values) const, void(error_code, std::size_t)>(
            [this, into](auto handler) {
                if (channel_)
                    decrypt(into, std::move(handler));
                else
                    socket_.async_receive(asio::buffer(into.data(), into.size()),
                                          std::move(handler));
            },
            as_values);
    }
    /// Receives the bytes that are here. `ec` is `would_block` if there are none.
    [[nodiscard]] std::size_t receive_now(std::span<char> into, error_code& ec);
    /// Completes with `(error_code, std::size_t)`. Copies unread bytes of the socket, which stay unread; waits for them
    /// if there are none.
    [[nodiscard]] auto peek(std::span<char> into) {
        return socket_.async_receive(
            asio::buffer(into.data(), into.size()), stream_socket::message_peek, as_values);
    }

    /// Completes with `(error_code)` when the socket is ready for `what` or has an error; needs no buffer while it
    /// waits. It may complete too early on an encrypted connection.
    template <asio::completion_token_for<void(error_code)> Token = values>
    auto wait(stream_socket::wait_type what, Token token = as_values) {
        return asio::async_initiate<Token, void(error_code)>(
            [this, what](auto handler) {
                if (has_input_for(what))
                    asio::post(socket_.get_executor(),
                               asio::append(std::move(handler), error_code()));
                else
                    socket_.async_wait(event_for(what), std::move(handler));
            },
            token);
    }

    [[nodiscard]] auto connect(endpoint const& to) { return socket_.async_connect(to, as_values); }

    /// Sends as much as the socket accepts, and leaves the rest in `what`. Returns true if all was sent or there is an
    /// error.
    [[nodiscard]] bool send_now(http::gather& what, error_code& ec);

    /// Sends all bytes.
    [[nodiscard]] task<error_code> send(http::gather what);

    /// The state of the other side; detects its end also behind unread bytes.
    [[nodiscard]] presence other_side();
    /// Whether the connection was reset. A connection that both sides ended was not: it may have unread bytes.
    [[nodiscard]] bool is_reset();
    /// Whether the connection took unread bytes from the socket already. Costs no system call.
    [[nodiscard]] bool holds_input() const noexcept { return channel_ && channel_->has_input(); }
    /// Whether there are unread bytes.
    [[nodiscard]] bool has_input();
    /// The next unread byte of the socket, which stays unread; empty if there is none now.
    [[nodiscard]] std::optional<char> next_byte();
    /// Whether there are no unread bytes, and no end of input. On an encrypted connection it may consume bytes: then it
    /// returns false. Messages of the encryption itself, such as a ticket for a session, do not count.
    [[nodiscard]] bool is_silent();

    /// Whether a time limit was exceeded. Then the running operations were cancelled. Operations that start while the
    /// `time_limit` still exists are cancelled too.
    [[nodiscard]] bool expired(direction d) const noexcept { return expired_[index(d)]; }

    /// Resets `expired`: the exceeded limit does not matter.
    void forgive(direction d) noexcept { expired_[index(d)] = false; }

    /// Restarts a running time limit in this direction with another length; has no effect without one.
    void restart(direction d, clock::duration limit) {
        if (deadline_[index(d)] != clock::time_point::max())
            deadline_[index(d)] = after(limit);
    }

    /// Marks a connection that waits for the start of a request; an idle connection may be closed at any time.
    void set_idle(bool idle) noexcept { idle_ = idle; }

    /// Ends the watch until the connection is added to a watchdog again. Precondition: it has no time limit.
    void rest() noexcept {
        leave();
        expired_ = {};
    }
    /// Moves the connection to another context and cancels its operations. Call it on any thread, while no other thread
    /// uses the connection and the watchdog does not watch it.
    void move_to(asio::io_context& context);

    [[nodiscard]] executor get_executor() { return socket_.get_executor(); }
    void no_delay();
    void cancel() noexcept;
    /// Closes the connection. If it is encrypted, the other side does not take this for the end of a message, unlike the
    /// end by the destructor.
    void close() noexcept;
    /// Ends the output behind all bytes that were sent. Returns false if the socket does not accept the end now: then
    /// call it again when the socket is ready to be written.
    [[nodiscard]] bool end_output_now(error_code& ec);
    /// Ends the output behind all bytes that were sent. A time limit in the direction `writing` applies.
    [[nodiscard]] task<error_code> end_output();
    /// Closes the connection so that the other side gets an error instead of an end of input.
    void reset() noexcept;

    [[nodiscard]] clock::time_point look(clock::time_point now) override;
    void stop_if_idle() override {
        if (idle_)
            cancel();
    }
    // Without an end, the other side may have received only a part.
    void abort_connection() override { output_ended_ ? close() : reset(); }

private:
    friend class time_limit;
    friend class server_endpoints;

    static constexpr std::size_t index(direction d) noexcept { return static_cast<std::size_t>(d); }
    void be_non_blocking();
    task<error_code> shake_hands(handshake_turns* turns);
    // Whether the channel can read without the socket.
    [[nodiscard]] bool has_input_for(stream_socket::wait_type what) const {
        return what == stream_socket::wait_read && !is_starved_ && holds_input();
    }
    // The event of the socket for which `what` waits.
    [[nodiscard]] stream_socket::wait_type event_for(stream_socket::wait_type what) const noexcept {
        if (!channel_ || what == stream_socket::wait_error)
            return what;
        return what == stream_socket::wait_read ? to_read_ : to_write_;
    }
    [[nodiscard]] channel::result read_some(std::span<char> into);
    [[nodiscard]] std::size_t encrypt_some(http::gather const& what, error_code& ec);
    task<error_code> send_encrypted(http::gather what);

    // Reads until there are bytes or an error.
    template <class Handler>
    void decrypt(std::span<char> into, Handler handler) {
        auto step = [this, into, got = channel::result(), is_first = true,
                     is_done = false](auto& self, error_code ec = {}) mutable {
            if (is_done)
                return self.complete(got.ec, got.bytes);
            got = ec ? channel::result{.ec = ec} : read_some(into);
            if (got.ec == asio::error::would_block) {
                is_first = false;
                socket_.async_wait(got.next, std::move(self));
            } else if (is_first) {  // a handler must not run within the initiation
                is_done = true;
                asio::post(socket_.get_executor(), std::move(self));
            } else {
                self.complete(got.ec, got.bytes);
            }
        };
        asio::async_compose<Handler, void(error_code, std::size_t)>(
            std::move(step), handler, socket_);
    }

    stream_socket socket_;
    std::unique_ptr<channel> channel_;  // null: not encrypted
    // The events for which the channel waits, to read and to write.
    stream_socket::wait_type to_read_ = stream_socket::wait_read;
    stream_socket::wait_type to_write_ = stream_socket::wait_write;
    bool is_starved_ = false;  // it read all that the socket had: its input is a part of a record
    bool output_ended_ = false;
    std::array<clock::time_point, 2> deadline_{clock::time_point::max(), clock::time_point::max()};
    std::array<bool, 2> expired_{};
    opening const* opens_by_ = nullptr;
    bool idle_ = false;
};

/// The beginning of a connection to a server, before its first message.
struct opening {
    std::string_view introduction = {};  // the first bytes, which are never encrypted
    std::function<std::unique_ptr<channel>(int descriptor)> encrypt = {};  // empty: no encryption
    std::function<bool()> is_over =
        {};  // whether the connection is not needed any more; may be empty
};

/// The endpoints of one server. It remembers the endpoint that accepted the last connection. Any thread may use it.
class server_endpoints {
public:
    using list = std::vector<endpoint>;

    /// Precondition: `all` is not empty.
    server_endpoints(list all) : all_(std::make_shared<list const>(std::move(all))) {}

    [[nodiscard]] std::shared_ptr<list const> all() const {
        std::lock_guard const lock(mutex_);
        return all_;
    }
    /// Replaces the endpoints by others, unless they are the same in another order. Returns whether it replaced them.
    /// Precondition: `all` is not empty.
    bool replace(list all);
    /// How often `replace` replaced the endpoints.
    [[nodiscard]] std::uint64_t version() const noexcept { return version_.load(); }

    /// Connects to the first endpoint that accepts, starting with the one that accepted the last connection. An endpoint
    /// accepts when the steps of `how` have succeeded. Each attempt gets an equal share of the remaining time of `limit`.
    /// Returns null if none accepts, and soon after `how.is_over()` is true. Then `ec` is the last error, but an error after
    /// a connection was established comes before the error of an endpoint that cannot be reached.
    [[nodiscard]] task<std::unique_ptr<connection>> connect(asio::io_context& context,
                                                            watchdog& dog, clock::duration limit,
                                                            opening const& how, error_code& ec);

private:
    mutable std::mutex mutex_;
    std::shared_ptr<list const> all_;  // protected by `mutex_`
    std::atomic<std::uint64_t> version_ = 0;
    std::atomic<std::size_t> last_ = 0;
};

/// While it exists, the operations in one direction may take at most `limit` in all.
class time_limit {
public:
    time_limit(connection& c, direction d, clock::duration limit)
        : deadline_(c.deadline_[connection::index(d)]) {
        deadline_ = c.after(limit);
    }
    time_limit(time_limit const&) = delete;
    ~time_limit() { deadline_ = clock::time_point::max(); }

private:
    clock::time_point& deadline_;
};

}  // namespace net
