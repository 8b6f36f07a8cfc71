#include <weir/token_bucket.hpp>

#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <vector>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;
using weir::when_full;

BOOST_AUTO_TEST_SUITE(limiter_queue)

// Found elsewhere: failsafe#328.
BOOST_AUTO_TEST_CASE(with_a_bound_of_0_lets_no_request_wait) {
    asio::io_context ctx;
    for (auto const full : {when_full::reject_newest, when_full::evict_oldest}) {
        seats kitchen{ctx, {.seats = 1}, {.max_waiting = 0, .full = full}};
        auto seat = kitchen.try_enter();
        visit guest{kitchen};
        settle(ctx);
        BOOST_TEST(guest.rejected(errc::queue_full));
        BOOST_TEST(kitchen.stats().queue_full == 1U);
        seat.leave();
        visit next{kitchen};
        settle(ctx);
        BOOST_TEST(next.granted());
        BOOST_TEST(ctx.stopped());
    }
}

BOOST_AUTO_TEST_CASE(full_rejects_newcomers_until_it_has_room_again) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.max_waiting = 2}};
    auto seat = kitchen.try_enter();
    visit first{kitchen};
    visit second{kitchen, 1s};
    visit third{kitchen};  // before any handler runs
    settle(ctx);
    visit fourth{kitchen};
    settle(ctx);
    BOOST_TEST(third.rejected(errc::queue_full));
    BOOST_TEST(fourth.rejected(errc::queue_full));
    BOOST_TEST(first.waiting());
    BOOST_TEST(second.waiting());

    run_for(ctx, 2s);
    BOOST_TEST(second.rejected(errc::timed_out));
    visit fifth{kitchen};
    settle(ctx);
    BOOST_TEST(fifth.waiting());
}

BOOST_AUTO_TEST_CASE(full_can_drop_the_oldest_request_instead) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.max_waiting = 2, .full = when_full::evict_oldest}};
    auto seat = kitchen.try_enter();
    visit first{kitchen};
    visit second{kitchen};
    visit third{kitchen};  // before any handler runs
    BOOST_TEST(first.waiting());
    settle(ctx);
    BOOST_TEST(first.rejected(errc::shed));
    visit fourth{kitchen};
    settle(ctx);
    BOOST_TEST(second.rejected(errc::shed));
    BOOST_TEST(third.waiting());
    BOOST_TEST(fourth.waiting());
    BOOST_TEST(kitchen.stats().shed == 2U);
    BOOST_TEST(kitchen.stats().waiting == 2U);
    seat.leave();
    settle(ctx);
    BOOST_TEST(third.granted());
}

BOOST_AUTO_TEST_CASE(an_evicted_large_head_makes_room_for_the_next_requests) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 3}, {.max_waiting = 2, .full = when_full::evict_oldest}};
    auto seat = kitchen.try_enter();
    visit everything{kitchen, 3};
    visit one{kitchen};
    settle(ctx);
    visit other{kitchen};
    settle(ctx);
    BOOST_TEST(everything.rejected(errc::shed));
    BOOST_TEST(one.granted());
    BOOST_TEST(other.granted());
    BOOST_TEST(kitchen.stats().remaining == 0);
}

// The newcomer evicts a request. The evicted one does not count in the newcomer's expected wait.
BOOST_AUTO_TEST_CASE(the_evicted_request_does_not_cause_a_rejection_of_the_newcomer) {
    asio::io_context ctx;
    weir::testing::limiter<weir::token_bucket> b{
        ctx,
        {.rate = weir::rate{1, 1s}, .burst = 10, .initial = 0},
        {.max_waiting = 1, .full = when_full::evict_oldest}};
    visit big{b, 10};
    visit small{b, 1, 2s};
    settle(ctx);
    BOOST_TEST(big.rejected(errc::shed));
    BOOST_TEST(small.waiting());
    auto const now = clock::now();
    run_for(ctx, 20s);
    BOOST_TEST(small.granted());
    BOOST_TEST(small.at() == now + 1s);

    // The remaining requests still go before it.
    b.configure_queue([](weir::queue_options& o) { o.max_waiting = 2; });
    auto const all = b.charge(10);
    visit first{b, 1};
    visit second{b, 5};
    visit third{b, 1, 2s};
    settle(ctx);
    BOOST_TEST(third.rejected(errc::deadline_unreachable));
    BOOST_TEST(first.waiting());
    BOOST_TEST(second.waiting());
}

