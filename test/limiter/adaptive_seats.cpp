#include <weir/adaptive_seats.hpp>
#include <weir/any_limiter.hpp>
#include <weir/chain.hpp>
#include <weir/keyed.hpp>

#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <utility>
#include <vector>

using namespace support;
using weir::errc;
using weir::outcome;
using weir::permit;

namespace {

using adaptive = weir::testing::limiter<weir::adaptive_seats>;

// Each permit changes the number of seats: up by 1, or down to nine tenths if the request was dropped.
constexpr weir::aimd_options each_by_itself{
    .seats = 2, .min = 1, .max = 4, .slow_start = 0, .timeout = 1s, .samples = 1};

}  // namespace

BOOST_AUTO_TEST_SUITE(adaptive_limiter)

BOOST_AUTO_TEST_CASE(gains_seats_after_successful_permits) {
    asio::io_context ctx;
    adaptive kitchen{ctx, each_by_itself};
    auto one = kitchen.try_enter();
    auto two = kitchen.try_enter();
    visit third{kitchen};
    visit fourth{kitchen};
    visit fifth{kitchen};
    run_for(ctx, 10ms);
    BOOST_TEST(third.waiting());
    BOOST_TEST(kitchen.stats().capacity == 2);
    one.leave();  // it has 3 seats now
    settle(ctx);
    BOOST_TEST(third.granted());
    BOOST_TEST(fourth.granted());
    BOOST_TEST(fifth.waiting());
    auto const s = kitchen.stats();
    BOOST_TEST(s.capacity == 3);
    BOOST_TEST(s.in_use == 3);
    BOOST_TEST(s.remaining == 0);
}

BOOST_AUTO_TEST_CASE(takes_outcomes_from_a_chain) {
    asio::io_context ctx;
    adaptive kitchen{ctx, each_by_itself};
    adaptive waiters{ctx, each_by_itself};
    weir::chain both{kitchen, waiters};
    auto one = both.try_enter();
    auto two = both.try_enter();
    run_for(ctx, 10ms);
    one.report(outcome::dropped);
    one.leave();
    BOOST_TEST(kitchen.stats().capacity == 1);
    BOOST_TEST(waiters.stats().capacity == 1);
    run_for(ctx, 10ms);
    auto const three = both.try_enter();  // the only seat is in use
    BOOST_TEST(!three);
    two.leave();
    BOOST_TEST(bool(both.try_enter()));
}

BOOST_AUTO_TEST_CASE(loses_seats_after_dropped_or_slow_permits) {
    asio::io_context ctx;
    adaptive kitchen{ctx, each_by_itself};
    auto one = kitchen.try_enter();
    auto two = kitchen.try_enter();
    run_for(ctx, 10ms);
    one.report(outcome::dropped);
    one.leave();
    BOOST_TEST(kitchen.stats().capacity == 1);
    BOOST_TEST(kitchen.stats().remaining == 0);
    two.refund();
    BOOST_TEST(kitchen.stats().remaining == 1);

    adaptive slow{ctx, each_by_itself};
    auto three = slow.try_enter();
    run_for(ctx, 1001ms);
    three.leave();
    BOOST_TEST(slow.stats().capacity == 1);
}

BOOST_AUTO_TEST_CASE(ignores_permits_that_are_ignored_or_refunded) {
    asio::io_context ctx;
    adaptive kitchen{ctx, each_by_itself};
    auto one = kitchen.try_enter(2);
    run_for(ctx, 2s);
    one.report(outcome::ignored);
    one.leave();
    BOOST_TEST(kitchen.stats().capacity == 2);
    auto two = kitchen.try_enter(2);
    run_for(ctx, 2s);
    two.report(outcome::dropped);
    two.refund();
    auto three = kitchen.try_enter(2);
    run_for(ctx, 2s);
    three.settle(0);
    three.leave();
    BOOST_TEST(kitchen.stats().capacity == 2);
    BOOST_TEST(kitchen.stats().remaining == 2);
}

