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

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace support {

/// Calls `kill` on another thread, each time that the work has advanced by 1 to 16 steps since the last call: so the
/// work ends on a machine of any speed.
class attacker {
public:
    template <class Kill>
    explicit attacker(Kill kill)
        : thread_([this, kill](std::stop_token const& stop) {
              for (int pause = 1;; pause = pause % 16 + 1) {
                  for (int const begin = steps_; steps_ - begin < pause;) {
                      if (stop.stop_requested())
                          return;
                      std::this_thread::sleep_for(std::chrono::microseconds(50));
                  }
                  // The connections are at another point of the next question each time.
                  std::this_thread::sleep_for(std::chrono::microseconds(pause * 61));
                  kill();
              }
          }) {}

    void step() noexcept { ++steps_; }

private:
    std::atomic<int> steps_ = 0;
    std::jthread thread_;
};

/// Acquires a permit of `limiter`, and retries if an outage rejects it: a question is not asked more than five times.
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

/// Returns the grants of eight limiters, each made by `make`, while `kill()` kills their connections repeatedly: at
/// least `least`, and until a question was interrupted.
template <class Make, class Kill>
taken_under_fire take_under_fire(boost::asio::io_context& ctx, std::int64_t least, Make make,
                                 Kill kill) {
    std::vector<decltype(make())> limiters;
    for (int i = 0; i != 8; ++i)
        limiters.push_back(make());
    taken_under_fire taken;
    attacker fire(kill);
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
            fire.step();
        }
        unknown();
    };
    int failed = 0;
    for (auto& one : limiters) {
        boost::asio::co_spawn(ctx, take(*one), [&](std::exception_ptr e) {
            failed += e != nullptr;
        });
    }
    ctx.restart();
    ctx.run();
    BOOST_TEST(failed == 0);
    return taken;
}

}  // namespace support
