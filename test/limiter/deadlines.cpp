#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/seats.hpp>
#include <weir/token_bucket.hpp>

#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

BOOST_AUTO_TEST_SUITE(limiter_deadlines)

BOOST_AUTO_TEST_CASE(patience_ends_with_timed_out_and_never_early) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.tolerance = 0ns}};
    auto const seat = kitchen.try_enter();
    auto const start = clock::now();
    visit guest{kitchen, 1s};
    run_for(ctx, 1s);
    BOOST_TEST(guest.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(guest.rejected(errc::timed_out));
    BOOST_TEST(guest.at() == start + 1s + 1ns);
    BOOST_TEST(!guest.seat().retry_after());
    BOOST_TEST((error_code(errc::timed_out) == boost::system::errc::timed_out));
}

BOOST_AUTO_TEST_CASE(patience_of_any_type_is_rounded_up) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.tolerance = 0ns}};
    auto const seat = kitchen.try_enter();
    auto const start = clock::now();
    visit half{kitchen, 0.5s};
    visit tiny{kitchen, std::chrono::duration<double, std::pico>(1)};
    visit days{kitchen, std::chrono::days(1)};
    visit frame{kitchen, 1, std::chrono::duration<std::int32_t, std::ratio<1, 3>>(1)};
    run_for(ctx, 48h);
    BOOST_TEST(half.at() == start + 500ms + 1ns);
    BOOST_TEST(tiny.at() == start + 2ns);
    BOOST_TEST(days.at() == start + 24h + 1ns);
    BOOST_TEST(frame.at() == start + 333'333'334ns + 1ns);
}

BOOST_AUTO_TEST_CASE(patience_of_0_or_less_grants_or_rejects_at_once) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    sliding_log printer{ctx, {.limit = 1, .window = 1min}};
    for (auto const none : {weir::patience(0s), weir::patience(-1s), weir::patience(-0.0s),
                            weir::patience(std::chrono::hours::min()),
                            weir::patience(-std::numeric_limits<double>::infinity() * 1s)}) {
        {
            visit granted{kitchen, none};
            settle(ctx);
            BOOST_TEST(granted.granted());
            visit rejected{kitchen, none};
            settle(ctx);
            BOOST_TEST(rejected.rejected(errc::timed_out));
        }
        visit first{printer, none};
        visit second{printer, none};
        settle(ctx);
        BOOST_TEST(second.rejected(errc::deadline_unreachable));
        BOOST_TEST(second.seat().retry_after() == 1min);
        run_for(ctx, 1min);
    }
    BOOST_TEST(kitchen.stats().waiting == 0U);
    BOOST_TEST(printer.stats().granted == 5U);
}

BOOST_AUTO_TEST_CASE(endless_patience_never_ends) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.patience = 1s}};
    auto seat = kitchen.try_enter();
    visit for_ever{kitchen, weir::forever};
    visit hours{kitchen, std::chrono::hours::max()};
    visit infinite{kitchen, std::numeric_limits<double>::infinity() * 1s};
    visit millennia{kitchen, std::chrono::years(250)};
    run_for(ctx, std::chrono::years(1));
    BOOST_TEST(kitchen.stats().waiting == 4U);
    seat.leave();
    settle(ctx);
    BOOST_TEST(for_ever.granted());
    BOOST_CHECK_THROW(visit(kitchen, std::numeric_limits<double>::quiet_NaN() * 1s),
                      std::invalid_argument);
    kitchen.cancel();
    settle(ctx);
}

BOOST_AUTO_TEST_CASE(a_grant_time_beyond_the_last_instant_is_reachable_only_with_endless_patience) {
    asio::io_context ctx;
    sliding_log once{ctx, {.limit = 1, .window = weir::forever}};
    BOOST_TEST(once.try_enter().count() == 1);
    visit patient{once, weir::forever};
    visit first{once, 1s};
    visit second{once, 1s};
    settle(ctx);
    BOOST_TEST(patient.waiting());
    for (auto* guest : {&first, &second}) {
        BOOST_TEST(guest->rejected(errc::deadline_unreachable));
        BOOST_TEST(!guest->seat().retry_after());
    }
    BOOST_TEST(!once.try_enter().retry_after());
    once.cancel();
    settle(ctx);
}

