#include <weir/fixed_window.hpp>
#include <weir/keyed.hpp>
#include <weir/testing.hpp>

#include "support/virtual_limiters.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace support;

namespace {

using fixed_window = weir::testing::limiter<weir::fixed_window>;

// Tries until it is granted; after each rejection it waits for `retry_after`.
asio::awaitable<void> call(fixed_window& calls) {
    for (;;) {
        auto const permit = calls.try_enter();
        if (permit)
            co_return;
        weir::testing::timer pause(co_await asio::this_coro::executor);
        pause.expires_after(*permit.retry_after());
        co_await pause.async_wait(asio::use_awaitable);
    }
}

// The number of rejections until 311 calls are granted, of which 10 per second are allowed.
std::uint64_t rejections(weir::duration jitter) {
    weir::testing::seed(1);
    asio::io_context ctx;
    fixed_window calls(ctx, {.limit = 10, .window = 1s}, {.jitter = jitter});
    for (int i = 0; i != 311; ++i)
        co_spawn(ctx, call(calls), rethrow);
    run_for(ctx, 10min);
    BOOST_TEST(calls.stats().granted == 311U);
    return calls.stats().no_permit;
}

// The `retry_after` of rejections after a seed.
std::vector<weir::duration> told_after(std::uint64_t seed) {
    weir::testing::seed(seed);
    asio::io_context ctx;
    fixed_window calls(ctx, {.limit = 1, .window = 1s}, {.jitter = 100ms});
    auto const used = calls.try_enter();
    std::vector<weir::duration> told;
    for (int i = 0; i != 10; ++i)
        told.push_back(*calls.try_enter().retry_after());
    return told;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(jitter_of_retry_after)

// By hand: 10 calls are granted in each second, and all others are rejected: 301 in the first, 291 in the next, and 1
// in the 31st. The sum is 31 * (301 + 1) / 2.
BOOST_AUTO_TEST_CASE(without_it_all_clients_retry_together) {
    BOOST_TEST(rejections(0s) == 4681U);
}

// 301 rejections in the first second, as before. Then the clients retry at random, over the time that it takes to grant
// them all, so most find a free permit.
BOOST_AUTO_TEST_CASE(with_it_most_are_rejected_once) {
    BOOST_TEST(rejections(30s) < 650U);
}

// Found elsewhere: snyk/go-application-framework#649, NousResearch/hermes-agent#109234.
BOOST_AUTO_TEST_CASE(only_adds_and_stays_within_its_bound) {
    asio::io_context ctx;
    fixed_window calls(ctx, {.limit = 1, .window = 1s}, {.jitter = 100ms});
    auto const used = calls.try_enter();
    std::vector<weir::duration> told;
    for (int i = 0; i != 1000; ++i)
        told.push_back(*calls.try_enter().retry_after());
    auto const [least, most] = std::ranges::minmax(told);
    BOOST_TEST((least >= 1s && most <= 1100ms));
    BOOST_TEST((most - least > 90ms));
}

BOOST_AUTO_TEST_CASE(is_determined_by_the_seed_of_a_test) {
    auto const once = told_after(7);
    BOOST_TEST((told_after(7) == once));
    BOOST_TEST((told_after(8) != once));
}

BOOST_AUTO_TEST_CASE(also_applies_to_keys) {
    asio::io_context ctx;
    weir::basic_keyed<int, weir::policy::fixed_window, asio::any_io_executor, weir::testing::timer>
        calls(ctx, {.limit = 1, .window = 1s}, {}, {.jitter = 100ms});
    auto const used = calls.try_enter(7);
    std::vector<weir::duration> told;
    for (int i = 0; i != 1000; ++i)
        told.push_back(*calls.try_enter(7).retry_after());
    auto const [least, most] = std::ranges::minmax(told);
    BOOST_TEST((least >= 1s && most <= 1100ms));
    BOOST_TEST((most - least > 90ms));
}

BOOST_AUTO_TEST_CASE(is_not_added_where_retry_after_is_unknown) {
    asio::io_context ctx;
    seats kitchen(ctx, {.seats = 1}, {.jitter = 100ms});
    auto const seat = kitchen.try_enter();
    BOOST_TEST(!kitchen.try_enter().retry_after());
}

BOOST_AUTO_TEST_SUITE_END()
