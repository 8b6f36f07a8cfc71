#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <vector>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;
using weir::seats_options;
using weir::sliding_log_options;

BOOST_AUTO_TEST_SUITE(limiter_configure)

BOOST_AUTO_TEST_CASE(more_seats_grant_as_many_waiting_requests_at_once) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto const seat = kitchen.try_enter();
    visit first{kitchen};
    visit pair{kitchen, 1};
    visit last{kitchen};
    settle(ctx);
    kitchen.configure({.seats = 3});
    BOOST_TEST(!kitchen.try_enter());  // waiting_requests_go_first
    settle(ctx);
    BOOST_TEST(first.granted());
    BOOST_TEST(pair.granted());
    BOOST_TEST(last.waiting());
    BOOST_TEST(kitchen.options().seats == 3);
}

BOOST_AUTO_TEST_CASE(fewer_seats_revoke_no_permit_and_grant_none_until_it_fits) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 4}};
    std::vector<permit> held;
    for (int i = 0; i != 4; ++i)
        held.push_back(kitchen.try_enter());
    visit guest{kitchen};
    settle(ctx);
    kitchen.configure({.seats = 2});
    settle(ctx);
    BOOST_TEST(kitchen.stats().live == 4U);
    BOOST_TEST(kitchen.stats().remaining == 0);
    held.pop_back();
    held.pop_back();
    settle(ctx);
    BOOST_TEST(guest.waiting());
    held.pop_back();
    settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(!kitchen.try_enter());
}

BOOST_AUTO_TEST_CASE(a_function_changes_only_the_options_that_it_assigns) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 4, .max_hold = 3s}};
    kitchen.configure([](seats_options& o) { o.seats = 7; });
    BOOST_TEST(kitchen.options().seats == 7);
    BOOST_TEST(kitchen.options().max_hold == 3s);
    kitchen.configure([](seats_options& o) { o.max_hold = weir::forever; });
    BOOST_TEST(kitchen.options().seats == 7);
    BOOST_TEST(kitchen.options().max_hold == weir::forever);
}

BOOST_AUTO_TEST_CASE(a_function_can_use_and_configure_the_limiter) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    int calls = 0;
    kitchen.configure([&](seats_options& o) {
        if (++calls == 1)
            kitchen.configure([](seats_options& meanwhile) { meanwhile.max_hold = 9s; });
        o.seats = kitchen.options().seats + 1;
    });
    BOOST_TEST(calls == 2);
    BOOST_TEST(kitchen.options().seats == 2);
    BOOST_TEST(kitchen.options().max_hold == 9s);
}

BOOST_AUTO_TEST_CASE(invalid_options_throw_and_change_nothing) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}};
    auto seat = kitchen.try_enter();
    visit pair{kitchen, 2};
    settle(ctx);
    BOOST_CHECK_THROW(kitchen.configure({.seats = 0}), std::invalid_argument);
    BOOST_CHECK_THROW(kitchen.configure([](seats_options& o) { o.max_hold = -1s; }),
                      std::invalid_argument);
    auto failing = [](seats_options& o) {
        o.seats = 7;
        throw std::runtime_error("changed my mind");
    };
    BOOST_CHECK_THROW(kitchen.configure(failing), std::runtime_error);
    settle(ctx);
    BOOST_TEST(kitchen.options().seats == 2);
    BOOST_TEST(kitchen.options().max_hold == weir::forever);
    BOOST_TEST(pair.waiting());
    seat.leave();
    settle(ctx);
    BOOST_TEST(pair.granted());

    sliding_log printer{ctx, {.limit = 2, .window = 10s}};
    auto const page = printer.try_enter(2);
    visit guest{printer};
    settle(ctx);
    BOOST_CHECK_THROW(printer.configure({.limit = 5, .window = 0s}), std::invalid_argument);
    settle(ctx);
    BOOST_TEST(printer.options().limit == 2);
    BOOST_TEST(guest.waiting());
}

BOOST_AUTO_TEST_CASE(an_impossible_request_is_rejected_and_the_next_one_is_granted) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 5}};
    auto const seat = kitchen.try_enter(2);
    visit big{kitchen, 4};
    visit small{kitchen, 1};
    visit also_big{kitchen, 5, 1h};
    settle(ctx);
    kitchen.configure({.seats = 3});
    settle(ctx);
    BOOST_TEST(big.rejected(errc::exceeds_capacity));
    BOOST_TEST(also_big.rejected(errc::exceeds_capacity));
    BOOST_TEST(small.granted());
    BOOST_TEST(kitchen.stats().waiting == 0U);
    BOOST_TEST(kitchen.stats().exceeds_capacity == 2U);
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));
}