BOOST_AUTO_TEST_CASE(a_request_evicted_from_a_rate_limit_gets_a_retry_after) {
    asio::io_context ctx;
    sliding_log printer{
        ctx, {.limit = 1, .window = 10s}, {.max_waiting = 1, .full = when_full::evict_oldest}};
    auto const page = printer.try_enter();
    visit first{printer};
    run_for(ctx, 3s);
    visit second{printer};
    settle(ctx);
    BOOST_TEST(first.rejected(errc::shed));
    BOOST_TEST(first.seat().retry_after() == 17s);  // behind the newcomer
    auto const now = clock::now();
    run_for(ctx, 10s);
    BOOST_TEST(second.granted());
    BOOST_TEST(second.at() == now + 7s);
}

BOOST_AUTO_TEST_CASE(a_rejected_request_gets_a_retry_after_that_counts_the_queue) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 1, .window = 10s}, {.max_waiting = 2}};
    auto const page = printer.try_enter();
    run_for(ctx, 4s);
    visit first{printer};
    visit second{printer};
    visit third{printer};
    settle(ctx);
    BOOST_TEST(third.rejected(errc::queue_full));
    BOOST_TEST(third.seat().retry_after() == 26s);
    error_code ec;
    BOOST_TEST(printer.try_enter(1, ec).retry_after() == 26s);
    BOOST_TEST(ec == errc::no_permit);
}

BOOST_AUTO_TEST_CASE(every_removal_makes_room_at_once) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.max_waiting = 1}};
    auto const seat = kitchen.try_enter();
    asio::cancellation_signal signal;
    visit guest;
    kitchen.async_enter(asio::bind_cancellation_slot(signal.slot(), guest.callback()));
    settle(ctx);
    signal.emit(asio::cancellation_type::terminal);
    visit next{kitchen};  // before the handler of the removed request runs
    settle(ctx);
    BOOST_TEST(guest.rejected(asio::error::operation_aborted));
    BOOST_TEST(next.waiting());
}

BOOST_AUTO_TEST_CASE(options_can_change_while_requests_wait) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.max_waiting = 3}};
    auto seat = kitchen.try_enter();
    visit first{kitchen};
    visit second{kitchen, 10s};
    visit third{kitchen};
    settle(ctx);
    kitchen.configure_queue([](weir::queue_options& o) {
        o.max_waiting = 1;
        o.patience = 2s;
    });
    BOOST_TEST(kitchen.queueing().max_waiting == 1);
    BOOST_TEST((kitchen.queueing().full == when_full::reject_newest));
    visit fourth{kitchen};
    run_for(ctx, 5s);
    BOOST_TEST(fourth.rejected(errc::queue_full));
    for (auto const* const guest : {&first, &second, &third})
        BOOST_TEST(guest->waiting());  // with the patience that they had at their arrival
    run_for(ctx, 6s);
    BOOST_TEST(second.rejected(errc::timed_out));
    seat.leave();
    settle(ctx);
    first.leave();
    settle(ctx);
    BOOST_TEST(third.granted());
    visit fifth{kitchen};
    run_for(ctx, 1s);
    BOOST_TEST(fifth.waiting());
    run_for(ctx, 2s);
    BOOST_TEST(fifth.rejected(errc::timed_out));

    // From now on newcomers evict the oldest requests.
    kitchen.configure_queue([](weir::queue_options& o) { o.full = when_full::evict_oldest; });
    visit old{kitchen};
    visit young{kitchen};
    settle(ctx);
    BOOST_TEST(old.rejected(errc::shed));
    BOOST_TEST(young.waiting());
}

BOOST_AUTO_TEST_CASE(does_not_change_on_invalid_options_or_an_exception) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.max_waiting = 3}};
    BOOST_CHECK_THROW(kitchen.configure_queue([](weir::queue_options& o) { o.max_waiting = -1; }),
                      std::invalid_argument);
    auto const failing = [](weir::queue_options& o) {
        o.max_waiting = 7;
        throw std::runtime_error("changed my mind");
    };
    BOOST_CHECK_THROW(kitchen.configure_queue(failing), std::runtime_error);
    BOOST_TEST(kitchen.queueing().max_waiting == 3);
}

// Like two threads at the same time.
BOOST_AUTO_TEST_CASE(loses_no_change_during_another_one) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.max_waiting = 1}};
    int calls = 0;
    kitchen.configure_queue([&](weir::queue_options& o) {
        o.max_waiting += 10;
        if (++calls == 1)
            kitchen.configure_queue([](weir::queue_options& meanwhile) {
                meanwhile.max_waiting += 100;
                meanwhile.full = when_full::evict_oldest;
            });
    });
    BOOST_TEST(calls == 2);
    BOOST_TEST(kitchen.queueing().max_waiting == 111);
    BOOST_TEST((kitchen.queueing().full == when_full::evict_oldest));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(limiter_stats)

