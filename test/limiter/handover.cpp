#include "support/distracted_executor.hpp"
#include "support/faulty_executor.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

// The thread that releases a permit also grants it to the head of the queue, and posts the completion to the handler's
// executor. This needs no detour through the limiter's context.

using namespace support;
using asio::bind_executor;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

struct two_contexts {
    asio::io_context other;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    permit seat = kitchen.try_enter();
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_handover)

BOOST_FIXTURE_TEST_CASE(does_not_need_the_context_of_the_limiter_to_run, two_contexts) {
    visit guest;
    visit next;
    kitchen.async_enter(bind_executor(other, guest.callback()));
    kitchen.async_enter(1h, bind_executor(other, next.callback()));
    settle(ctx);
    seat.leave();
    BOOST_TEST(guest.waiting());  // completes on its own executor, not inside leave()
    settle(other);
    BOOST_TEST(guest.granted());
    BOOST_TEST(next.waiting());
    guest.leave();
    settle(other);
    BOOST_TEST(next.granted());
    settle(ctx);
    BOOST_TEST(ctx.stopped());
    BOOST_TEST(other.stopped());
}

BOOST_FIXTURE_TEST_CASE(passes_one_permit_to_many_coroutines, two_contexts) {
    int meals = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        for (int i = 0; i != 10; ++i) {
            auto const held = co_await kitchen.enter();
            ++meals;
        }
    };
    for (int i = 0; i != 50; ++i)
        co_spawn(other, guest(), rethrow);
    settle(ctx, other);
    seat.leave();
    settle(other);
    settle(ctx, other);
    BOOST_TEST(meals == 500);
    BOOST_TEST(kitchen.stats().remaining == 1);
    BOOST_TEST(ctx.stopped());
}

BOOST_FIXTURE_TEST_CASE(never_happens_after_the_deadline, two_contexts) {
    visit late;
    visit next;
    kitchen.async_enter(1s, bind_executor(other, late.callback()));
    kitchen.async_enter(bind_executor(other, next.callback()));
    settle(ctx);
    clock::advance_to(clock::now() + 1s + 1ns);
    seat.leave();
    settle(ctx, other);
    BOOST_TEST(late.rejected(errc::timed_out));
    BOOST_TEST(next.granted());
}

BOOST_FIXTURE_TEST_CASE(after_close_cancel_or_a_change_of_options_needs_no_step, two_contexts) {
    for (auto const& [act, outcome] :
         std::vector<std::pair<std::function<void(seats&)>, error_code>>{
             {[](seats& s) { s.close(); }, errc::closed},
             {[](seats& s) { s.cancel(); }, asio::error::operation_aborted},
             {[](seats& s) { s.configure({.seats = 1}); }, errc::exceeds_capacity}}) {
        seats cafe{ctx, {.seats = 2}};
        auto both = cafe.try_enter(2);
        visit guest;
        cafe.async_enter(2, bind_executor(other, guest.callback()));
        settle(ctx);
        act(cafe);
        both.leave();
        BOOST_TEST(guest.waiting());  // completes on its own executor, not inside the call
        settle(other);
        BOOST_TEST(guest.rejected(outcome));
        BOOST_TEST(cafe.stats().live == 0U);
        settle(ctx);
        BOOST_TEST(ctx.stopped());
    }
}

BOOST_FIXTURE_TEST_CASE(keeps_the_order_of_handlers_on_both_contexts, two_contexts) {
    seats cafe{ctx, {.seats = 6}, {.max_waiting = 1000}};
    auto all = cafe.try_enter(6);
    std::vector<visit> guests(200);
    for (std::size_t i = 0; i != guests.size(); ++i) {
        if (i % 3 == 0)
            cafe.async_enter(guests[i].callback());
        else
            cafe.async_enter(bind_executor(other, guests[i].callback()));
    }
    settle(ctx);
    auto const number_granted = [&] {
        return static_cast<std::size_t>(std::ranges::count_if(guests, &visit::over));
    };
    all.leave();
    for (std::size_t served = 6; served <= guests.size(); ++served) {
        settle(ctx, other);
        BOOST_TEST_REQUIRE(number_granted() == served);
        BOOST_TEST_REQUIRE(guests[served - 1].granted());
        if (served < guests.size() || cafe.stats().waiting != 0)
            guests[served - 6].leave();
    }
    BOOST_TEST(cafe.stats().waiting == 0U);
}