BOOST_AUTO_TEST_CASE(a_request_that_would_miss_its_deadline_is_rejected_at_once) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 1, .window = 10s}};
    auto const page = printer.try_enter();
    visit first{printer, 15s};
    visit second{printer, 25s};
    visit third{printer, 1h};
    run_for(ctx, 5s);
    auto const now = clock::now();
    printer.configure([](sliding_log_options& o) { o.window = 21s; });
    settle(ctx);
    BOOST_TEST(first.rejected(errc::deadline_unreachable));
    BOOST_TEST(first.seat().retry_after() == 58s);  // behind the requests that still wait
    BOOST_TEST(second.waiting());                   // in time, because the first was rejected
    run_for(ctx, 1h);
    BOOST_TEST(second.granted());
    BOOST_TEST(second.at() == now + 16s);
    BOOST_TEST(third.granted());
    BOOST_TEST(third.at() == now + 16s + 21s);
}

// Found elsewhere: governor#273, cadence#1874, ulule/limiter#122.
BOOST_AUTO_TEST_CASE(waiting_requests_get_the_new_grant_time) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 1, .window = 1h}};
    auto const page = printer.try_enter();
    auto const start = clock::now();
    visit first{printer};
    visit second{printer};
    run_for(ctx, 1min);
    printer.configure({.limit = 1, .window = 90s});
    run_for(ctx, 5min);
    BOOST_TEST(first.at() == start + 90s);
    BOOST_TEST(second.at() == start + 180s);

    // A request that a change makes possible is granted at once.
    visit third{printer};
    visit fourth{printer};
    settle(ctx);
    BOOST_TEST(third.granted());
    BOOST_TEST(fourth.waiting());
    printer.configure({.limit = 2, .window = 90s});
    settle(ctx);
    BOOST_TEST(fourth.granted());
}

BOOST_AUTO_TEST_CASE(a_great_many_are_checked_again_in_bounded_steps) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 10}, {.max_waiting = 5000}};
    auto const all = kitchen.try_enter(10);
    std::vector<visit> guests;
    for (int i = 0; i != 4000; ++i)
        guests.emplace_back(kitchen, i % 2 == 0 ? 10 : 1);
    settle(ctx);
    kitchen.configure({.seats = 9});
    settle(ctx);
    for (std::size_t i = 0; i != guests.size(); ++i)
        BOOST_TEST_REQUIRE(
            (i % 2 == 0 ? guests[i].rejected(errc::exceeds_capacity) : guests[i].waiting()));
    kitchen.cancel();
    settle(ctx);
}

// Waiting requests are checked again in batches, and newcomers can arrive between any two.
BOOST_AUTO_TEST_CASE(a_newcomer_is_rejected_at_once_however_many_are_being_checked) {
    for (bool const cancel : {false, true}) {
        for (int n = 1; n != 70; ++n) {
            asio::io_context ctx;
            sliding_log printer{ctx, {.limit = 1, .window = 1h}};
            auto const page = printer.try_enter();
            for (int i = 0; i != n; ++i)
                printer.async_enter([](error_code, permit) {});
            settle(ctx);
            if (cancel)
                printer.cancel();
            else
                printer.configure({.limit = 1, .window = 2h});
            visit newcomer{printer, 5s};
            settle(ctx);
            BOOST_TEST(newcomer.rejected(errc::deadline_unreachable),
                       n << " were waiting" << (cancel ? ", and are cancelled" : ""));
            printer.cancel();
            settle(ctx);
        }
    }
}

// Like two threads at the same time.
BOOST_AUTO_TEST_CASE(loses_no_change_during_another_one) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    int calls = 0;
    kitchen.configure([&](seats_options& o) {
        o.seats += 10;
        if (++calls == 1)
            kitchen.configure([](seats_options& meanwhile) {
                meanwhile.seats += 100;
                meanwhile.max_hold = 5s;
            });
    });
    BOOST_TEST(calls == 2);
    BOOST_TEST(kitchen.options().seats == 111);
    BOOST_TEST(kitchen.options().max_hold == 5s);
}

BOOST_AUTO_TEST_CASE(without_waiting_requests_needs_no_context) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    kitchen.configure({.seats = 2});
    BOOST_TEST(bool(kitchen.try_enter(2)));
    BOOST_TEST(kitchen.options().seats == 2);
    ctx.poll();
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_SUITE_END()
