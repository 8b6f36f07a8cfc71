#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"
#include "support/watch.hpp"

#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <utility>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

BOOST_AUTO_TEST_SUITE(limiter_permit)

BOOST_AUTO_TEST_CASE(releases_once_however_often_leave_is_called) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}};
    auto seat = kitchen.try_enter();
    seat.leave();
    BOOST_TEST(!seat);
    seat.leave();
    BOOST_TEST(kitchen.stats().remaining == 2);
    BOOST_TEST(seat.count() == 0);
    BOOST_TEST(seat.remaining() == 0);
    BOOST_TEST(seat.waited() == 0s);
    BOOST_TEST(!seat.retry_after());
}

BOOST_AUTO_TEST_CASE(moves_and_swaps) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3}};
    auto one = kitchen.try_enter(1);
    auto two = kitchen.try_enter(2);
    permit none;
    one.swap(two);
    BOOST_TEST(one.count() == 2);
    none = std::move(one);
    BOOST_TEST(none.count() == 2);
    two = std::move(none);  // releases the single seat
    BOOST_TEST(two.count() == 2);
    BOOST_TEST(kitchen.stats().remaining == 1);
    auto& same = two;
    two = std::move(same);
    BOOST_TEST(two.count() == 2);
    BOOST_TEST(kitchen.stats().live == 1U);
}

BOOST_AUTO_TEST_CASE(of_a_rejection_is_empty_and_has_a_retry_after) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 1, .window = 10s}};
    auto const page = printer.try_enter();
    BOOST_TEST(page.remaining() == 0);
    BOOST_TEST(!page.retry_after());
    run_for(ctx, 3s);
    auto none = printer.try_enter();
    BOOST_TEST(!none);
    BOOST_TEST(none.retry_after() == 7s);
    BOOST_TEST(none.waited() == 0s);
    auto moved = std::move(none);
    BOOST_TEST(moved.retry_after() == 7s);
    moved = printer.try_enter(2);
    BOOST_TEST(!moved.retry_after());  // never

    seats kitchen{ctx, {.seats = 1}};
    auto const seat = kitchen.try_enter();
    BOOST_TEST(!kitchen.try_enter().retry_after());
}

BOOST_AUTO_TEST_CASE(settles_its_amount) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 5}};
    auto meal = kitchen.try_enter(3);
    visit pair{kitchen, 3};
    settle(ctx);
    meal.settle(2);  // one seat is released, and granted to a waiting request
    settle(ctx);
    BOOST_TEST(pair.granted());
    BOOST_TEST(meal.count() == 2);

    visit guest{kitchen};
    settle(ctx);
    meal.settle(4);  // debt
    BOOST_TEST(meal.count() == 4);
    BOOST_TEST(kitchen.stats().remaining == 0);
    pair.leave();
    settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(kitchen.stats().remaining == 0);
    meal.settle(4);
    meal.settle(0);
    BOOST_TEST(bool(meal));
    BOOST_TEST(kitchen.stats().remaining == 4);
    BOOST_TEST(kitchen.stats().live == 2U);
    BOOST_CHECK_THROW(meal.settle(-1), std::invalid_argument);
    BOOST_CHECK_THROW(meal.settle(weir::max_amount + 1), std::invalid_argument);
    BOOST_TEST(meal.count() == 0);
}

BOOST_AUTO_TEST_CASE(of_0_can_be_settled_and_merged_like_any_other) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 5, .window = 10s}};
    run_for(ctx, 1min);
    auto nothing = printer.try_enter(0);
    nothing.settle(3);
    BOOST_TEST(printer.stats().remaining == 2);
    nothing.settle(0);
    BOOST_TEST(printer.stats().remaining == 5);

    auto empty = printer.try_enter(0);
    empty.merge(printer.try_enter(4));
    BOOST_TEST(empty.count() == 4);
    empty.settle(1);
    BOOST_TEST(printer.stats().remaining == 4);

    seats kitchen{ctx, {.seats = 2, .max_hold = 1s}};
    watch const watched(kitchen);
    auto late = kitchen.try_enter(0);
    late.merge(kitchen.try_enter(2));
    run_for(ctx, 2s);
    BOOST_TEST(watched.reports().size() == 1U);
    late.leave();
    BOOST_TEST(kitchen.stats().remaining == 2);
}

BOOST_AUTO_TEST_CASE(splits_and_merges) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 4}};
    auto whole = kitchen.try_enter(4);
    auto part = whole.split(1);
    BOOST_TEST(whole.count() == 3);
    BOOST_TEST(part.count() == 1);
    BOOST_TEST(kitchen.stats().live == 2U);
    BOOST_CHECK_THROW(static_cast<void>(part.split(2)), std::invalid_argument);
    BOOST_CHECK_THROW(static_cast<void>(part.split(-1)), std::invalid_argument);
    auto none = part.split(0);
    BOOST_TEST(bool(none));
    BOOST_TEST(none.count() == 0);

    part.leave();
    BOOST_TEST(kitchen.stats().remaining == 1);
    whole.merge(std::move(none));
    whole.merge(permit());
    BOOST_TEST(whole.count() == 3);
    permit collected;
    collected.merge(std::move(whole));
    BOOST_TEST(!whole);
    BOOST_TEST(collected.count() == 3);
    auto& same = collected;
    collected.merge(std::move(same));
    BOOST_TEST(collected.count() == 3);

    seats cafe{ctx, {.seats = 1}};
    auto stranger = cafe.try_enter();
    BOOST_CHECK_THROW(collected.merge(std::move(stranger)), std::invalid_argument);
    BOOST_TEST(stranger.count() == 1);
    collected.leave();
    BOOST_TEST(kitchen.stats().remaining == 4);
    BOOST_TEST(kitchen.stats().live == 0U);
}

BOOST_AUTO_TEST_CASE(can_be_charged_without_a_request) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}};
    visit nobody{kitchen, 0};
    auto debt = kitchen.charge(5);
    BOOST_TEST(debt.count() == 5);
    BOOST_TEST(kitchen.stats().remaining == 0);
    visit guest{kitchen};
    settle(ctx);
    BOOST_TEST(guest.waiting());
    debt.settle(2);
    settle(ctx);
    BOOST_TEST(guest.waiting());
    debt.settle(1);
    settle(ctx);
    BOOST_TEST(guest.granted());

    auto zero = kitchen.charge(0);
    BOOST_TEST(bool(zero));
    BOOST_TEST(zero.count() == 0);
    BOOST_CHECK_THROW(static_cast<void>(kitchen.charge(weir::max_amount + 1)),
                      std::invalid_argument);
    BOOST_TEST(kitchen.stats().live == 4U);
}

BOOST_AUTO_TEST_CASE(charged_to_a_rate_limit_delays_waiting_requests) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 2, .window = 10s}};
    auto const page = printer.try_enter(2);
    auto const start = clock::now();
    visit guest{printer};
    run_for(ctx, 4s);
    auto const more = printer.charge(2);
    run_for(ctx, 1min);
    BOOST_TEST(guest.granted());
    BOOST_TEST(guest.at() == start + 14s);
}

BOOST_AUTO_TEST_SUITE_END()
