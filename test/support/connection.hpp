#pragma once

#include <weir/testing.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <thread>
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

/// Runs all handlers until `done()`, for at most a minute. Virtual time passes only while no handler is ready, after
/// the kernel had time to deliver the bytes that were sent. Returns whether it is done.
template <class Done>
[[nodiscard]] bool run_until(boost::asio::io_context& ctx, Done done) {
    using namespace std::chrono_literals;
    using weir::testing::clock;
    auto const end = std::chrono::steady_clock::now() + 1min;
    for (int quiet = 0; !done() && std::chrono::steady_clock::now() < end;) {
        if (weir::testing::run_for(ctx, 0s) != 0) {
            quiet = 0;
        } else if (++quiet != 4) {
            std::this_thread::sleep_for(100us);
        } else {
            quiet = 0;
            auto const next = weir::testing::next_expiry(ctx);
            if (next != clock::time_point::max())
                weir::testing::run_for(ctx, next - clock::now());
        }
    }
    return done();
}

}  // namespace support