BOOST_AUTO_TEST_CASE(the_default_patience_applies_without_an_argument) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.tolerance = 0ns, .patience = 2s}};
    auto const seat = kitchen.try_enter();
    auto const start = clock::now();
    visit silent{kitchen};
    visit says{kitchen, 1s};
    visit patient{kitchen, 3s};
    run_for(ctx, 5s);
    BOOST_TEST(silent.at() == start + 2s + 1ns);
    BOOST_TEST(says.at() == start + 1s + 1ns);
    BOOST_TEST(patient.at() == start + 3s + 1ns);

    seats cafe{ctx, {.seats = 1}, {.patience = 0s}};
    auto const other = cafe.try_enter();
    visit hasty{cafe};
    settle(ctx);
    BOOST_TEST(hasty.rejected(errc::timed_out));
}

BOOST_AUTO_TEST_CASE(a_grant_at_the_deadline_is_in_time) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.tolerance = 0ns}};
    auto seat = kitchen.try_enter();
    visit guest{kitchen, 1s};
    run_for(ctx, 1s);
    seat.leave();
    settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(guest.seat().waited() == 1s);

    sliding_log printer{ctx, {.limit = 1, .window = 10s}, {.tolerance = 0ns}};
    auto const page = printer.try_enter();
    visit too_late{printer, 10s - 1ns};
    visit just_in_time{printer, 10s};
    settle(ctx);
    BOOST_TEST(too_late.rejected(errc::deadline_unreachable));
    run_for(ctx, 10s);
    BOOST_TEST(just_in_time.granted());
}

BOOST_AUTO_TEST_CASE(no_permit_is_granted_after_the_deadline_however_late_the_context_runs) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.tolerance = 1h}};
    auto seat = kitchen.try_enter();
    visit guest{kitchen, 1s};
    visit next{kitchen};
    settle(ctx);
    clock::advance_to(clock::now() + 1s + 1ns);  // the context does not run meanwhile
    seat.leave();
    settle(ctx);
    BOOST_TEST(guest.rejected(errc::timed_out));
    BOOST_TEST(next.granted());
}

// Found elsewhere: Seastar, which does not wake up the next one.
BOOST_AUTO_TEST_CASE(after_the_head_times_out_the_next_request_is_granted_at_once) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}, {.tolerance = 0ns}};
    auto const seat = kitchen.try_enter();
    auto const start = clock::now();
    visit pair{kitchen, 2, 1s};
    visit single{kitchen};
    run_for(ctx, 5s);
    BOOST_TEST(pair.rejected(errc::timed_out));
    BOOST_TEST(single.granted());
    BOOST_TEST(single.at() == start + 1s + 1ns);
    BOOST_TEST(single.at() == pair.at());
}

BOOST_AUTO_TEST_CASE(many_deadlines_share_a_wake_up_within_the_tolerance) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.max_waiting = 2000, .tolerance = 100ms}};
    auto const seat = kitchen.try_enter();
    std::mt19937 random(1);  // NOLINT: the same sequence in each run
    std::uniform_int_distribution<int> milliseconds(1, 1000);
    auto const start = clock::now();
    std::vector<visit> guests;
    std::vector<clock::time_point> deadlines;
    for (int i = 0; i != 2000; ++i) {
        auto const patience = std::chrono::milliseconds(milliseconds(random));
        guests.emplace_back(kitchen, patience);
        deadlines.push_back(start + patience);
    }
    std::vector<clock::time_point> wake_ups;
    while (kitchen.stats().waiting != 0) {
        settle(ctx);
        auto const next = weir::testing::next_expiry(ctx);
        if (next == clock::time_point::max())
            break;
        wake_ups.push_back(next);
        weir::testing::run_until(ctx, next);
    }
    BOOST_TEST(kitchen.stats().waiting == 0U);
    for (std::size_t i = 0; i != guests.size(); ++i) {
        BOOST_TEST_REQUIRE(guests[i].rejected(errc::timed_out));
        BOOST_TEST(guests[i].at() > deadlines[i]);
        BOOST_TEST(guests[i].at() <= deadlines[i] + 100ms);
    }
    BOOST_TEST(wake_ups.size() < 40U);
}

