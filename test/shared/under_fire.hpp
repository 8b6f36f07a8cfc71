#pragma once

#include <weir/error.hpp>
#include <weir/permit.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace support {

/// Acquires a permit of `limiter`, and retries if an outage rejects it: on a fast machine, connections are killed
/// faster than five questions can be asked.
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

struct taken_under_fire {
    std::int64_t granted = 0;
    std::int64_t unknown = 0;  // questions that may or may not have taken permits
};

/// Returns the grants of eight limiters, each made by `make`, while `kill(stop)` kills their connections: at least
/// `least`, and until a question was interrupted.
template <class Make, class Kill>
taken_under_fire take_under_fire(boost::asio::io_context& ctx, std::int64_t least, Make make,
                                 Kill kill) {
    std::vector<decltype(make())> limiters;
    for (int i = 0; i != 8; ++i)
        limiters.push_back(make());
    taken_under_fire taken;
    auto const take = [&](auto& limiter) -> boost::asio::awaitable<void> {
        auto const unknown = [&] {
            taken.unknown = 0;
            for (auto const& one : limiters)
                taken.unknown += static_cast<std::int64_t>(one->shared_stats().unknown);
            return taken.unknown;
        };
        while (taken.granted < least || unknown() == 0) {
            auto const call = co_await insist(limiter);
            ++taken.granted;
        }
        unknown();
    };
    int failed = 0;
    for (auto& one : limiters) {
        boost::asio::co_spawn(ctx, take(*one), [&](std::exception_ptr e) {
            failed += e != nullptr;
        });
    }
    {
        std::jthread const killer(kill);
        ctx.restart();
        ctx.run();
    }
    BOOST_TEST(failed == 0);
    return taken;
}

}  // namespace support