// Whole, because 300 cuts of 3000 guests would take as long as all other tests of limiters.
BOOST_FIXTURE_TEST_CASE(of_a_great_many_leaves_the_rest_to_the_actor, two_contexts,
                        *boost::unit_test::label("whole")) {
    seats cafe{ctx, {.seats = 3000}, {.max_waiting = 3000}};
    auto all = cafe.try_enter(3000);
    std::vector<visit> guests(3000);
    for (auto& guest : guests)
        cafe.async_enter(bind_executor(other, guest.callback()));
    settle(ctx);
    all.leave();
    settle(ctx, other);
    BOOST_TEST(std::ranges::all_of(guests, &visit::granted));
}

// Found elsewhere: resilience4j#314.
BOOST_AUTO_TEST_CASE(happens_on_a_refund_of_a_rate_limit) {
    asio::io_context other;
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 4, .window = 10s}};
    auto pages = printer.try_enter(4);
    visit pair;
    visit next;
    printer.async_enter(2, bind_executor(other, pair.callback()));
    printer.async_enter(2, bind_executor(other, next.callback()));
    settle(ctx);
    auto const now = clock::now();
    pages.settle(1);
    settle(other);
    BOOST_TEST(pair.granted());
    BOOST_TEST(next.waiting());
    run_for(ctx, 10s);  // the timer is set for the new head
    settle(other);
    BOOST_TEST(next.granted());
    BOOST_TEST(next.at() == now + 10s);
}

BOOST_FIXTURE_TEST_CASE(can_no_longer_be_cancelled, two_contexts) {
    asio::cancellation_signal signal;
    visit guest;
    kitchen.async_enter(
        asio::bind_cancellation_slot(signal.slot(), bind_executor(other, guest.callback())));
    settle(ctx);
    seat.leave();
    signal.emit(asio::cancellation_type::terminal);
    settle(ctx, other);
    BOOST_TEST(guest.granted());
}

BOOST_FIXTURE_TEST_CASE(of_a_destroyed_permit_passes_it_to_the_next_request, two_contexts,
                        *boost::unit_test::label("whole")) {
    visit next;
    auto third = std::make_unique<asio::io_context>();
    visit dropped;
    kitchen.async_enter(bind_executor(*third, dropped.callback()));
    kitchen.async_enter(bind_executor(other, next.callback()));
    settle(ctx);
    seat.leave();
    third.reset();
    BOOST_TEST(dropped.dropped());
    settle(other);
    BOOST_TEST(next.granted());
    settle(ctx);
    BOOST_TEST(ctx.stopped());
}

BOOST_FIXTURE_TEST_CASE(that_fails_is_left_to_the_actor, two_contexts) {
    faults plan;
    faulty_executor const shaky(other.get_executor(), plan);
    visit first;
    visit second;
    seats cafe{ctx, {.seats = 2}};
    auto both = cafe.try_enter(2);
    cafe.async_enter(bind_executor(shaky, first.callback()));
    cafe.async_enter(bind_executor(shaky, second.callback()));
    settle(ctx);
    plan.fail_next(2);
    both.leave();
    settle(ctx, other);
    BOOST_TEST(plan.failed == 2);
    BOOST_TEST(first.granted());
    BOOST_TEST(second.granted());
    BOOST_TEST(cafe.stats().live == 2U);
}

BOOST_FIXTURE_TEST_CASE(ends_a_drain, two_contexts) {
    visit guest;
    bool drained = false;
    kitchen.async_enter(bind_executor(other, guest.callback()));
    kitchen.async_drain(bind_executor(other, [&](error_code ec) { drained = !ec; }));
    settle(ctx, other);
    seat.leave();
    settle(ctx, other);
    BOOST_TEST(guest.granted());
    BOOST_TEST(!drained);
    guest.leave();
    settle(ctx, other);
    BOOST_TEST(drained);
    BOOST_TEST(ctx.stopped());
}

// Between the decision and the post, another thread can run the limiter's context until it has no more work. The other
// request, whose handler runs there, was granted too: it must keep that context running.
BOOST_FIXTURE_TEST_CASE(keeps_the_context_running_for_the_other_request, two_contexts) {
    std::function<void()> distraction;
    seats cafe{ctx, {.seats = 2}};
    auto both = cafe.try_enter(2);
    visit elsewhere;
    visit at_home;
    cafe.async_enter(bind_executor(
        distracted_executor(other.get_executor(), distraction), elsewhere.callback()));
    cafe.async_enter(at_home.callback());
    settle(ctx);
    bool told = false;
    distraction = [&] {
        ctx.restart();
        ctx.poll();
        told = at_home.over() || !ctx.stopped();
    };
    both.leave();
    BOOST_TEST(!distraction);
    BOOST_TEST(told);
    settle(ctx, other);
    BOOST_TEST(at_home.granted());
    BOOST_TEST(elsewhere.granted());
}

