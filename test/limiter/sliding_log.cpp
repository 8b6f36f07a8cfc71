#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

BOOST_AUTO_TEST_SUITE(limiter_of_a_rate)

BOOST_AUTO_TEST_CASE(grants_each_permit_when_an_earlier_one_expires) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 2, .window = 10s}};
    auto const start = clock::now();
    auto const first = printer.try_enter();
    run_for(ctx, 3s);
    auto const second = printer.try_enter();
    std::vector<visit> guests;
    for (int i = 0; i != 4; ++i)
        guests.emplace_back(printer);
    run_for(ctx, 1min);
    BOOST_TEST(guests[0].at() == start + 10s);
    BOOST_TEST(guests[1].at() == start + 13s);
    BOOST_TEST(guests[2].at() == start + 20s);
    BOOST_TEST(guests[3].at() == start + 23s);
    BOOST_TEST(guests[3].seat().waited() == 20s);
}

BOOST_AUTO_TEST_CASE(a_released_permit_still_counts) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 1, .window = 10s}};
    printer.try_enter().leave();
    visit guest{printer};
    run_for(ctx, 9s);
    BOOST_TEST(guest.waiting());
    run_for(ctx, 1s);
    BOOST_TEST(guest.granted());
}

BOOST_AUTO_TEST_CASE(a_refunded_permit_does_not_count) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 3, .window = 10s}};
    auto pages = printer.try_enter(3);
    visit guest{printer, 2};
    settle(ctx);
    pages.settle(1);
    settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(pages.remaining() == 0);
}

BOOST_AUTO_TEST_CASE(rejects_early_and_counts_the_queue) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 1, .window = 10s}};
    auto const page = printer.try_enter();
    run_for(ctx, 4s);
    visit first{printer};
    visit second{printer};
    visit too_late{printer, 25s};
    visit just_in_time{printer, 26s};
    settle(ctx);
    BOOST_TEST(too_late.rejected(errc::deadline_unreachable));
    BOOST_TEST(too_late.seat().retry_after() == 26s);
    BOOST_TEST(printer.stats().deadline_unreachable == 1U);
    run_for(ctx, 26s);
    BOOST_TEST(just_in_time.granted());
    BOOST_TEST(just_in_time.seat().waited() == 26s);
}

// Found elsewhere: dotnet/runtime#92557.
BOOST_AUTO_TEST_CASE(retry_after_is_exact) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 3, .window = 10s}};
    auto const one = printer.try_enter();
    run_for(ctx, 2s);
    auto const two = printer.try_enter(2);
    run_for(ctx, 1s);
    for (int n = 1; n <= 3; ++n) {
        auto const wait = printer.try_enter(n).retry_after();
        BOOST_TEST_REQUIRE(bool(wait));
        BOOST_TEST(*wait == (n == 1 ? 7s : 9s));
    }
    run_for(ctx, 7s - 1ns);
    BOOST_TEST(!printer.try_enter());
    run_for(ctx, 1ns);
    BOOST_TEST(bool(printer.try_enter()));
}

// Found elsewhere: boinkor-net/governor#39, livekit-cli#306, redisson#2072.
BOOST_AUTO_TEST_CASE(keeps_its_limit_in_every_window) {
    asio::io_context ctx;
    constexpr int limit = 5;
    sliding_log printer{ctx, {.limit = limit, .window = 7s}};
    std::vector<clock::time_point> grants;
    auto client = [&](int n, clock::duration pause) -> asio::awaitable<void> {
        weir::testing::timer timer{ctx};
        for (int i = 0; i != 30; ++i) {
            auto const page = co_await printer.enter(n);
            grants.insert(grants.end(), static_cast<std::size_t>(n), clock::now());
            timer.expires_after(pause);
            co_await timer.async_wait(asio::deferred);
        }
    };
    co_spawn(ctx, client(1, 100ms), rethrow);
    co_spawn(ctx, client(2, 700ms), rethrow);
    co_spawn(ctx, client(5, 3s), rethrow);
    run_for(ctx, 1h);
    BOOST_TEST_REQUIRE(grants.size() == 240U);
    BOOST_TEST(std::ranges::is_sorted(grants));
    for (std::size_t i = limit; i != grants.size(); ++i)
        BOOST_TEST(grants[i] - grants[i - limit] >= 7s);
}

BOOST_AUTO_TEST_CASE(a_new_waiting_request_does_not_move_the_timer) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 1, .window = 10s}};
    auto const page = printer.try_enter();
    auto const due = clock::now() + 10s;
    std::vector<visit> guests;
    for (int i = 0; i != 10; ++i) {
        guests.emplace_back(printer);
        settle(ctx);
        BOOST_TEST(weir::testing::next_expiry(ctx) == due);
    }
    printer.cancel();
    settle(ctx);
}

BOOST_AUTO_TEST_SUITE_END()
