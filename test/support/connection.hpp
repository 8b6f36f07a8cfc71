#pragma once

#include <weir/testing.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <utility>

namespace support {

/// Returns the two ends of a TCP connection on the loopback device.
inline std::pair<boost::asio::ip::tcp::socket, boost::asio::ip::tcp::socket> connection(
    boost::asio::io_context& ctx) {
    using boost::asio::ip::tcp;
    tcp::acceptor door(ctx, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
    tcp::socket one(ctx);
    one.connect(door.local_endpoint());
    return {std::move(one), door.accept()};
}

/// Runs all handlers until `done()`, for at most a minute. Virtual time passes only after a millisecond in which the
/// kernel had nothing to deliver. Returns whether it is done.
template <class Done>
[[nodiscard]] bool run_until(boost::asio::io_context& ctx, Done done) {
    using namespace std::chrono_literals;
    using weir::testing::clock;
    auto const end = std::chrono::steady_clock::now() + 1min;
    while (!done() && std::chrono::steady_clock::now() < end) {
        ctx.restart();
        if (weir::testing::run_for(ctx, 0s) != 0 || ctx.run_one_for(1ms) != 0)
            continue;
        auto const next = weir::testing::next_expiry(ctx);
        if (next != clock::time_point::max())
            weir::testing::run_for(ctx, next - clock::now());
    }
    return done();
}

}  // namespace support
