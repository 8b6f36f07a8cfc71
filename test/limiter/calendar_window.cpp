#include <weir/calendar_window.hpp>
#include <weir/chain.hpp>
#include <weir/seats.hpp>
#include <weir/testing.hpp>

#include "support/visit.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::visit;
using weir::testing::run_for;

namespace {

// A wall clock on virtual time, which a test sets.
struct set_clock {
    static inline weir::duration ahead{};

    static std::chrono::system_clock::time_point read() noexcept {
        return std::chrono::system_clock::time_point(
            std::chrono::floor<std::chrono::system_clock::duration>(
                weir::testing::clock::now().time_since_epoch() + ahead));
    }
    // From now on it is this time of a day.
    static void set(weir::duration time) {
        ahead = 24h * 20'000 + time - weir::testing::clock::now().time_since_epoch();
    }
};

using daily = weir::testing::limiter<weir::calendar_window>;

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_of_a_day)

BOOST_AUTO_TEST_CASE(grants_waiting_requests_at_midnight) {
    asio::io_context ctx;
    set_clock::set(22h);
    daily quota(ctx, {.limit = 2, .clock = set_clock::read});
    auto const both = quota.try_enter(2);
    BOOST_TEST((both.reset_after() == 2h));
    visit first(quota), second(quota), third(quota);
    run_for(ctx, 2h - 1ns);
    BOOST_TEST(first.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(first.granted());
    BOOST_TEST(second.granted());
    BOOST_TEST(third.waiting());
    run_for(ctx, 24h);
    BOOST_TEST(third.granted());
    BOOST_TEST(third.seat().waited() == 26h);
}

BOOST_AUTO_TEST_CASE(rejects_with_the_time_until_midnight) {
    asio::io_context ctx;
    set_clock::set(22h);
    daily quota(ctx, {.limit = 1, .clock = set_clock::read}, {.patience = 1h});
    auto const one = quota.try_enter();
    visit second(quota);
    run_for(ctx, 1s);
    BOOST_TEST(second.rejected(weir::errc::deadline_unreachable));
    BOOST_TEST((second.seat().retry_after() == 2h));
}

// The timer of the first prediction is too early.
BOOST_AUTO_TEST_CASE(waits_longer_if_the_clock_is_set_back) {
    asio::io_context ctx;
    set_clock::set(22h);
    daily quota(ctx, {.limit = 1, .clock = set_clock::read});
    auto const one = quota.try_enter();
    visit second(quota);
    run_for(ctx, 1h);
    set_clock::set(22h + 45min);  // was 23 h
    run_for(ctx, 1h + 15min - 1ns);
    BOOST_TEST(second.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(second.granted());
}

// Between two uses the limiter does not read the clock.
BOOST_AUTO_TEST_CASE(notices_a_clock_that_is_set_forward_within_a_minute_of_use) {
    asio::io_context ctx;
    set_clock::set(22h);
    daily quota(ctx, {.limit = 1, .clock = set_clock::read});
    auto const one = quota.try_enter();
    visit second(quota);
    run_for(ctx, 30s);
    set_clock::set(24h);
    visit third(quota);
    run_for(ctx, 20s);
    BOOST_TEST(second.waiting());
    run_for(ctx, 10s);
    visit fourth(quota);
    run_for(ctx, 1ns);
    BOOST_TEST(second.granted());
    BOOST_TEST(third.waiting());
}

// A paused limiter asks its policy as of the end of the pause.
BOOST_AUTO_TEST_CASE(begins_a_day_after_a_long_pause_that_was_ended) {
    asio::io_context ctx;
    set_clock::set(22h);
    daily quota(ctx, {.limit = 1, .clock = set_clock::read});
    auto const one = quota.try_enter();
    quota.pause_until(weir::testing::clock::now() + 30 * 24h);
    visit second(quota);
    run_for(ctx, 1h);
    BOOST_TEST(second.waiting());
    quota.resume();
    run_for(ctx, 1h - 1ns);
    BOOST_TEST(second.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(second.granted());
}

BOOST_AUTO_TEST_CASE(is_part_of_a_chain) {
    asio::io_context ctx;
    set_clock::set(23h);
    daily quota(ctx, {.limit = 2, .clock = set_clock::read});
    weir::testing::limiter<weir::seats> seats(ctx, {.seats = 1});
    weir::chain both{quota, seats};
    auto first = both.try_enter();
    BOOST_TEST(bool(first));
    weir::error_code ec;
    BOOST_TEST(!both.try_enter(ec));
    BOOST_TEST(quota.stats().remaining == 1);
    first = {};
    auto second = both.try_enter();
    second = {};
    BOOST_TEST(!both.try_enter(ec));
    run_for(ctx, 1h);
    BOOST_TEST(bool(both.try_enter()));
}

BOOST_AUTO_TEST_SUITE_END()
