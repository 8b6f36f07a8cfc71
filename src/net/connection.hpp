#pragma once

#include "asio.hpp"
#include "http/buffer.hpp"
#include "presence.hpp"
#include "watchdog.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace net {

/// The same connection, on another context.
[[nodiscard]] stream_socket move_to(asio::io_context& context, stream_socket socket);

enum class direction : std::uint8_t { reading, writing };

/// A socket with time limits, on the thread of its watchdog. It is non-blocking from then on.
class connection final : public watched {
public:
    connection(stream_socket socket, watchdog& dog);

    /// Completes with `(error_code, std::size_t)`.
    [[nodiscard]] auto receive(std::span<char> into) {
        return socket_.async_receive(asio::buffer(into.data(), into.size()), as_values);
    }

    /// Completes with `(error_code)` as soon as there is something to read, or an error; holds no
    /// buffer meanwhile.
    [[nodiscard]] auto wait(stream_socket::wait_type what) {
        return socket_.async_wait(what, as_values);
    }

    /// Calls `f(error_code)` as soon as there is something to read, or an end, or an error.
    template <class F>
    void when_readable(F f) {
        socket_.async_wait(stream_socket::wait_read, std::move(f));
    }

    [[nodiscard]] auto connect(endpoint const& to) { return socket_.async_connect(to, as_values); }

    /// Sends what the socket takes, and leaves the rest in `what`. Whether that is over: all was sent, or
    /// there is an error.
    [[nodiscard]] bool send_now(http::gather& what, error_code& ec);

    /// Sends all of it.
    [[nodiscard]] task<error_code> send(http::gather what);

    /// Whether the other side is still there, be it behind bytes that have not been read.
    [[nodiscard]] presence other_side();
    /// Whether the connection has been reset. One that both sides have ended has not: something may be left to be read.
    [[nodiscard]] bool is_reset();
    /// Whether it has sent something that has not been read.
    [[nodiscard]] bool has_input();
    /// Whether it has neither sent something that has not been read, nor ended.
    [[nodiscard]] bool is_silent();

    /// Whether a time limit was exceeded. What was going on has then been cancelled, and so is what begins before the limit
    /// has ended.
    [[nodiscard]] bool expired(direction d) const noexcept { return expired_[index(d)]; }

    /// The limit that was exceeded was none that counts.
    void forgive(direction d) noexcept { expired_[index(d)] = false; }

    /// If a time limit is running in this direction, it starts again with another length.
    void restart(direction d, clock::duration limit) {
        if (deadline_[index(d)] != clock::time_point::max())
            deadline_[index(d)] = after(limit);
    }

    /// Whether it waits for a request that has not begun; such a one may be closed at any time.
    void set_idle(bool idle) noexcept { idle_ = idle; }

    /// Is not watched until it is added to a watchdog again. Precondition: it has no time limit.
    void rest() noexcept {
        leave();
        expired_ = {};
    }
    /// Moves the connection to another context and cancels its operations. On any thread, while no other thread uses it and the
    /// watchdog does not watch it.
    void move_to(asio::io_context& context);

    void no_delay();
    void cancel() noexcept;
    void close() noexcept;
    void end_of_output() noexcept;
    /// Closes so that the other side sees an error, instead of an end.
    void reset() noexcept;

    [[nodiscard]] clock::time_point look(clock::time_point now) override;
    void stop_if_idle() override {
        if (idle_)
            cancel();
    }
    void abort() override { close(); }

private:
    friend class time_limit;

    static constexpr std::size_t index(direction d) noexcept { return static_cast<std::size_t>(d); }
    void be_non_blocking();

    stream_socket socket_;
    std::array<clock::time_point, 2> deadline_{clock::time_point::max(), clock::time_point::max()};
    std::array<bool, 2> expired_{};
    bool idle_ = false;
};

/// The endpoints of one server, and which of them took the last connection: from any thread.
class server_endpoints {
public:
    /// At least one.
    server_endpoints(std::vector<endpoint> all) noexcept : all_(std::move(all)) {}

    [[nodiscard]] std::vector<endpoint> const& all() const noexcept { return all_; }

    /// A new connection to the first that takes one, beginning with the one that took the last. Each has an
    /// equal share of the time that is left of `limit`. Null if there is none, with the last reason in `ec`.
    [[nodiscard]] task<std::unique_ptr<connection>> connect(
        asio::io_context& context, watchdog& dog, clock::duration limit, error_code& ec);

private:
    std::vector<endpoint> all_;
    std::atomic<std::size_t> last_ = 0;
};

/// For as long as it lives, what goes on in one direction may take no longer than `limit`.
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
