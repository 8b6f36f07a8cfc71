#include <weir/leaky_bucket.hpp>

#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace support;
using weir::errc;

BOOST_AUTO_TEST_SUITE(limiter_with_a_steady_pace)

BOOST_AUTO_TEST_CASE(delays_waiting_requests_to_its_pace) {
    asio::io_context ctx;
    leaky_bucket drip{ctx, {.rate = {2, 1s}}};
    auto const start = clock::now();
    std::vector<visit> guests;
    for (int i = 0; i != 5; ++i)
        guests.emplace_back(drip);
    run_for(ctx, 1min);
    for (int i = 0; i != 5; ++i)
        BOOST_TEST(guests[static_cast<std::size_t>(i)].at() == start + i * 500ms);
}

BOOST_AUTO_TEST_CASE(rejects_requests_without_patience_when_full) {
    asio::io_context ctx;
    leaky_bucket drip{ctx, {.rate = {2, 1s}, .capacity = 3}, {.max_waiting = 0}};
    std::vector<visit> guests;
    for (int i = 0; i != 4; ++i)
        guests.emplace_back(drip);
    settle(ctx);
    BOOST_TEST(guests[2].granted());
    BOOST_TEST(guests[3].rejected(errc::queue_full));
    BOOST_TEST(guests[3].seat().retry_after() == 500ms);
    BOOST_TEST(drip.try_enter().retry_after() == 500ms);
}

BOOST_AUTO_TEST_CASE(reports_its_level) {
    asio::io_context ctx;
    leaky_bucket drip{ctx, {.rate = {2, 1s}, .capacity = 10}};
    auto const level = [&] { return drip.options().capacity - drip.stats().remaining; };
    BOOST_TEST(level() == 0);
    auto const water = drip.try_enter(7);
    BOOST_TEST(level() == 7);
    run_for(ctx, 1200ms);
    BOOST_TEST(level() == 5);  // 4.6, rounded up
    run_for(ctx, 1h);
    BOOST_TEST(level() == 0);
}

BOOST_AUTO_TEST_CASE(recomputes_waiting_requests_when_its_rate_changes) {
    asio::io_context ctx;
    leaky_bucket drip{ctx, {.rate = {1, 10s}}};
    auto const start = clock::now();
    auto const water = drip.try_enter();
    visit soon{drip};
    visit later{drip};
    visit patient{drip, 30s};
    run_for(ctx, 5s);
    drip.configure({.rate = {1, 20s}});
    run_for(ctx, 1min);
    BOOST_TEST(soon.at() == start + 15s);  // half of the level was left, and leaks at half the rate
    BOOST_TEST(later.at() == start + 35s);
    BOOST_TEST(patient.rejected(errc::deadline_unreachable));
}

BOOST_AUTO_TEST_SUITE_END()