// An erased handler, which the limiter reaches through its own executor, keeps that context running too.
BOOST_FIXTURE_TEST_CASE(keeps_the_context_running_for_erased_handlers, two_contexts) {
    std::function<void()> distraction;
    seats cafe{ctx, {.seats = 2}};
    auto both = cafe.try_enter(2);
    visit direct;
    visit erased;
    cafe.async_enter(
        bind_executor(distracted_executor(other.get_executor(), distraction), direct.callback()));
    cafe.async_enter(asio::any_completion_handler<void(error_code, permit)>(
        bind_executor(other, erased.callback())));
    settle(ctx);
    bool kept = false;
    distraction = [&] {
        ctx.restart();
        ctx.poll();
        kept = !ctx.stopped();
    };
    both.leave();
    BOOST_TEST(kept);
    settle(ctx, other);
    BOOST_TEST(erased.granted());
}

// A thread that posts to the limiter's context needs this context until the post ends. So the destructor of the limiter
// waits for the thread.
BOOST_AUTO_TEST_CASE(delays_the_destructor_of_the_limiter_during_a_post) {
    std::function<void()> distraction;
    auto ctx = std::make_unique<asio::io_context>();
    std::optional<seats> kitchen(std::in_place, *ctx, seats::options_type{.seats = 1});
    auto seat = kitchen->try_enter();
    visit guest;
    kitchen->async_enter(
        bind_executor(distracted_executor(ctx->get_executor(), distraction), guest.callback()));
    settle(*ctx);
    std::atomic<bool> posting = false;
    distraction = [&] {
        posting = true;
        for (int i = 0; i != 500; ++i)
            std::this_thread::yield();
    };
    std::thread elsewhere([&] { seat.leave(); });
    while (!posting)
        std::this_thread::yield();
    kitchen.reset();
    ctx.reset();
    elsewhere.join();
    BOOST_TEST(!guest.over());
}

BOOST_AUTO_TEST_CASE(that_fails_after_the_destructor_of_the_limiter_is_retried) {
    std::function<void()> distraction;
    asio::io_context other;
    asio::io_context ctx;
    std::optional<seats> kitchen(std::in_place, ctx, seats::options_type{.seats = 1});
    auto seat = kitchen->try_enter();
    visit guest;
    kitchen->async_enter(
        bind_executor(distracted_executor(other.get_executor(), distraction), guest.callback()));
    settle(ctx);
    distraction = [&] {
        kitchen.reset();
        throw fault();
    };
    kitchen->cancel();
    BOOST_TEST(!kitchen);
    settle(ctx, other);
    BOOST_TEST(guest.rejected(asio::error::operation_aborted));
    BOOST_TEST(ctx.stopped());
}

