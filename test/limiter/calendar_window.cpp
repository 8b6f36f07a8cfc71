#include <weir/adaptive_seats.hpp>
#include <weir/any_limiter.hpp>
#include <weir/calendar_window.hpp>
#include <weir/chain.hpp>
#include <weir/policy/all.hpp>
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

    static weir::wall_time read() noexcept {
        return weir::wall_time(weir::testing::clock::now().time_since_epoch() + ahead);
    }
    // From now on it is this time of a day.
    static void set(weir::duration time) {
        ahead = 24h * 20'000 + time - weir::testing::clock::now().time_since_epoch();
    }
};

using daily = weir::testing::limiter<weir::calendar_window>;
template <class Policy>
using limiter_of = weir::basic_limiter<Policy, asio::any_io_executor, weir::testing::timer>;

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

// While the limiter is paused, its policy must not take the wall clock for the one at the end of the pause.
template <class Limiter>
void use_after_a_pause_over_midnight(asio::io_context& ctx, Limiter& quota) {
    auto const one = quota.try_enter();
    quota.pause_until(weir::testing::clock::now() + 12h);
    visit second(quota), third(quota), late(quota, 1, 13h);
    run_for(ctx, 12h - 1ns);
    BOOST_TEST(second.waiting());
    BOOST_TEST(late.rejected(weir::errc::deadline_unreachable));
    BOOST_TEST((late.seat().retry_after() == 50h));
    run_for(ctx, 1ns);
    BOOST_TEST(second.granted());
    BOOST_TEST((second.seat().reset_after() == 14h));
    run_for(ctx, 14h - 1ns);
    BOOST_TEST(third.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(third.granted());
}

BOOST_AUTO_TEST_CASE(counts_in_the_day_in_which_a_pause_ends) {
    asio::io_context ctx;
    set_clock::set(22h);
    weir::calendar_window_options const once{.limit = 1, .clock = set_clock::read};
    daily alone(ctx, once);
    use_after_a_pause_over_midnight(ctx, alone);
    set_clock::set(22h);
    weir::testing::limiter<weir::any_limiter> any(ctx, once);
    use_after_a_pause_over_midnight(ctx, any);
    set_clock::set(22h);
    limiter_of<weir::policy::all<weir::policy::calendar_window, weir::policy::seats>> both(
        ctx, {once, {.seats = 5}});
    use_after_a_pause_over_midnight(ctx, both);
}

// The limiter asks again later for seats that adapt, since time alone does not free them.
BOOST_AUTO_TEST_CASE(counts_in_the_day_in_which_a_pause_of_busy_seats_ends) {
    asio::io_context ctx;
    set_clock::set(22h);
    limiter_of<weir::policy::all<weir::policy::calendar_window, weir::policy::adaptive>> both(
        ctx, {{.limit = 2, .clock = set_clock::read},
              weir::aimd_options{.seats = 1, .min = 1, .max = 1, .slow_start = 0}});
    auto one = both.try_enter();
    both.pause_until(weir::testing::clock::now() + 12h);
    visit second(both);
    run_for(ctx, 1h);
    BOOST_TEST(second.waiting());
    both.resume();
    run_for(ctx, 2h);
    one.leave();
    run_for(ctx, 1ns);
    BOOST_TEST(second.granted());
    second.seat().leave();
    BOOST_TEST(both.stats().remaining == 1);
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