BOOST_AUTO_TEST_CASE(a_late_timer_grants_nothing_more_and_nothing_earlier) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 1, .window = 10s}};
    auto const page = printer.try_enter();
    visit first{printer};
    visit second{printer};
    settle(ctx);
    clock::advance_to(clock::now() + 35s);  // as if the machine had been suspended
    auto const now = clock::now();
    run_for(ctx, 9s);
    BOOST_TEST(first.granted());
    BOOST_TEST(first.at() == now);
    BOOST_TEST(second.waiting());
    run_for(ctx, 1s);
    BOOST_TEST(second.granted());
}

// The limiter's own context is busy for 300 ms. It cannot reject timed-out requests meanwhile, but they do not block
// others: each new request carries out the steps that are due.
BOOST_AUTO_TEST_CASE(a_timed_out_request_blocks_no_newcomer_while_the_context_is_busy) {
    asio::io_context other;
    asio::io_context home;
    weir::testing::limiter<weir::token_bucket> b{home, {.rate = weir::rate{1000, 1s}, .burst = 10}};
    while (auto const spent = b.try_enter()) {}
    visit served;
    visit late;
    b.async_enter(1, 5ms, asio::bind_executor(other, served.callback()));
    b.async_enter(5, 7ms, asio::bind_executor(other, late.callback()));
    settle(home);
    int granted = 0;
    for (int i = 0; i != 300; ++i) {
        clock::advance_to(clock::now() + 1ms);
        granted += b.try_enter() ? 1 : 0;
    }
    // The waiting requests were granted six permits: the first one, the second five.
    BOOST_TEST(granted == 300 - 6);
    settle(other);
    BOOST_TEST(served.granted());
    BOOST_TEST(late.granted());

    // A newcomer does not wait behind requests that timed out before its arrival.
    visit in_vain;
    b.async_enter(10, 15ms, asio::bind_executor(other, in_vain.callback()));
    settle(home);
    clock::advance_to(clock::now() + 300ms);
    BOOST_TEST(b.stats().remaining == 10);
    granted = 0;
    while (auto const one = b.try_enter())
        ++granted;
    BOOST_TEST(granted == 10);
    settle(other);
    BOOST_TEST(in_vain.rejected(errc::timed_out));
    settle(home);
    BOOST_TEST(home.stopped());
}

BOOST_AUTO_TEST_CASE(a_new_request_and_a_release_serve_due_requests) {
    enum class call { try_enter, enter, async_enter, leave, refund };
    for (auto const how :
         {call::try_enter, call::enter, call::async_enter, call::leave, call::refund}) {
        asio::io_context other;
        asio::io_context home;
        sliding_log printer{home, {.limit = 2, .window = 10s}};
        auto pages = printer.try_enter(2);
        visit in_vain;
        visit next;
        visit expires;
        printer.async_enter(2, 12s, asio::bind_executor(other, in_vain.callback()));
        printer.async_enter(1, asio::bind_executor(other, next.callback()));
        settle(home);
        clock::advance_to(clock::now() + 15s);  // 2 pages are free, but the head timed out before
        auto const enters = [&]() -> asio::awaitable<void> {
            permit const page = co_await printer.enter();
        };
        switch (how) {
            case call::try_enter:
                BOOST_TEST(bool(printer.try_enter()));
                break;
            case call::enter:
                co_spawn(other, enters(), rethrow);
                break;
            case call::async_enter:
                printer.async_enter(asio::bind_executor(other, [](error_code ec, permit const&) {
                    BOOST_TEST(!ec);
                }));
                break;
            case call::leave:
                pages.leave();
                break;
            case call::refund:
                pages.refund();
                break;
        }
        settle(other);
        BOOST_TEST(in_vain.rejected(errc::timed_out), "call number " << static_cast<int>(how));
        BOOST_TEST(next.granted(), "call number " << static_cast<int>(how));
    }
}

