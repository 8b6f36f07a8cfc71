#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

using namespace support;
using asio::bind_cancellation_slot;
using asio::cancellation_type;
using asio::error::operation_aborted;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

struct full_house {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    permit seat = kitchen.try_enter();
    asio::cancellation_signal signal;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_cancellation)

BOOST_FIXTURE_TEST_CASE(terminal_partial_and_total_cancel_and_none_does_not, full_house) {
    for (auto const type : {cancellation_type::terminal, cancellation_type::partial,
                            cancellation_type::total, cancellation_type::all}) {
        visit guest;
        kitchen.async_enter(1, 1h, bind_cancellation_slot(signal.slot(), guest.callback()));
        settle(ctx);
        signal.emit(cancellation_type::none);
        settle(ctx);
        BOOST_TEST(guest.waiting());
        signal.emit(type);
        BOOST_TEST(guest.waiting());  // does not complete inside emit()
        settle(ctx);
        BOOST_TEST(guest.rejected(operation_aborted));
        BOOST_TEST(!guest.seat().retry_after());
    }
    BOOST_TEST(kitchen.stats().cancelled == 4U);
    BOOST_TEST(kitchen.stats().waiting == 0U);
    BOOST_TEST(ctx.stopped());
}

BOOST_FIXTURE_TEST_CASE(a_request_that_is_not_queued_yet_can_be_cancelled, full_house) {
    visit guest;
    kitchen.async_enter(bind_cancellation_slot(signal.slot(), guest.callback()));
    signal.emit(cancellation_type::total);
    BOOST_TEST(kitchen.stats().waiting == 0U);
    seat.leave();
    settle(ctx);
    BOOST_TEST(guest.rejected(operation_aborted));
    BOOST_TEST(kitchen.stats().remaining == 1);
}

// Found elsewhere: golang/sync#10, embassy-rs/embassy#6964, awslabs/shuttle#167, python/asyncio#270, and Seastar.
BOOST_FIXTURE_TEST_CASE(after_the_head_is_cancelled_the_next_request_is_granted_at_once,
                        full_house) {
    seats tables{ctx, {.seats = 2}};
    auto one = tables.try_enter();
    visit pair;
    tables.async_enter(2, bind_cancellation_slot(signal.slot(), pair.callback()));
    visit single{tables};
    settle(ctx);
    BOOST_TEST(single.waiting());
    signal.emit(cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST(pair.rejected(operation_aborted));
    BOOST_TEST(single.granted());
}

// Found elsewhere: dotnet/runtime#77180.
BOOST_AUTO_TEST_CASE(after_the_head_of_a_rate_limit_is_cancelled_the_timer_is_set_for_the_next) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 2, .window = 10s}};
    auto const first = printer.try_enter();
    run_for(ctx, 5s);
    auto const second = printer.try_enter();
    asio::cancellation_signal signal;
    visit pair;
    printer.async_enter(2, bind_cancellation_slot(signal.slot(), pair.callback()));
    visit single{printer};
    run_for(ctx, 1s);
    auto const now = clock::now();
    signal.emit(cancellation_type::terminal);
    run_for(ctx, 10s);
    BOOST_TEST(single.granted());
    BOOST_TEST(single.at() == now + 4s);
}

BOOST_FIXTURE_TEST_CASE(a_signal_after_the_grant_changes_nothing, full_house) {
    visit guest;
    kitchen.async_enter(bind_cancellation_slot(signal.slot(), guest.callback()));
    settle(ctx);
    seat.leave();
    settle(ctx);
    signal.emit(cancellation_type::all);
    settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(kitchen.stats().live == 1U);
    BOOST_TEST(kitchen.stats().cancelled == 0U);
}

// Found elsewhere: palantir/conjure-java-runtime#1147.
BOOST_FIXTURE_TEST_CASE(a_signal_between_grant_and_delivery_changes_nothing, full_house,
                        *boost::unit_test::label("whole")) {
    // Setup: the grant is decided on one context; its handler is posted to the other, which has not run yet.
    asio::io_context other;
    visit guest;
    kitchen.async_enter(
        bind_cancellation_slot(signal.slot(), asio::bind_executor(other, guest.callback())));
    settle(ctx);
    seat.leave();
    settle(ctx);
    BOOST_TEST(guest.waiting());
    BOOST_TEST(kitchen.stats().live == 1U);
    signal.emit(cancellation_type::all);
    settle(ctx, other);
    BOOST_TEST(guest.granted());
}

BOOST_FIXTURE_TEST_CASE(a_signal_after_the_release_comes_too_late, full_house) {
    visit guest;
    visit next{};
    kitchen.async_enter(bind_cancellation_slot(signal.slot(), guest.callback()));
    kitchen.async_enter(next.callback());
    settle(ctx);
    seat.leave();  // granted to the head at once, though the context does not run
    signal.emit(cancellation_type::total);
    settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(next.waiting());
}

