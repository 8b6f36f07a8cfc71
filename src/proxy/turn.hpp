#pragma once

#include "net/asio.hpp"
#include "net/connection.hpp"

#include <boost/asio/cancellation_signal.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace proxy {

/// The result of a wait: the client disconnected, or the limiter decided. `Permit` is the permit type of a limiter or
/// of a chain.
template <class Permit>
struct verdict {
    net::presence client = net::presence::here;
    net::error_code ec;
    Permit permit;
};

/// The bounds of a quarter of its wait, after which a client that sent bytes meanwhile is seen to disconnect.
inline constexpr net::clock::duration least_pause = net::watchdog::round;
inline constexpr net::clock::duration most_pause = std::chrono::milliseconds(500);

/// The state of a waiting request. The limiter's handler shares its ownership. If the client disconnects first, no
/// caller gets the result, and its permit is released.
template <class Permit>
struct turn {
    explicit turn(net::executor const& ex) : pause(ex) {}

    boost::asio::cancellation_signal cancel;
    net::connection* client = nullptr;  // while the wait watches its socket
    net::timer pause;                   // between two checks of the socket
    bool came = false;
    net::error_code ec;
    Permit permit;
};

/// The limiter's handler.
template <class Permit>
class on_turn {
public:
    on_turn(std::shared_ptr<turn<Permit>> t, net::executor const& ex)
        : turn_(std::move(t)), ex_(ex) {}

    // An immediate rejection runs the handler inside `enter`, on this thread.
    using executor_type = net::executor;
    net::executor get_executor() const noexcept { return ex_; }
    using immediate_executor_type = net::executor;
    net::executor get_immediate_executor() const noexcept { return ex_; }
    using cancellation_slot_type = boost::asio::cancellation_slot;
    boost::asio::cancellation_slot get_cancellation_slot() const noexcept {
        return turn_->cancel.slot();
    }

    void operator()(net::error_code ec, Permit permit) const {
        turn_->ec = ec;
        turn_->permit = std::move(permit);
        turn_->came = true;
        turn_->pause.cancel();
        if (turn_->client)
            turn_->client->cancel();
    }

private:
    std::shared_ptr<turn<Permit>> turn_;
    net::executor ex_;
};

/// Waits until the limiter decides or the client closes the connection. `enter` passes its `on_turn` argument to the
/// limiter as the handler.
///
/// A parallel group of both waits would need half the code. But it costs twice the processor time for a waiting
/// request, and nearly three times the processor time for a rejected one.
template <class Permit, class Enter>
net::task<verdict<Permit>> wait_turn(net::connection& client, Enter enter) {
    auto const ex = co_await boost::asio::this_coro::executor;
    auto const mine = std::make_shared<turn<Permit>>(ex);
    enter(on_turn<Permit>(mine, ex));

    bool has_sent = false;
    auto const since = net::clock::now();
    while (!mine->came) {
        if (!has_sent) {
            mine->client = &client;
            co_await client.wait(net::stream_socket::wait_read);
            mine->client = nullptr;
        } else {
            // The client sent bytes that are not read. They hide the end of the connection from `wait`, so check for it
            // periodically: ever more rarely, since thousands may wait for minutes.
            mine->pause.expires_after(
                std::clamp((net::clock::now() - since) / 4, least_pause, most_pause));
            co_await mine->pause.async_wait(net::as_values);
        }
        has_sent = true;
        auto const there = client.other_side();
        if (!mine->came && there != net::presence::here) {
            mine->cancel.emit(boost::asio::cancellation_type::terminal);
            co_return verdict<Permit>{there, {}, {}};
        }
    }
    co_return verdict<Permit>{net::presence::here, mine->ec, std::move(mine->permit)};
}

}  // namespace proxy