BOOST_AUTO_TEST_CASE(a_shorter_deadline_behind_a_longer_one_moves_the_timer) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.tolerance = 0ns}};
    auto const seat = kitchen.try_enter();
    auto const start = clock::now();
    visit patient{kitchen, 1h};
    settle(ctx);
    visit hasty{kitchen, 1s};
    visit hastier{kitchen, 1ms};
    run_for(ctx, 10s);
    BOOST_TEST(hastier.at() == start + 1ms + 1ns);
    BOOST_TEST(hasty.at() == start + 1s + 1ns);
    BOOST_TEST(patient.waiting());
}

// The rate may change at any time, so that the request waits.
BOOST_AUTO_TEST_CASE(a_rate_of_0_grants_nothing_until_it_changes) {
    asio::io_context ctx;
    weir::testing::limiter<weir::token_bucket> calls{
        ctx, {.rate = {0, 1s}, .burst = 1}, {.tolerance = 0ms}};
    BOOST_TEST(static_cast<bool>(calls.try_enter()));
    visit brief{calls, 2s};
    visit endless{calls};
    run_for(ctx, 2s);
    BOOST_TEST(brief.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(brief.rejected(errc::timed_out));
    BOOST_TEST(!brief.seat().retry_after());
    BOOST_TEST(endless.waiting());
    calls.configure([](auto& o) { o.rate = {1, 1s}; });
    run_for(ctx, 1s);
    BOOST_TEST(endless.granted());
}

// A debt delays all requests that wait. A request that would now be granted after its deadline need not wait for it.
BOOST_AUTO_TEST_CASE(a_debt_rejects_at_once_the_requests_that_would_be_late) {
    for (bool const settles : {false, true}) {
        asio::io_context ctx;
        weir::testing::limiter<weir::token_bucket> calls{ctx, {.rate = {1, 1s}, .burst = 1}};
        auto call = calls.try_enter();
        auto const start = clock::now();
        visit first{calls, 2s};
        visit second{calls, 5s};
        visit third{calls, 7s};
        visit endless{calls};
        settle(ctx);
        permit charged;
        if (settles)
            call.settle(6);
        else
            charged = calls.charge(5);
        settle(ctx);
        BOOST_TEST(clock::now() == start);
        BOOST_TEST(first.rejected(errc::deadline_unreachable));
        BOOST_TEST(first.seat().retry_after() == 9s);  // behind the requests that still wait
        BOOST_TEST(second.rejected(errc::deadline_unreachable));
        BOOST_TEST(third.waiting());  // in time, because the first two were rejected
        run_for(ctx, 1min);
        BOOST_TEST(third.at() == start + 6s);
        BOOST_TEST(endless.at() == start + 7s);
        BOOST_TEST(calls.stats().deadline_unreachable == 2U);
    }
}

BOOST_AUTO_TEST_CASE(a_debt_of_a_key_rejects_at_once_the_requests_for_this_key_that_would_be_late) {
    asio::io_context ctx;
    weir::basic_keyed<int, weir::policy::token_bucket, asio::any_io_executor, weir::testing::timer>
        calls{ctx, {.rate = {1, 1s}, .burst = 1}};
    auto const taken = calls.try_enter(1);
    auto const other = calls.try_enter(2);
    visit late;
    visit apart;
    calls.async_enter(1, 2s, late.callback());
    calls.async_enter(2, 2s, apart.callback());
    settle(ctx);
    auto const charged = calls.charge(1, 5);
    settle(ctx);
    BOOST_TEST(late.rejected(errc::deadline_unreachable));
    BOOST_TEST(apart.waiting());
    run_for(ctx, 2s);
    BOOST_TEST(apart.granted());
}

BOOST_AUTO_TEST_CASE(a_debt_rejects_at_once_a_chain_that_would_be_late) {
    asio::io_context ctx;
    weir::testing::limiter<weir::token_bucket> calls{ctx, {.rate = {1, 1s}, .burst = 1}};
    seats workers{ctx, {.seats = 1}};
    weir::chain both{calls, workers};
    auto const call = calls.try_enter();
    error_code ec;
    both.async_enter(2s, [&](error_code e, weir::chain_permit<2> const&) { ec = e; });
    settle(ctx);
    auto const charged = calls.charge(5);
    settle(ctx);
    BOOST_TEST(ec == errc::deadline_unreachable);
}

// The time at which a seat becomes free is unknown.
BOOST_AUTO_TEST_CASE(a_debt_of_seats_rejects_no_request) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit guest{kitchen, 2s};
    settle(ctx);
    auto charged = kitchen.charge(5);
    settle(ctx);
    BOOST_TEST(guest.waiting());
    charged.refund();
    seat.leave();
    settle(ctx);
    BOOST_TEST(guest.granted());
}