BOOST_FIXTURE_TEST_CASE(a_signal_after_the_timeout_changes_nothing, full_house) {
    visit guest;
    kitchen.async_enter(1s, bind_cancellation_slot(signal.slot(), guest.callback()));
    run_for(ctx, 2s);
    signal.emit(cancellation_type::all);
    settle(ctx);
    BOOST_TEST(guest.rejected(errc::timed_out));
}

BOOST_FIXTURE_TEST_CASE(a_signal_twice_is_a_signal_once, full_house) {
    visit guest;
    kitchen.async_enter(bind_cancellation_slot(signal.slot(), guest.callback()));
    settle(ctx);
    signal.emit(cancellation_type::total);
    signal.emit(cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST(guest.rejected(operation_aborted));
    BOOST_TEST(kitchen.stats().cancelled == 1U);
}

BOOST_FIXTURE_TEST_CASE(one_slot_serves_many_requests_in_turn, full_house) {
    for (int i = 0; i != 3; ++i) {
        visit guest;
        kitchen.async_enter(0s, bind_cancellation_slot(signal.slot(), guest.callback()));
        settle(ctx);
        BOOST_TEST(guest.rejected(errc::timed_out));
        visit other;
        kitchen.async_enter(bind_cancellation_slot(signal.slot(), other.callback()));
        settle(ctx);
        signal.emit(cancellation_type::total);
        settle(ctx);
        BOOST_TEST(other.rejected(operation_aborted));
    }
}

BOOST_AUTO_TEST_CASE(a_signal_can_outlive_all_objects_and_be_emitted_late) {
    asio::cancellation_signal after_grant;
    asio::cancellation_signal after_drop;
    asio::cancellation_signal after_limiter;
    visit granted;
    visit dropped;
    visit closed;
    {
        asio::io_context ctx;
        seats kitchen{ctx, {.seats = 1}};
        kitchen.async_enter(bind_cancellation_slot(after_grant.slot(), granted.callback()));
        kitchen.async_enter(bind_cancellation_slot(after_drop.slot(), dropped.callback()));
        std::optional<seats> cafe(std::in_place, ctx, weir::seats_options{.seats = 1});
        auto const seat = cafe->try_enter();
        cafe->async_enter(bind_cancellation_slot(after_limiter.slot(), closed.callback()));
        settle(ctx);
        cafe.reset();
        after_limiter.emit(cancellation_type::all);
        settle(ctx);
        after_limiter.emit(cancellation_type::all);
    }
    after_grant.emit(cancellation_type::all);
    after_drop.emit(cancellation_type::all);
    after_limiter.emit(cancellation_type::all);
    BOOST_TEST(granted.granted());
    BOOST_TEST(dropped.dropped());
    BOOST_TEST(closed.over());
    granted.leave();
}

BOOST_AUTO_TEST_CASE(a_signal_can_be_destroyed_before_the_request) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    auto signal = std::make_unique<asio::cancellation_signal>();
    visit guest;
    kitchen.async_enter(bind_cancellation_slot(signal->slot(), guest.callback()));
    settle(ctx);
    signal.reset();
    seat.leave();
    settle(ctx);
    BOOST_TEST(guest.granted());
}

BOOST_FIXTURE_TEST_CASE(a_drain_can_be_cancelled_too, full_house) {
    error_code result;
    int calls = 0;
    auto callback = [&](error_code ec) {
        result = ec;
        ++calls;
    };
    kitchen.async_drain(bind_cancellation_slot(signal.slot(), callback));
    settle(ctx);
    signal.emit(cancellation_type::total);
    settle(ctx);
    BOOST_TEST(calls == 1);
    BOOST_TEST(result == operation_aborted);
    seat.leave();
    settle(ctx);
    BOOST_TEST(calls == 1);
    BOOST_TEST(ctx.stopped());
}

BOOST_FIXTURE_TEST_CASE(cancel_ends_all_waiting_requests_and_no_later_one, full_house) {
    visit one{kitchen};
    visit two{kitchen, 1h};
    settle(ctx);
    visit three{kitchen};  // not yet in the queue
    kitchen.cancel();
    visit later{kitchen};
    settle(ctx);
    BOOST_TEST(one.rejected(operation_aborted));
    BOOST_TEST(two.rejected(operation_aborted));
    BOOST_TEST(three.rejected(operation_aborted));
    BOOST_TEST(later.waiting());
    seat.leave();
    settle(ctx);
    BOOST_TEST(later.granted());
}