// The end of the context waits for the posting thread, which then cannot leave its completion to the context.
BOOST_AUTO_TEST_CASE(that_fails_during_the_end_of_the_context_is_destroyed) {
    std::function<void()> distraction;
    asio::io_context other;
    auto ctx = std::make_unique<asio::io_context>();
    seats kitchen{*ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    visit guest;
    kitchen.async_enter(
        bind_executor(distracted_executor(other.get_executor(), distraction), guest.callback()));
    settle(*ctx);
    std::atomic<bool> posting = false;
    distraction = [&] {
        posting = true;
        for (error_code ec; ec != errc::closed;) {
            static_cast<void>(kitchen.try_enter(1, ec));
            std::this_thread::yield();
        }
        throw fault();
    };
    std::thread elsewhere([&] { seat.leave(); });
    while (!posting)
        std::this_thread::yield();
    ctx.reset();
    elsewhere.join();
    settle(other);
    BOOST_TEST(guest.dropped());
    BOOST_TEST(kitchen.stats().live == 0U);
}

// A user-defined executor that calls the limiter which posts to it.
BOOST_FIXTURE_TEST_CASE(to_an_executor_that_calls_the_limiter_is_not_made_under_the_lock,
                        two_contexts) {
    std::function<void()> distraction;
    seats cafe{ctx, {.seats = 3, .max_hold = 1h}};
    auto all = cafe.try_enter(3);
    auto part = all.split(1);
    visit guest;
    visit newcomer;
    cafe.async_enter(
        2, bind_executor(distracted_executor(other.get_executor(), distraction), guest.callback()));
    settle(ctx);
    distraction = [&] {
        BOOST_TEST(cafe.stats().waiting == 0U);
        BOOST_TEST(cafe.stats().live == 2U);
        BOOST_TEST(!cafe.try_enter());
        cafe.async_enter(bind_executor(other, newcomer.callback()));
        cafe.configure([](weir::seats_options& o) { o.seats = 4; });
        part.leave();
        cafe.async_drain([](error_code) {});
        cafe.cancel();
        cafe.close();
    };
    all.leave();
    BOOST_TEST(!distraction);
    settle(ctx, other);
    BOOST_TEST(guest.granted());
    BOOST_TEST(newcomer.granted());
}

BOOST_FIXTURE_TEST_CASE(to_an_executor_that_destroys_the_limiter_still_happens, two_contexts) {
    enum class call { leave, try_enter, enter, cancel, close, configure, step };
    using enum call;
    for (auto const how : {leave, try_enter, enter, cancel, close, configure, step}) {
        std::function<void()> distraction;
        std::optional<sliding_log> printer(
            std::in_place, ctx, weir::sliding_log_options{.limit = 2, .window = 10s});
        auto pages = printer->try_enter(2);
        visit guest;
        visit at_home;
        printer->async_enter(1, 15s,
                             bind_executor(distracted_executor(other.get_executor(), distraction),
                                           guest.callback()));
        printer->async_enter(2, at_home.callback());
        settle(ctx);
        distraction = [&] { printer.reset(); };
        clock::advance_to(clock::now() + 12s);
        switch (how) {
            case leave:
                pages.refund();
                break;
            case try_enter:
                static_cast<void>(printer->try_enter());
                break;
            case enter:
                printer->async_enter(1, 0s, [](error_code, permit const&) {});
                break;
            case cancel:
                printer->cancel();
                break;
            case close:
                printer->close();
                break;
            case configure:
                printer->configure({.limit = 2, .window = 1s});
                break;
            case step:
                run_for(ctx, 0s);
                break;
        }
        BOOST_TEST(!printer, "call number " << static_cast<int>(how));
        settle(ctx, other);
        BOOST_TEST(guest.over());
        BOOST_TEST(at_home.over());
        BOOST_TEST(ctx.stopped());
    }
}

BOOST_FIXTURE_TEST_CASE(to_an_executor_that_destroys_the_limiter_does_not_wait_for_itself,
                        two_contexts) {
    std::function<void()> distraction;
    std::optional<seats> cafe(std::in_place, ctx, seats::options_type{.seats = 1});
    auto held = cafe->try_enter();
    visit guest;
    cafe->async_enter(
        bind_executor(distracted_executor(other.get_executor(), distraction), guest.callback()));
    settle(ctx);
    distraction = [&] { cafe.reset(); };
    held.leave();
    BOOST_TEST(!cafe);
    settle(ctx, other);
    BOOST_TEST(guest.granted());
    BOOST_TEST(ctx.stopped());
}

// The releasing thread is in the executor, and waits for a mutex that the destroying thread holds.
BOOST_AUTO_TEST_CASE(to_another_context_does_not_delay_the_destructor_of_the_limiter) {
    for (bool const another_waits : {false, true}) {
        std::function<void()> distraction;
        asio::io_context other;
        asio::io_context ctx;
        std::optional<seats> kitchen(std::in_place, ctx, seats::options_type{.seats = 1});
        auto seat = kitchen->try_enter();
        visit guest;
        visit behind;
        kitchen->async_enter(bind_executor(
            distracted_executor(other.get_executor(), distraction), guest.callback()));
        if (another_waits)
            kitchen->async_enter(behind.callback());
        settle(ctx);
        std::mutex wanted;
        std::atomic<bool> posting = false;
        distraction = [&] {
            posting = true;
            std::lock_guard const lock(wanted);
        };
        std::unique_lock lock(wanted);
        std::thread elsewhere([&] { seat.leave(); });
        while (!posting)
            std::this_thread::yield();
        kitchen.reset();
        lock.unlock();
        elsewhere.join();
        settle(ctx, other);
        BOOST_TEST(guest.granted());
        BOOST_TEST(another_waits == behind.rejected(errc::closed));
        BOOST_TEST(ctx.stopped());
    }
}

BOOST_FIXTURE_TEST_CASE(posts_nothing_if_the_grant_is_immediate, two_contexts) {
    seat.leave();
    int passed = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        auto const ex = co_await asio::this_coro::executor;
        for (int i = 0; i != 5; ++i) {
            auto const held = co_await kitchen.async_enter(
                asio::bind_immediate_executor(ex, asio::use_awaitable));
            ++passed;
        }
    };
    co_spawn(ctx, guest(), rethrow);
    settle(ctx);
    BOOST_TEST(passed == 5);
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_SUITE_END()
