#include <weir/keyed.hpp>
#include <weir/pool.hpp>
#include <weir/seats.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/seats.hpp>
#include <weir/sliding_log.hpp>
#include <weir/testing.hpp>

#include "support/printing.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

using namespace std::chrono_literals;
using namespace boost::asio::experimental::awaitable_operators;
namespace asio = boost::asio;
using weir::error_code;
using weir::testing::clock;
using weir::testing::fire_due;
using weir::testing::next_expiry;
using weir::testing::run_for;
using weir::testing::run_until;
using weir::testing::timer;

namespace {

constexpr auto aborted = asio::error::operation_aborted;
constexpr auto nothing_pending = clock::time_point::max();

// The clock does not go back between tests, so times count from here.
struct some_time {
    asio::io_context ctx;
    clock::time_point start = clock::now();

    [[nodiscard]] clock::duration elapsed() const { return clock::now() - start; }
};

// A handler that records when it was called, how often and with which error.
struct record {
    int calls = 0;
    error_code error;
    clock::time_point at;
};

auto noting(record& what) {
    return [&what](error_code ec) {
        ++what.calls;
        what.error = ec;
        what.at = clock::now();
    };
}

asio::awaitable<void> sleep(clock::duration length) {
    timer t(co_await asio::this_coro::executor, length);
    co_await t.async_wait();
}

}  // namespace

static_assert(clock::is_steady);
static_assert(std::same_as<timer::clock_type, weir::testing::clock>);
static_assert(std::same_as<timer::executor_type, asio::any_io_executor>);
static_assert(std::is_nothrow_move_constructible_v<timer> && !std::is_copy_constructible_v<timer>);
static_assert(std::same_as<timer::rebind_executor<asio::io_context::executor_type>::other,
                           weir::testing::basic_timer<asio::io_context::executor_type>>);
static_assert(std::same_as<weir::testing::limiter<weir::seats>::policy_type, weir::policy::seats>);
static_assert(std::same_as<weir::testing::limiter<weir::seats>::clock_type, weir::testing::clock>);
static_assert(
    std::same_as<weir::testing::keyed<int, weir::seats>,
                 weir::basic_keyed<int, weir::policy::seats, asio::any_io_executor, timer>>);
static_assert(std::same_as<weir::testing::keyed<int, weir::policy::seats>,
                           weir::testing::keyed<int, weir::seats>>);
static_assert(
    std::same_as<weir::testing::pool<int>, weir::basic_pool<int, asio::any_io_executor, timer>>);
static_assert(std::same_as<weir::testing::limiter<weir::shared_seats>,
                           weir::basic_shared_seats<asio::any_io_executor, timer>>);
static_assert(std::same_as<weir::testing::limiter<weir::shared_interval>,
                           weir::basic_shared_interval<asio::any_io_executor, timer>>);
static_assert(std::same_as<weir::testing::limiter<weir::shared_token_bucket>,
                           weir::basic_shared_token_bucket<asio::any_io_executor, timer>>);

BOOST_FIXTURE_TEST_SUITE(the_virtual_clock, some_time)

BOOST_AUTO_TEST_CASE(advances_only_on_request) {
    BOOST_TEST(clock::now() == start);
    clock::advance_to(start + 5s);
    BOOST_TEST(clock::now() == start + 5s);
    BOOST_TEST(clock::now() == start + 5s);
}

BOOST_AUTO_TEST_CASE(never_goes_back) {
    clock::advance_to(start + 5s);
    clock::advance_to(start + 3s);
    BOOST_TEST(elapsed() == 5s);
    run_until(ctx, start + 4s);
    BOOST_TEST(elapsed() == 5s);
}

BOOST_AUTO_TEST_CASE(fires_no_timer_automatically) {
    record waited;
    timer t(ctx, 1s);
    t.async_wait(noting(waited));
    clock::advance_to(start + 1h);
    ctx.poll();
    BOOST_TEST(waited.calls == 0);
    run_for(ctx, 0s);
    BOOST_TEST(waited.calls == 1);
}

