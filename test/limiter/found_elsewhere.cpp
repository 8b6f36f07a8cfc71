// Bugs of other libraries, each under the name of the project and the number of the report. Other test files name the
// bugs that they cover: `grep -rE '[a-z-]+/[a-z-]+#[0-9]+' test`.

#include <weir/leaky_bucket.hpp>
#include <weir/sliding_window.hpp>
#include <weir/token_bucket.hpp>

#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <list>
#include <type_traits>
#include <utility>
#include <vector>

using namespace support;
using weir::errc;
using weir::permit;

namespace {

// A clock with a settable time.
struct loose_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<loose_clock>;
    static constexpr bool is_steady = false;

    static inline time_point at{};
    static time_point now() noexcept { return at; }
};

// tower-rs/tower#794, #833, tokio-rs/axum#3682: copies of a limiter had separate budgets.
static_assert(!std::is_copy_constructible_v<seats> && !std::is_copy_assignable_v<seats>);

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_found_elsewhere)

// thrasher-corp/gocryptotrader#2371, golang/go#56924, #69419: reservations that were cancelled in the reverse order
// were not refunded in full: each lost a nanosecond.
BOOST_AUTO_TEST_CASE(gocryptotrader_2371_refunds_in_the_reverse_order_are_complete) {
    asio::io_context ctx;
    token_bucket calls(ctx, {.rate = {3, 1s}, .burst = 212});
    std::vector<permit> all;
    for (int i = 0; i != 212; ++i)
        all.push_back(calls.try_enter());
    BOOST_TEST(calls.stats().remaining == 0);
    while (!all.empty()) {
        all.back().refund();
        all.pop_back();
    }
    BOOST_TEST(calls.stats().remaining == 212);
    BOOST_TEST((calls.stats().reset_after == weir::duration::zero()));
}

// cadence-workflow/cadence#6030: requests that were cancelled after their grant time drove the limiter far below zero.
BOOST_AUTO_TEST_CASE(cadence_6030_timed_out_requests_leave_no_debt) {
    asio::io_context ctx;
    token_bucket calls(ctx, {.rate = {100, 1s}, .burst = 1});
    auto const first = calls.try_enter();
    std::list<asio::cancellation_signal> signals;
    std::vector<visit> guests(1'000);
    for (auto& guest : guests)
        calls.async_enter(
            asio::bind_cancellation_slot(signals.emplace_back().slot(), guest.callback()));
    run_for(ctx, 10ms - 1ns);
    for (auto signal = signals.rbegin(); signal != signals.rend(); ++signal)
        signal->emit(asio::cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST(calls.stats().cancelled == 1'000U);
    BOOST_TEST(calls.stats().debt == 0);
    run_for(ctx, 1ns);
    BOOST_TEST(bool(calls.try_enter()));
}

// boinkor-net/governor by chatmail/filtermail#166, #167: a clock that went back between cores caused rejections of
// requests that were in time. golang/x/time/rate counts time again that passed again.
BOOST_AUTO_TEST_CASE(
    filtermail_166_a_clock_that_goes_back_rejects_nothing_and_grants_nothing_twice) {
    asio::io_context ctx;
    loose_clock::at = loose_clock::time_point(100s);
    weir::basic_limiter<weir::policy::token_bucket, asio::any_io_executor,
                        asio::basic_waitable_timer<loose_clock>>
        calls(ctx, {.rate = {10, 1s}, .burst = 10});
    BOOST_TEST(bool(calls.try_enter(9)));
    loose_clock::at -= 1ms;
    BOOST_TEST(bool(calls.try_enter()));
    BOOST_TEST(!calls.try_enter());
    loose_clock::at -= 10s;
    auto const rejected = calls.try_enter();
    BOOST_TEST((rejected.retry_after() == weir::duration(100ms)));
    loose_clock::at = loose_clock::time_point(100s + 100ms);
    BOOST_TEST(bool(calls.try_enter()));
    loose_clock::at -= 5s;
    loose_clock::at += 5s;
    BOOST_TEST(!calls.try_enter());
    loose_clock::at += 24h;  // no more than the burst of the bucket
    BOOST_TEST(calls.stats().remaining == 10);
}

// guava#7130: five thousand permits were granted at once, at five a second.
BOOST_AUTO_TEST_CASE(guava_7130_a_grant_at_once_never_exceeds_the_burst) {
    asio::io_context ctx;
    token_bucket calls(ctx, {.rate = {5, 1s}});
    weir::error_code ec;
    BOOST_TEST(!calls.try_enter(5'000, ec));
    BOOST_TEST(ec == errc::exceeds_capacity);
    BOOST_TEST(bool(calls.try_enter()));
}

// dotnet/runtime#92557, #129036, symfony#40289: `retry_after` was missing, or was a whole window.
BOOST_AUTO_TEST_CASE(dotnet_92557_a_sliding_window_returns_a_retry_after) {
    asio::io_context ctx;
    weir::testing::limiter<weir::sliding_window> calls(
        ctx, {.limit = 10, .window = 60s, .slices = 6});
    auto const early = calls.try_enter(4);
    run_for(ctx, 20s);
    auto const late = calls.try_enter(6);
    for (int n :
         {1, 4, 5, 10}) {  // when the first or the second permit expires, and at most a slice later
        auto const wait = calls.try_enter(n).retry_after();
        BOOST_TEST_REQUIRE(bool(wait));
        BOOST_TEST(*wait >= (n <= 4 ? 40s : 60s));
        BOOST_TEST(*wait <= (n <= 4 ? 50s : 70s));
    }
    auto const wait = calls.try_enter(4).retry_after().value();
    run_for(ctx, wait - 1ns);
    BOOST_TEST(!calls.try_enter(4));
    run_for(ctx, 1ns);
    BOOST_TEST(bool(calls.try_enter(4)));
}

// uber-go/ratelimit#119, #106, #122: after a long time without requests, no request had to wait.
BOOST_AUTO_TEST_CASE(uber_119_the_pace_holds_after_a_long_pause) {
    asio::io_context ctx;
    weir::testing::limiter<weir::leaky_bucket> calls(ctx, {.rate = {10, 1s}});
    for (weir::duration const pause : {weir::duration(1ms), weir::duration(1s), weir::duration(24h),
                                       weir::duration(24h * 365 * 50)}) {
        run_for(ctx, pause);
        visit one(calls);
        visit two(calls);
        visit three(calls);
        auto const now = clock::now();
        run_for(ctx, 1s);
        BOOST_TEST((one.at() == now));
        BOOST_TEST((two.at() == now + 100ms));
        BOOST_TEST((three.at() == now + 200ms));
    }
}

BOOST_AUTO_TEST_SUITE_END()
