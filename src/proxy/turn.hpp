#pragma once

#include "net/asio.hpp"
#include "net/connection.hpp"

#include <boost/asio/cancellation_signal.hpp>

#include <memory>
#include <utility>

namespace proxy {

/// What has become of a request that waits for its turn: the client has left, or the limiter has decided. `Permit` is
/// that of a limiter or of a chain.
template <class Permit>
struct verdict {
    net::presence client = net::presence::here;
    net::error_code ec;
    Permit permit;
};

/// A request that waits. It belongs to the limiter's handler: when the client has gone first, the result
/// comes to nobody, and the permit in it comes home.
template <class Permit>
struct turn {
    explicit turn(net::executor const& ex) : pause(ex) {}

    boost::asio::cancellation_signal cancel;
    net::connection* client = nullptr;  // while its socket is being watched
    net::timer pause;                   // between two looks at it
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

    // What is rejected at once is told at once, on this very thread.
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

/// Waits until the limiter has decided, or the client has ended the connection. `enter` makes the limiter
/// call the `on_turn` that it is given.
///
/// A parallel group of both would be half as long, but costs twice the processor time of a request that
/// waits, and nearly three times that of one that is rejected.
template <class Permit, class Enter>
net::task<verdict<Permit>> wait_turn(net::connection& client, Enter enter) {
    auto const ex = co_await boost::asio::this_coro::executor;
    auto const mine = std::make_shared<turn<Permit>>(ex);
    enter(on_turn<Permit>(mine, ex));

    bool has_sent = false;
    while (!mine->came) {
        if (!has_sent) {
            mine->client = &client;
            co_await client.wait(net::stream_socket::wait_read);
            mine->client = nullptr;
        } else {
            // The next request of a client that does not wait for answers. Behind that an end is only
            // seen by looking for it.
            mine->pause.expires_after(net::watchdog::round);
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