BOOST_AUTO_TEST_CASE(grants_a_request_above_its_seats_when_it_is_alone) {
    asio::io_context ctx;
    adaptive kitchen{ctx, each_by_itself};
    weir::error_code ec;
    BOOST_TEST(!kitchen.try_enter(5, ec));
    BOOST_TEST(ec == errc::exceeds_capacity);
    auto one = kitchen.try_enter();
    visit four{kitchen, 4};
    run_for(ctx, 2s);
    BOOST_TEST(four.waiting());
    one.report(outcome::ignored);
    one.leave();
    settle(ctx);
    BOOST_TEST(four.granted());
    BOOST_TEST(kitchen.stats().debt == 2);
}

BOOST_AUTO_TEST_CASE(can_be_selected_at_run_time) {
    asio::io_context ctx;
    weir::testing::limiter<weir::any_limiter> kitchen{
        ctx, weir::limiter_config::parse("2 aimd min 1 max 4 slow_start 0 samples 1 & 9/1s")};
    auto one = kitchen.try_enter(2);
    run_for(ctx, 10ms);
    one.report(outcome::dropped);
    one.leave();
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_CASE(can_exist_for_each_key) {
    asio::io_context ctx;
    weir::basic_keyed<int, weir::policy::adaptive, asio::any_io_executor, weir::testing::timer>
        tables{ctx, each_by_itself};
    auto a = tables.try_enter(1, 2);
    auto b = tables.try_enter(2, 2);
    visit waits;
    tables.async_enter(2, waits.callback());
    run_for(ctx, 10ms);
    a.report(outcome::dropped);
    b.report(outcome::dropped);
    a.leave();  // no request waits for this key
    b.leave();  // a request waits for this key
    settle(ctx);
    BOOST_TEST(waits.granted());
    BOOST_TEST(tables.stats(1).remaining == 1);
    BOOST_TEST(tables.stats(2).remaining == 0);
}

// Three streams hold all seats, and nothing is released. The limiter wakes up without a release.
BOOST_AUTO_TEST_CASE(grants_a_waiting_request_on_trial_while_streams_hold_all_seats) {
    weir::knee_options const three{.seats = 3, .max = 20};
    auto const check = [](auto& kitchen, asio::io_context& ctx, auto join) {
        auto streams = kitchen.try_enter(3);
        visit first;
        visit second;
        join(first);
        join(second);
        run_for(ctx, 15s - 1ns);
        BOOST_TEST(first.waiting());
        run_for(ctx, 1ns);
        BOOST_TEST(first.granted());
        BOOST_TEST(second.waiting());
        first.leave();  // before the streams, which are long calls now
        settle(ctx);
        BOOST_TEST(second.granted());
        BOOST_TEST(kitchen.stats().capacity == 6);
    };
    {
        asio::io_context ctx;
        adaptive kitchen{ctx, three};
        check(kitchen, ctx, [&](visit& v) { kitchen.async_enter(v.callback()); });
    }
    {
        asio::io_context ctx;
        weir::testing::limiter<weir::any_limiter> kitchen{ctx, three};
        check(kitchen, ctx, [&](visit& v) { kitchen.async_enter(v.callback()); });
    }
    {
        asio::io_context ctx;
        weir::testing::limiter<weir::any_limiter> kitchen{
            ctx, weir::limiter_config::parse("3 knee max 20 & 100 seats")};
        auto streams = kitchen.try_enter(3);
        visit first{kitchen};
        run_for(ctx, 15s);
        BOOST_TEST(first.granted());
    }
}

BOOST_AUTO_TEST_CASE(grants_a_waiting_request_of_a_key_or_chain_on_trial) {
    weir::knee_options const three{.seats = 3, .max = 20};
    asio::io_context ctx;
    weir::basic_keyed<int, weir::policy::adaptive, asio::any_io_executor, weir::testing::timer>
        tables{ctx, three};
    auto streams = tables.try_enter(1, 3);
    visit waits;
    tables.async_enter(1, waits.callback());
    run_for(ctx, 15s);
    BOOST_TEST(waits.granted());

    adaptive kitchen{ctx, three};
    adaptive waiters{ctx, three};
    weir::chain both{kitchen, waiters};
    auto const more_streams = waiters.try_enter(3);
    bool granted = false;
    both.async_enter([&](weir::error_code ec, weir::chain_permit<2> const&) { granted = !ec; });
    run_for(ctx, 15s);
    BOOST_TEST(granted);
}

BOOST_AUTO_TEST_SUITE_END()
