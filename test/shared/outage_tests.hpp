// Hiccups, stalls and outages of a server, and the return to it: see shared/place.hpp. There is no `#pragma once`,
// because this is a part of the file that includes it.

#include <weir/shared/limiter.hpp>

#include "shared/relay.hpp"
#include "support/printing.hpp"
#include "support/quiet.hpp"
#include "support/rethrow.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/tree/decorator.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

// A limit of 100 per second at a server behind a relay, and what its callers see.
struct behind_a_relay : place {
    support::slow_way way{home.socket(), 0ms};
    std::shared_ptr<weir::store> far = at(ctx, address_of(way.socket()));
    int granted = 0;
    int unavailable = 0;
    int others = 0;
    steady::time_point first_grant{};  // since `first_grant` was cleared
    bool over = false;
    weir::duration const within = support::quiet_machine() ? 1s : 5s;  // the time of a return

    static weir::shared_options options(decltype(weir::shared_options::on_failure) mode) {
        return {.rate = {100, 1s}, .burst = 10, .on_failure = mode};
    }

    // Requests permits until `over`, with this patience.
    asio::awaitable<void> call(weir::shared_token_bucket& calls, weir::duration patience) {
        while (!over) {
            auto [ec, permit] =
                co_await calls.async_enter(patience, asio::as_tuple(asio::deferred));
            granted += !ec;
            unavailable += ec == weir::errc::unavailable;
            others += ec && ec != weir::errc::unavailable;
            if (!ec && first_grant == steady::time_point())
                first_grant = steady::now();
            if (ec)
                co_await pass(permit.retry_after().value_or(1ms));
        }
    }
    static asio::awaitable<void> pass(weir::duration time) {
        asio::steady_timer timer(co_await asio::this_coro::executor, time);
        co_await timer.async_wait(asio::deferred);
    }
    // Runs `f`, while this number of callers requests permits.
    template <class F>
    void run_beside(weir::shared_token_bucket& calls, int callers, weir::duration patience, F f) {
        over = false;
        for (int i = 0; i != callers; ++i)
            asio::co_spawn(ctx, call(calls, patience), support::rethrow);
        auto events = [](F what, bool& ends) -> asio::awaitable<void> {
            auto all = what();
            co_await std::move(all);
            ends = true;
        };
        asio::co_spawn(ctx, events(std::move(f), over), support::rethrow);
        run();
    }
};

BOOST_FIXTURE_TEST_SUITE(outages, behind_a_relay, *boost::unit_test::precondition(place::if_here))

BOOST_AUTO_TEST_CASE(hiccups_neither_open_a_limit_nor_reject_anybody) {
    weir::shared_token_bucket calls(ctx, far, "hiccups", options(weir::fail_open()));
    auto const begin = steady::now();
    run_beside(calls, 40, 10s, [&]() -> asio::awaitable<void> {
        for (int i = 0; i != 8; ++i) {
            co_await pass(190ms);
            way.stall();
            co_await pass(60ms);
            way.pass_on();
        }
    });
    auto const s = calls.shared_stats();
    BOOST_TEST(s.bypassed_permits == 0);
    BOOST_TEST(s.outages == 0u);
    BOOST_TEST(unavailable == 0);
    auto const passed = std::chrono::duration<double>(steady::now() - begin + 50ms).count();
    BOOST_TEST(granted <= 10 + 100 * passed);
    BOOST_TEST(granted >= 50);
}

BOOST_AUTO_TEST_CASE(stall_of_half_a_second_rejects_nobody_whose_patience_is_longer) {
    weir::shared_token_bucket calls(ctx, far, "stall", options(weir::fail_closed()));
    run_beside(calls, 40, 10s, [&]() -> asio::awaitable<void> {
        co_await pass(300ms);
        way.stall();
        co_await pass(500ms);
        way.pass_on();
        co_await pass(300ms);
    });
    BOOST_TEST(unavailable == 0);
    BOOST_TEST(others == 0);
    BOOST_TEST(calls.shared_stats().outages == 0u);
    BOOST_TEST(granted >= 30);
}

BOOST_AUTO_TEST_CASE(loop_at_an_open_limit_lets_the_rest_of_the_program_run) {
    weir::shared_token_bucket calls(ctx, far, "open", options(weir::fail_open()));
    bool timer_ran = false;
    auto const give_up = steady::now() + 30s;
    auto loop = [&]() -> asio::awaitable<void> {
        while (!over && steady::now() < give_up)
            static_cast<void>(co_await calls.enter());
    };
    auto events = [&]() -> asio::awaitable<void> {
        co_await pass(100ms);
        way.stall();
        co_await pass(2s);
        timer_ran = true;
        BOOST_TEST((calls.shared_stats().mode == weir::shared_mode::open));
        way.pass_on();
        auto const returned = steady::now();
        while (calls.shared_stats().mode != weir::shared_mode::store && steady::now() < give_up)
            co_await pass(10ms);
        BOOST_TEST((steady::now() - returned < within));
        over = true;
    };
    asio::co_spawn(ctx, loop(), support::rethrow);
    asio::co_spawn(ctx, events(), support::rethrow);
    run();
    BOOST_TEST(timer_ran);
    BOOST_TEST((steady::now() < give_up));
    BOOST_TEST(calls.shared_stats().bypassed_permits > 100);
}

BOOST_AUTO_TEST_CASE(limiter_returns_within_a_second_of_the_server) {
    std::vector<weir::duration> times{300ms, 1500ms, 5s};
    if (std::getenv("WEIR_LONG_OUTAGE"))
        times.emplace_back(15s);
    for (bool const refuses : {false, true}) {
        for (auto const down : times) {
            weir::shared_token_bucket calls(ctx, far, "return", options(weir::fail_closed()));
            steady::time_point back;
            run_beside(calls, 10, 10s, [&]() -> asio::awaitable<void> {
                co_await pass(200ms);
                refuses ? way.refuse() : way.stall();
                co_await pass(down);
                first_grant = {};
                way.pass_on();
                back = steady::now();
                while (first_grant == steady::time_point() && steady::now() < back + 10s)
                    co_await pass(1ms);
            });
            auto const took = std::chrono::duration<double>(first_grant - back).count();
            BOOST_TEST_MESSAGE((refuses ? "refused " : "silent ")
                               << std::chrono::duration<double>(down).count() << " s: back after "
                               << took << " s");
            BOOST_TEST(took >= 0);
            BOOST_TEST((first_grant - back < within));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