BOOST_FIXTURE_TEST_CASE(cancel_ends_any_number_of_requests, full_house) {
    std::vector<visit> guests;
    for (int i = 0; i != 1000; ++i)
        guests.emplace_back(kitchen, 1h);
    kitchen.cancel();
    visit later{kitchen};
    settle(ctx);
    BOOST_TEST(
        std::ranges::all_of(guests, [](auto const& g) { return g.rejected(operation_aborted); }));
    BOOST_TEST(later.waiting());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(limiter_cancellation_of_coroutines)

namespace {

auto const is_aborted = [](boost::system::system_error const& why) {
    return why.code() == operation_aborted;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_waiting_coroutine_gets_a_rejection, full_house) {
    int rejected = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        try {
            permit const none = co_await kitchen.enter();
        } catch (weir::rejection const& why) {
            BOOST_TEST(why.code() == operation_aborted);
            BOOST_TEST(!why.retry_after());
            ++rejected;
        }
    };
    co_spawn(ctx, guest(), bind_cancellation_slot(signal.slot(), rethrow));
    settle(ctx);
    signal.emit(cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST(rejected == 1);
    BOOST_TEST(kitchen.stats().waiting == 0U);
}

BOOST_FIXTURE_TEST_CASE(total_and_partial_cancel_if_the_coroutine_enables_them, full_house) {
    for (auto const type : {cancellation_type::partial, cancellation_type::total}) {
        int rejected = 0;
        auto guest = [&]() -> asio::awaitable<void> {
            co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
            auto const [ec, none] = co_await kitchen.async_enter(asio::as_tuple(asio::deferred));
            BOOST_TEST(ec == operation_aborted);
            ++rejected;
        };
        co_spawn(ctx, guest(), bind_cancellation_slot(signal.slot(), rethrow));
        settle(ctx);
        signal.emit(type);
        settle(ctx);
        BOOST_TEST(rejected == 1);
    }
}

// Found elsewhere: go.dev/issue/63615.
BOOST_FIXTURE_TEST_CASE(a_coroutine_cancelled_before_its_request_takes_nothing, full_house) {
    seat.leave();
    weir::testing::timer timer{ctx, 1s};
    int rejected = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        try {
            co_await timer.async_wait(asio::deferred);
        } catch (boost::system::system_error const&) {
            // The coroutine is cancelled and could only clean up, but it makes a request nevertheless.
        }
        try {
            permit const none = co_await kitchen.enter();
        } catch (boost::system::system_error const& why) {
            BOOST_TEST(is_aborted(why));
            ++rejected;
        }
    };
    co_spawn(ctx, guest(), bind_cancellation_slot(signal.slot(), rethrow));
    settle(ctx);
    signal.emit(cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST(rejected == 1);
    BOOST_TEST(kitchen.stats().granted == 1U);  // the grant in the fixture
}

BOOST_FIXTURE_TEST_CASE(a_cancelled_coroutine_that_disables_exceptions_takes_nothing, full_house) {
    seat.leave();
    weir::testing::timer timer{ctx, 1s};
    int rejected = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        co_await asio::this_coro::throw_if_cancelled(false);
        auto const [ec] = co_await timer.async_wait(asio::as_tuple(asio::deferred));
        BOOST_TEST(ec == operation_aborted);
        try {
            permit const none = co_await kitchen.enter();
        } catch (weir::rejection const& why) {
            BOOST_TEST(why.code() == operation_aborted);
            ++rejected;
        }
        kitchen.close();
        try {
            permit const none = co_await kitchen.enter(0);
        } catch (weir::rejection const& why) {
            BOOST_TEST(why.code() == operation_aborted);  // checked before closed
            ++rejected;
        }
    };
    co_spawn(ctx, guest(), bind_cancellation_slot(signal.slot(), rethrow));
    settle(ctx);
    signal.emit(cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST(rejected == 2);
    BOOST_TEST(kitchen.stats().granted == 1U);
}

BOOST_FIXTURE_TEST_CASE(a_grant_wins_over_a_later_cancellation, full_house,
                        *boost::unit_test::label("whole")) {
    // Setup: granted on one context, posted to the other, cancelled between the two.
    asio::io_context home;
    int seated = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        permit const held = co_await kitchen.enter();
        BOOST_TEST(bool(held));
        ++seated;
    };
    co_spawn(home, guest(), bind_cancellation_slot(signal.slot(), rethrow));
    settle(ctx, home);
    seat.leave();
    settle(ctx);
    signal.emit(cancellation_type::terminal);
    settle(home);
    BOOST_TEST(seated == 1);
    settle(ctx, home);
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_FIXTURE_TEST_CASE(a_coroutine_can_wait_again_after_a_reset_of_its_cancellation_state,
                        full_house) {
    int seated = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        try {
            permit const none = co_await kitchen.enter();
        } catch (weir::rejection const&) {
            ++seated;
        }
        co_await asio::this_coro::reset_cancellation_state();
        permit const held = co_await kitchen.enter();
        ++seated;
    };
    co_spawn(ctx, guest(), bind_cancellation_slot(signal.slot(), rethrow));
    settle(ctx);
    signal.emit(cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST(seated == 1);
    seat.leave();
    settle(ctx);
    BOOST_TEST(seated == 2);
}

BOOST_AUTO_TEST_SUITE_END()