BOOST_AUTO_TEST_CASE(can_be_advanced_by_many_threads) {
    std::vector<std::thread> threads;
    for (int i = 1; i <= 4; ++i) {
        threads.emplace_back([this, i] {
            for (int k = 1; k <= 1'000; ++k)
                clock::advance_to(start + k * i * 1us);
        });
    }
    for (auto& thread : threads)
        thread.join();
    BOOST_TEST(elapsed() == 4ms);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(running_on_virtual_time, some_time)

BOOST_AUTO_TEST_CASE(advances_the_clock_to_the_given_time_without_events) {
    BOOST_TEST(run_for(ctx, 24h) == 0U);
    BOOST_TEST(elapsed() == 24h);
    run_until(ctx, start + 48h);
    BOOST_TEST(elapsed() == 48h);
    BOOST_TEST(weir::testing::run(ctx) == 0U);
    BOOST_TEST(elapsed() == 48h);
}

BOOST_AUTO_TEST_CASE(fires_expired_timers_and_none_a_nanosecond_early) {
    std::array<record, 3> waited;
    timer before(ctx, 1s - 1ns);
    timer sharp(ctx, 1s);
    timer after(ctx, 1s + 1ns);
    before.async_wait(noting(waited[0]));
    sharp.async_wait(noting(waited[1]));
    after.async_wait(noting(waited[2]));
    BOOST_TEST(next_expiry(ctx) == start + 1s - 1ns);

    run_for(ctx, 1s);
    BOOST_TEST(waited[0].calls == 1);
    BOOST_TEST(waited[1].calls == 1);
    BOOST_TEST(waited[2].calls == 0);
    BOOST_TEST(elapsed() == 1s);
    BOOST_TEST(next_expiry(ctx) == start + 1s + 1ns);

    run_for(ctx, 1ns);
    BOOST_TEST(waited[2].calls == 1);
    BOOST_TEST(next_expiry(ctx) == nothing_pending);
}

BOOST_AUTO_TEST_CASE(shows_each_handler_the_time_at_which_it_is_due) {
    std::array<record, 3> waited;
    std::vector<timer> timers;
    for (std::size_t i = 0; i != waited.size(); ++i) {
        timers.emplace_back(ctx, 1h * (i + 1));
        timers.back().async_wait(noting(waited[i]));
    }
    run_for(ctx, 24h);
    for (std::size_t i = 0; i != waited.size(); ++i) {
        BOOST_TEST(!waited[i].error);
        BOOST_TEST(waited[i].at == start + 1h * (i + 1));
    }
    BOOST_TEST(elapsed() == 24h);
}

BOOST_AUTO_TEST_CASE(keeps_the_order_of_expiry_and_then_of_waiting) {
    std::vector<int> order;
    std::vector<timer> timers;
    int number = 0;
    for (auto const after : {3s, 1s, 2s, 1s, 3s, 0s}) {
        timers.emplace_back(ctx, after);
        timers.back().async_wait([&order, number](error_code) { order.push_back(number); });
        ++number;
    }
    run_for(ctx, 1h);
    BOOST_TEST(order == (std::vector{5, 1, 3, 2, 0, 4}));
}

BOOST_AUTO_TEST_CASE(runs_resulting_handlers_before_time_advances) {
    record second;
    timer t(ctx, 1s);
    timer late(ctx, 2s);
    record waited;
    late.async_wait(noting(waited));
    t.async_wait([&](error_code) {
        t.expires_after(0s);
        t.async_wait([&](error_code) { asio::post(ctx, [&] { noting(second)({}); }); });
    });
    run_for(ctx, 1h);
    BOOST_TEST(second.at == start + 1s);
    BOOST_TEST(waited.at == start + 2s);
}

BOOST_AUTO_TEST_CASE(continues_while_timers_are_pending) {
    int rounds = 0;
    timer t(ctx);
    auto again = [&](auto& self, error_code ec) -> void {
        BOOST_TEST(!ec);
        if (++rounds == 100)
            return;
        t.expires_after(1h);
        t.async_wait([&](error_code e) { self(self, e); });
    };
    again(again, {});
    BOOST_TEST(weir::testing::run(ctx) == 99U);
    BOOST_TEST(rounds == 100);
    BOOST_TEST(elapsed() == 99h);
}

BOOST_AUTO_TEST_CASE(counts_the_handlers_that_ran) {
    timer t(ctx, 1s);
    t.async_wait([](error_code) {});
    t.async_wait([](error_code) {});
    asio::post(ctx, [] {});
    BOOST_TEST(run_for(ctx, 1h) == 3U);
    BOOST_TEST(run_for(ctx, 1h) == 0U);
}

BOOST_AUTO_TEST_CASE(ends_when_nothing_is_pending_without_a_time_limit) {
    record waited;
    timer t(ctx, 3h);
    t.async_wait(noting(waited));
    run_for(ctx, clock::duration::max());
    BOOST_TEST(waited.calls == 1);
    BOOST_TEST(elapsed() == 3h);
}

BOOST_AUTO_TEST_CASE(does_not_fire_a_timer_that_never_expires) {
    record waited;
    timer t(ctx, clock::time_point::max());
    t.async_wait(noting(waited));
    BOOST_TEST(weir::testing::run(ctx) == 0U);
    run_for(ctx, 24h * 365);
    BOOST_TEST(waited.calls == 0);
    t.cancel();
    run_for(ctx, 0s);
    BOOST_TEST(waited.error == aborted);
}

BOOST_AUTO_TEST_CASE(takes_one_context_at_a_time) {
    asio::io_context other;
    record here;
    record there;
    timer t(ctx, 1s);
    timer u(other, 2s);
    t.async_wait(noting(here));
    u.async_wait(noting(there));
    BOOST_TEST(next_expiry(ctx) == start + 1s);
    BOOST_TEST(next_expiry(other) == start + 2s);

    run_for(ctx, 1h);
    BOOST_TEST(here.calls == 1);
    BOOST_TEST(here.at == start + 1s);
    BOOST_TEST(there.calls == 0);
    BOOST_TEST(next_expiry(ctx) == nothing_pending);
    BOOST_TEST(next_expiry(other) == start + 2s);

    // All contexts share the time, so this timer is late by now.
    run_for(other, 0s);
    BOOST_TEST(there.calls == 1);
    BOOST_TEST(there.at == start + 1h);
}

BOOST_AUTO_TEST_CASE(propagates_an_exception_of_a_handler) {
    record waited;
    timer t(ctx, 1s);
    t.async_wait([](error_code) { throw 42; });
    t.async_wait(noting(waited));
    BOOST_CHECK_THROW(run_for(ctx, 1h), int);
    BOOST_TEST(elapsed() == 1s);
    run_for(ctx, 1h);
    BOOST_TEST(waited.calls == 1);
}

BOOST_AUTO_TEST_CASE(simulates_a_day_of_limiting_in_milliseconds) {
    weir::testing::limiter<weir::sliding_log> tokens{ctx, {.limit = 10, .window = 1min}};
    int served = 0;
    auto client = [&]() -> asio::awaitable<void> {
        for (;;) {
            auto const token = co_await tokens.enter();
            ++served;
        }
    };
    co_spawn(ctx, client(), asio::detached);
    run_for(ctx, 24h - 1ns);
    BOOST_TEST(served == 10 * 60 * 24);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(a_virtual_timer, some_time)

BOOST_AUTO_TEST_CASE(never_completes_inside_the_initiating_function) {
    record waited;
    timer t(ctx, -1s);
    t.async_wait(noting(waited));
    BOOST_TEST(waited.calls == 0);
    run_for(ctx, 0s);
    BOOST_TEST(waited.calls == 1);
    BOOST_TEST(!waited.error);
    BOOST_TEST(waited.at == start);
}

BOOST_AUTO_TEST_CASE(returns_its_expiry) {
    timer t(ctx);
    BOOST_TEST(t.expiry() == clock::time_point());
    BOOST_TEST(t.expires_at(start + 3s) == 0U);
    BOOST_TEST(t.expiry() == start + 3s);
    BOOST_TEST(t.expires_after(5s) == 0U);
    BOOST_TEST(t.expiry() == start + 5s);
    BOOST_TEST(timer(ctx, 7s).expiry() == start + 7s);
    BOOST_TEST(timer(ctx, start + 8s).expiry() == start + 8s);
    BOOST_TEST((t.get_executor() == ctx.get_executor()));
}

BOOST_AUTO_TEST_CASE(may_expire_at_the_last_instant) {
    timer t(ctx, clock::duration::max());
    BOOST_TEST(t.expiry() == clock::time_point::max());
    t.expires_after(clock::duration::max());
    BOOST_TEST(t.expiry() == clock::time_point::max());
}

BOOST_AUTO_TEST_CASE(may_be_waited_for_many_times) {
    std::array<record, 3> waited;
    timer t(ctx, 1s);
    for (auto& w : waited)
        t.async_wait(noting(w));
    run_for(ctx, 1s);
    for (auto const& w : waited) {
        BOOST_TEST(w.calls == 1);
        BOOST_TEST(!w.error);
    }
}

BOOST_AUTO_TEST_CASE(cancels_all_pending_waits_and_returns_their_number) {
    std::array<record, 3> waited;
    timer t(ctx, 1s);
    timer other(ctx, 1s);
    t.async_wait(noting(waited[0]));
    t.async_wait(noting(waited[1]));
    other.async_wait(noting(waited[2]));

    BOOST_TEST(t.cancel() == 2U);
    BOOST_TEST(waited[0].calls == 0);
    BOOST_TEST(t.cancel() == 0U);
    run_for(ctx, 0s);
    BOOST_TEST(waited[0].error == aborted);
    BOOST_TEST(waited[1].error == aborted);
    BOOST_TEST(waited[2].calls == 0);

    run_for(ctx, 1s);
    BOOST_TEST(!waited[2].error);
    BOOST_TEST(waited[0].calls == 1);
    BOOST_TEST(t.cancel() == 0U);
}

BOOST_AUTO_TEST_CASE(cannot_be_cancelled_once_it_has_fired) {
    record waited;
    timer t(ctx, 1s);
    t.async_wait(noting(waited));
    clock::advance_to(start + 1s);
    fire_due(ctx);  // the handler is posted
    BOOST_TEST(t.cancel() == 0U);
    run_for(ctx, 0s);
    BOOST_TEST(waited.calls == 1);
    BOOST_TEST(!waited.error);
}

BOOST_AUTO_TEST_CASE(cancels_pending_waits_when_its_expiry_changes) {
    record first;
    record second;
    timer t(ctx, 5s);
    t.async_wait(noting(first));
    BOOST_TEST(t.expires_after(1s) == 1U);
    t.async_wait(noting(second));
    run_for(ctx, 1h);
    BOOST_TEST(first.error == aborted);
    BOOST_TEST(first.at == start);
    BOOST_TEST(!second.error);
    BOOST_TEST(second.at == start + 1s);

    t.async_wait(noting(first));
    BOOST_TEST(t.expires_at(start + 9h) == 1U);
}

BOOST_AUTO_TEST_CASE(cancels_pending_waits_on_destruction) {
    record waited;
    {
        timer t(ctx, 5s);
        t.async_wait(noting(waited));
    }
    BOOST_TEST(waited.calls == 0);
    BOOST_TEST(next_expiry(ctx) == nothing_pending);
    run_for(ctx, 0s);
    BOOST_TEST(waited.error == aborted);
    BOOST_TEST(waited.calls == 1);
}

BOOST_AUTO_TEST_CASE(keeps_pending_waits_on_a_move) {
    record waited;
    record overwritten;
    timer t(ctx, 5s);
    t.async_wait(noting(waited));
    timer u(std::move(t));
    BOOST_TEST(u.expiry() == start + 5s);

    timer v(ctx, 7s);
    v.async_wait(noting(overwritten));
    v = std::move(u);
    run_for(ctx, 0s);
    BOOST_TEST(overwritten.error == aborted);
    BOOST_TEST(waited.calls == 0);
    run_for(ctx, 5s);
    BOOST_TEST(!waited.error);
    BOOST_TEST(waited.at == start + 5s);
}

BOOST_AUTO_TEST_CASE(lets_one_of_many_waits_be_cancelled_by_its_slot) {
    std::array<record, 3> waited;
    asio::cancellation_signal signal;
    timer t(ctx, 5s);
    t.async_wait(noting(waited[0]));
    t.async_wait(asio::bind_cancellation_slot(signal.slot(), noting(waited[1])));
    t.async_wait(noting(waited[2]));

    signal.emit(asio::cancellation_type::none);
    run_for(ctx, 0s);
    BOOST_TEST(waited[1].calls == 0);

    signal.emit(asio::cancellation_type::terminal);
    BOOST_TEST(waited[1].calls == 0);
    run_for(ctx, 1s);
    BOOST_TEST(waited[1].error == aborted);
    BOOST_TEST(waited[1].at == start);
    BOOST_TEST(waited[0].calls == 0);

    run_for(ctx, 4s);
    BOOST_TEST(!waited[0].error);
    BOOST_TEST(!waited[2].error);
    BOOST_TEST(waited[1].calls == 1);
}

BOOST_AUTO_TEST_CASE(takes_any_type_of_cancellation) {
    using type = asio::cancellation_type;
    for (auto const how : {type::terminal, type::partial, type::total, type::all}) {
        record waited;
        asio::cancellation_signal signal;
        timer t(ctx, 5s);
        t.async_wait(asio::bind_cancellation_slot(signal.slot(), noting(waited)));
        signal.emit(how);
        run_for(ctx, 0s);
        BOOST_TEST(waited.error == aborted);
    }
}

BOOST_AUTO_TEST_CASE(ignores_a_late_signal) {
    record waited;
    record next;
    asio::cancellation_signal signal;
    {
        timer t(ctx, 1s);
        t.async_wait(asio::bind_cancellation_slot(signal.slot(), noting(waited)));
        run_for(ctx, 1s);
        signal.emit(asio::cancellation_type::all);
        t.expires_after(1s);
        t.async_wait(noting(next));
        signal.emit(asio::cancellation_type::all);
        run_for(ctx, 1s);
    }
    signal.emit(asio::cancellation_type::all);
    run_for(ctx, 0s);
    BOOST_TEST(waited.calls == 1);
    BOOST_TEST(!waited.error);
    BOOST_TEST(!next.error);
}

BOOST_AUTO_TEST_CASE(ignores_a_signal_that_outlives_its_context) {
    asio::cancellation_signal signal;
    record waited;
    {
        asio::io_context short_lived;
        timer t(short_lived, 1s);
        t.async_wait(asio::bind_cancellation_slot(signal.slot(), noting(waited)));
    }
    signal.emit(asio::cancellation_type::all);
    BOOST_TEST(waited.calls == 0);
}

BOOST_AUTO_TEST_CASE(can_be_raced_against_others) {
    std::size_t first = 0;
    auto race = [&]() -> asio::awaitable<void> {
        auto const result = co_await (sleep(3s) || sleep(1s) || sleep(2s));
        first = result.index();
    };
    co_spawn(ctx, race(), asio::detached);
    run_for(ctx, 1s);
    BOOST_TEST(first == 1U);
    BOOST_TEST(next_expiry(ctx) == nothing_pending);
}

BOOST_AUTO_TEST_CASE(can_be_awaited_together_with_others) {
    clock::time_point at;
    auto all = [&]() -> asio::awaitable<void> {
        co_await (sleep(3s) && sleep(1s) && sleep(2s));
        at = clock::now();
    };
    co_spawn(ctx, all(), asio::detached);
    BOOST_TEST(weir::testing::run(ctx) > 0U);
    BOOST_TEST(at == start + 3s);
}

BOOST_AUTO_TEST_CASE(limits_the_time_of_another_operation) {
    weir::testing::limiter<weir::seats> kitchen{ctx, {.seats = 1}};
    auto const seat = kitchen.try_enter();
    std::size_t which = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        auto const result = co_await (kitchen.enter() || sleep(5s));
        which = result.index();
        BOOST_TEST((clock::now() == start + 5s));
    };
    co_spawn(ctx, guest(), asio::detached);
    run_for(ctx, 1h);
    BOOST_TEST(which == 1U);
    BOOST_TEST(kitchen.stats().waiting == 0U);
}

BOOST_AUTO_TEST_CASE(completes_on_the_executor_of_the_handler) {
    asio::io_context elsewhere;
    auto const strand = asio::make_strand(elsewhere);
    bool done = false;
    timer t(ctx, 1s);
    t.async_wait(asio::bind_executor(strand, [&](error_code ec) {
        BOOST_TEST(!ec);
        BOOST_TEST(strand.running_in_this_thread());
        done = true;
    }));
    run_for(ctx, 1s);
    BOOST_TEST(!done);
    run_for(elsewhere, 0s);
    BOOST_TEST(done);
}

BOOST_AUTO_TEST_CASE(is_work_for_its_context_and_the_context_of_the_handler) {
    asio::io_context elsewhere;
    timer t(ctx, 1s);
    ctx.poll();
    BOOST_TEST(ctx.stopped());
    ctx.restart();

    t.async_wait(asio::bind_executor(elsewhere, [](error_code) {}));
    ctx.poll();
    elsewhere.poll();
    BOOST_TEST(!ctx.stopped());
    BOOST_TEST(!elsewhere.stopped());

    t.cancel();
    ctx.poll();
    elsewhere.poll();
    BOOST_TEST(ctx.stopped());
    BOOST_TEST(elsewhere.stopped());
}

BOOST_AUTO_TEST_CASE(destroys_waiting_handlers_uncalled_when_the_context_ends) {
    auto const token = std::make_shared<int>();
    std::optional<timer> outlives;
    {
        asio::io_context short_lived;
        outlives.emplace(short_lived, 1s);
        outlives->async_wait([token](error_code) { BOOST_ERROR("called"); });
        outlives->async_wait([token](error_code) { BOOST_ERROR("called"); });
        BOOST_TEST(token.use_count() == 3);
    }
    BOOST_TEST(token.use_count() == 1);
    BOOST_TEST(outlives->cancel() == 0U);
}

BOOST_AUTO_TEST_CASE(may_be_owned_by_its_handler_when_the_context_ends) {
    std::weak_ptr<timer> observer;
    {
        asio::io_context short_lived;
        auto owned = std::make_shared<timer>(short_lived, 1s);
        observer = owned;
        auto& t = *owned;
        t.async_wait([owned = std::move(owned)](error_code) { BOOST_ERROR("called"); });
        BOOST_TEST(!observer.expired());
    }
    BOOST_TEST(observer.expired());
}

BOOST_AUTO_TEST_CASE(is_destroyed_with_the_waiting_coroutine_when_the_context_ends) {
    auto const token = std::make_shared<int>();
    {
        asio::io_context short_lived;
        auto waits = [](std::shared_ptr<int>) -> asio::awaitable<void> {
            co_await (sleep(1h) || sleep(2h));
        };
        co_spawn(short_lived, waits(token), asio::detached);
        run_for(short_lived, 1s);
        BOOST_TEST(token.use_count() == 2);
    }
    BOOST_TEST(token.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(destroys_a_posted_handler_uncalled_with_its_context) {
    auto const token = std::make_shared<int>();
    {
        asio::io_context short_lived;
        timer t(short_lived, 0s);
        t.async_wait([token](error_code) { BOOST_ERROR("called"); });
        fire_due(short_lived);
    }
    BOOST_TEST(token.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(works_on_an_executor_of_another_type) {
    record waited;
    weir::testing::basic_timer<asio::io_context::executor_type> t(ctx, 1s);
    t.async_wait(noting(waited));
    run_for(ctx, 1s);
    BOOST_TEST(waited.calls == 1);
}

BOOST_AUTO_TEST_CASE(may_be_used_on_several_threads_with_one_timer_for_each) {
    std::atomic<int> fired = 0;
    std::atomic<int> cancelled = 0;
    auto const count = [&](error_code ec) { ++(ec ? cancelled : fired); };
    auto const work = [&] {
        std::vector<timer> timers;
        for (int i = 0; i != 100; ++i) {
            timers.emplace_back(ctx, i * 1ms);
            timers.back().async_wait(count);
        }
        for (int i = 0; i != 50; ++i)
            timers[static_cast<std::size_t>(2 * i)].cancel();
        for (auto& t : timers)
            t.expires_at(t.expiry() + 1s);  // cancels the other 50
        for (auto& t : timers)
            t.async_wait(count);
        return timers;
    };
    std::array<std::vector<timer>, 4> timers;
    std::vector<std::thread> threads;
    for (auto& mine : timers)
        threads.emplace_back([&] { mine = work(); });
    for (auto& thread : threads)
        thread.join();
    weir::testing::run(ctx);
    BOOST_TEST(cancelled == 400);
    BOOST_TEST(fired == 400);
}

BOOST_AUTO_TEST_SUITE_END()