BOOST_AUTO_TEST_CASE(contain_the_waits_of_granted_requests) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit first{kitchen};
    visit second{kitchen};
    visit impatient{kitchen, 1s};
    BOOST_TEST(kitchen.snapshot().waits.count() == 0U);
    run_for(ctx, 2s);
    seat.leave();
    settle(ctx);

    auto const before = kitchen.snapshot();
    BOOST_TEST(before.stats.granted == 2U);
    BOOST_TEST(before.stats.timed_out == 1U);
    BOOST_TEST(before.waits.count() == 1U);
    BOOST_TEST((before.waits.quantile(1) >= 2s && before.waits.quantile(1) <= 2250ms));

    run_for(ctx, 6s);
    first.leave();
    settle(ctx);
    auto const lately = kitchen.snapshot().waits - before.waits;
    BOOST_TEST(lately.count() == 1U);
    BOOST_TEST((lately.quantile(0.5) >= 8s && lately.quantile(0.5) <= 9s));
}

BOOST_AUTO_TEST_CASE(add_up) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}, {.max_waiting = 3, .full = when_full::evict_oldest}};
    auto one = kitchen.try_enter();
    auto two = kitchen.try_enter();
    visit waited{kitchen};             // granted after 2 s
    visit impatient{kitchen, 1s};      // timed_out
    visit patient{kitchen, 2};         // granted after 4 s
    visit too_big{kitchen, 3};         // exceeds_capacity
    visit in_a_hurry{kitchen, 0s};     // timed_out
    BOOST_TEST(!kitchen.try_enter());  // no_permit
    auto now = kitchen.stats();
    BOOST_TEST(now.waiting == 3U);
    BOOST_TEST(now.waiting_for == 4);
    BOOST_TEST(now.live == 2U);
    BOOST_TEST(now.remaining == 0);
    BOOST_TEST(now.granted == 2U);
    BOOST_TEST(now.granted_immediately == 2U);

    run_for(ctx, 2s);
    now = kitchen.stats();
    BOOST_TEST(now.oldest_wait == 2s);
    BOOST_TEST(now.waiting == 2U);
    one.leave();
    run_for(ctx, 2s);
    waited.leave();
    two.leave();
    settle(ctx);
    now = kitchen.stats();
    BOOST_TEST(now.granted == 4U);
    BOOST_TEST(now.granted_immediately == 2U);
    BOOST_TEST(now.waited_total == 6s);
    BOOST_TEST(now.waited_max == 4s);
    BOOST_TEST(now.oldest_wait == 0s);
    BOOST_TEST(now.live == 1U);
    BOOST_TEST(patient.seat().waited() == 4s);

    visit first{kitchen};
    visit second{kitchen};
    visit third{kitchen};
    visit fourth{kitchen};
    settle(ctx);
    kitchen.cancel();
    settle(ctx);
    kitchen.close();
    visit late{kitchen};
    settle(ctx);
    now = kitchen.stats();
    BOOST_TEST(now.no_permit == 1U);
    BOOST_TEST(now.timed_out == 2U);
    BOOST_TEST(now.exceeds_capacity == 1U);
    BOOST_TEST(now.shed == 1U);
    BOOST_TEST(now.cancelled == 3U);
    BOOST_TEST(now.closed == 1U);
    BOOST_TEST(now.queue_full == 0U);
    BOOST_TEST(now.deadline_unreachable == 0U);
    BOOST_TEST(now.waiting == 0U);
    BOOST_TEST(now.waiting_for == 0);
    patient.leave();
    BOOST_TEST(kitchen.stats().remaining == 2);
}

BOOST_AUTO_TEST_CASE(count_the_wait_from_the_call_even_if_the_context_did_not_run) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit guest{kitchen};
    clock::advance_to(clock::now() + 3s);
    BOOST_TEST(kitchen.stats().oldest_wait == 3s);
    seat.leave();
    settle(ctx);
    BOOST_TEST(guest.seat().waited() == 3s);
}

BOOST_AUTO_TEST_CASE(count_no_rejected_request_as_in_use) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 2, .window = 10s}};
    auto const page = printer.try_enter();
    for (int i = 0; i != 5; ++i) {
        BOOST_TEST(!printer.try_enter(2));
        visit impatient{printer, 2, 5s};
        settle(ctx);
        BOOST_TEST(impatient.rejected(errc::deadline_unreachable));
    }
    BOOST_TEST(printer.stats().remaining == 1);
    BOOST_TEST(bool(printer.try_enter()));
}

BOOST_AUTO_TEST_SUITE_END()