// Debts that follow each other faster than the queue can be examined must not stop the grants.
BOOST_AUTO_TEST_CASE(a_request_behind_one_that_a_debt_rejects_is_granted_in_the_same_section) {
    asio::io_context ctx;
    sliding_log calls{ctx, {.limit = 10, .window = 10s}};
    auto const first = calls.try_enter(5);
    visit const large{calls, 8, 10500ms};
    visit const small{calls};
    run_for(ctx, 1s);
    auto const debt = calls.charge(3);
    auto const newcomer = calls.try_enter();  // before the limiter's executor runs
    BOOST_TEST(calls.stats().waiting == 0U);
    BOOST_TEST(!!newcomer);
    settle(ctx);
    BOOST_TEST(large.rejected(errc::deadline_unreachable));
    BOOST_TEST(small.granted());
}

BOOST_AUTO_TEST_CASE(debts_without_end_do_not_stop_grants, *boost::unit_test::label("whole")) {
    asio::io_context ctx;
    weir::testing::limiter<weir::token_bucket> calls{
        ctx, {.rate = {1000, 1s}, .burst = 10, .initial = 0}, {.max_waiting = 5000}};
    int granted = 0;
    for (int i = 0; i != 3000; ++i)
        calls.async_enter(1h, [&](error_code ec, permit const&) { granted += ec ? 0 : 1; });
    settle(ctx);
    // A step examines 256 requests, so the steps of a round do not examine all of them.
    constexpr int steps = 4;
    for (int i = 0; i != 100; ++i) {
        auto const charged = calls.charge(1);
        clock::advance_to(clock::now() + 2ms);
        ctx.restart();
        for (int n = 0; n != steps; ++n)
            ctx.poll_one();
    }
    BOOST_TEST(granted >= 95);
    calls.cancel();
    settle(ctx);
}

BOOST_AUTO_TEST_CASE(the_real_timer_grants_and_expires) {
    asio::io_context ctx;
    weir::sliding_log printer{ctx, {.limit = 1, .window = 20ms}};
    weir::seats kitchen{ctx, {.seats = 1}};
    auto const start = std::chrono::steady_clock::now();
    auto const page = printer.try_enter();
    auto const seat = kitchen.try_enter();
    int done = 0;
    auto prints = [&]() -> asio::awaitable<void> {
        auto const second = co_await printer.enter();
        auto const third = co_await printer.enter(1h);
        BOOST_TEST((std::chrono::steady_clock::now() - start >= 40ms));
        ++done;
    };
    auto waits = [&]() -> asio::awaitable<void> {
        try {
            auto const none = co_await kitchen.enter(5ms);
        } catch (weir::rejection const& why) {
            BOOST_TEST(why.code() == errc::timed_out);
            BOOST_TEST((std::chrono::steady_clock::now() - start > 5ms));
            ++done;
        }
    };
    co_spawn(ctx, prints(), rethrow);
    co_spawn(ctx, waits(), rethrow);
    ctx.run();
    BOOST_TEST(done == 2);
}

BOOST_AUTO_TEST_CASE(a_change_of_the_tolerance_applies_after_a_time_without_waiting_requests) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}, {.tolerance = 1s}};
    auto const seat = kitchen.try_enter();
    visit const first(kitchen, 2s);
    settle(ctx);
    kitchen.configure_queue([](weir::queue_options& queue) { queue.tolerance = 0s; });
    visit const second(kitchen, 100ms);
    run_for(ctx, 100ms + 1ns);
    BOOST_TEST(second.waiting());
    run_for(ctx, 4s);
    BOOST_TEST(first.rejected(errc::timed_out));
    BOOST_TEST(second.rejected(errc::timed_out));
    visit const third(kitchen, 100ms);
    run_for(ctx, 100ms + 1ns);
    BOOST_TEST(third.rejected(errc::timed_out));
}

BOOST_AUTO_TEST_SUITE_END()
