#pragma once

#include <weir/error.hpp>
#include <weir/permit.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <utility>

namespace support {

/// A permit of `limiter`, which is asked again if it refuses because of an outage: on a quick machine, connections
/// are killed faster than five questions can be asked.
template <class Limiter>
boost::asio::awaitable<weir::permit> insist(Limiter& limiter) {
    using namespace std::chrono_literals;
    for (;;) {
        auto [ec, call] =
            co_await limiter.async_enter(60s, boost::asio::as_tuple(boost::asio::deferred));
        if (ec != weir::errc::unavailable) {
            BOOST_TEST(!ec);
            co_return std::move(call);
        }
        boost::asio::steady_timer pause(
            co_await boost::asio::this_coro::executor, call.retry_after().value_or(1ms));
        co_await pause.async_wait(boost::asio::deferred);
    }
}

}  // namespace support
