#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

template <class Executor>
using seats_on = typename seats::rebind_executor<Executor>::other;

using io_executor = asio::io_context::executor_type;
using strand = asio::strand<io_executor>;

// An executor with only `execute`, which runs its argument inline.
class inline_executor {
public:
    explicit inline_executor(asio::execution_context& context, int& calls) noexcept
        : context_(&context), calls_(&calls) {}
    [[nodiscard]] asio::execution_context& query(asio::execution::context_t) const noexcept {
        return *context_;
    }
    template <class F>
    void execute(F f) const {
        ++*calls_;
        f();
    }
    [[nodiscard]] bool operator==(inline_executor const&) const noexcept = default;

private:
    asio::execution_context* context_;
    int* calls_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_executors)

BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_runs_on_the_executor_of_the_limiter) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    int calls = 0;
    auto callback = [&](error_code, permit) {
        BOOST_TEST(ctx.get_executor().running_in_this_thread());
        ++calls;
    };
    kitchen.async_enter(callback);
    kitchen.async_enter(callback);
    kitchen.async_enter(2, callback);
    settle(ctx);
    BOOST_TEST(calls == 3);
    BOOST_TEST((kitchen.get_executor() == ctx.get_executor()));
}

BOOST_AUTO_TEST_CASE(a_handler_runs_on_its_associated_executor) {
    asio::io_context other;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    int calls = 0;
    auto callback = [&](error_code, permit) {
        BOOST_TEST(other.get_executor().running_in_this_thread());
        ++calls;
    };
    auto const seat = kitchen.try_enter();
    kitchen.async_enter(1, 1s, asio::bind_executor(other, callback));
    kitchen.async_enter(2,
                        asio::bind_executor(asio::any_io_executor(other.get_executor()), callback));
    kitchen.async_drain(asio::bind_executor(other, [&](error_code) {
        BOOST_TEST(other.get_executor().running_in_this_thread());
        ++calls;
    }));
    settle(ctx, other);
    BOOST_TEST(calls == 1);
    run_for(ctx, 2s);
    kitchen.cancel();
    settle(ctx);
    BOOST_TEST(calls == 1);
    settle(other);
    BOOST_TEST(calls == 3);
}

BOOST_AUTO_TEST_CASE(a_handler_on_a_strand_runs_on_this_strand) {
    asio::io_context ctx;
    strand const line(ctx.get_executor());
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    int calls = 0;
    auto callback = [&](error_code, permit) {
        BOOST_TEST(line.running_in_this_thread());
        ++calls;
    };
    kitchen.async_enter(asio::bind_executor(line, callback));
    kitchen.async_enter(2, asio::bind_executor(asio::any_io_executor(line), callback));
    settle(ctx);
    seat.leave();
    settle(ctx);
    BOOST_TEST(calls == 2);
}

BOOST_AUTO_TEST_CASE(a_limiter_can_use_a_strand) {
    asio::io_context ctx;
    strand const line(ctx.get_executor());
    seats erased{asio::any_io_executor(line), {.seats = 1}};
    seats_on<strand> typed{line, {.seats = 1}};
    int calls = 0;
    auto callback = [&](error_code, permit) {
        BOOST_TEST(line.running_in_this_thread());
        ++calls;
    };
    auto one = erased.try_enter();
    auto two = typed.try_enter();
    erased.async_enter(callback);
    typed.async_enter(callback);
    erased.async_enter(2, callback);
    typed.async_enter(1, 1s, callback);
    settle(ctx);
    one.leave();
    two.leave();
    run_for(ctx, 2s);
    BOOST_TEST(calls == 4);
}

BOOST_AUTO_TEST_CASE(a_limiter_can_use_a_concrete_executor) {
    asio::io_context ctx;
    seats_on<io_executor> kitchen{ctx, {.seats = 1}};
    static_assert(std::is_same_v<decltype(kitchen)::executor_type, io_executor>);
    auto seat = kitchen.try_enter();
    visit guest{kitchen};
    visit too_many{kitchen, 2};
    visit impatient{kitchen, 1s};
    run_for(ctx, 2s);
    seat.leave();
    settle(ctx);
    BOOST_TEST(guest.granted());
    BOOST_TEST(too_many.rejected(errc::exceeds_capacity));
    BOOST_TEST(impatient.rejected(errc::timed_out));
}

BOOST_AUTO_TEST_CASE(typed_coroutines_enter_limiters_with_their_executor_type) {
    asio::io_context ctx;
    seats_on<io_executor> kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    int passed = 0;
    auto guest = [&]() -> asio::awaitable<void, io_executor> {
        permit const held = co_await kitchen.enter();
        BOOST_TEST(held.waited() == 1s);
        auto cook = [&]() -> asio::awaitable<int, io_executor> { co_return 3; };
        auto wait = [&] { return 4; };
        seats_on<io_executor> table{ctx, {.seats = 1}};
        auto const cooked = co_await table.run(cook);
        auto const waited = co_await table.run(wait, 1s);
        BOOST_TEST(cooked + waited == 7);
        permit const by_token = co_await table.async_enter(asio::use_awaitable_t<io_executor>());
        ++passed;
    };
    co_spawn(ctx, guest(), rethrow);
    run_for(ctx, 1s);
    seat.leave();
    settle(ctx);
    BOOST_TEST(passed == 1);
}

BOOST_AUTO_TEST_CASE(typed_coroutines_enter_limiters_with_any_io_executor) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    int passed = 0;
    auto guest = [&]() -> asio::awaitable<void, io_executor> {
        permit const held = co_await kitchen.enter(1s);
        BOOST_TEST(bool(held));
        ++passed;
    };
    co_spawn(ctx, guest(), rethrow);
    settle(ctx);
    seat.leave();
    settle(ctx);
    BOOST_TEST(passed == 1);
}

BOOST_AUTO_TEST_CASE(a_coroutine_resumes_on_its_own_executor) {
    asio::io_context home;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    int passed = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        permit held = co_await kitchen.enter();
        BOOST_TEST(home.get_executor().running_in_this_thread());
        try {
            permit const none = co_await kitchen.enter(1s);
        } catch (weir::rejection const& why) {
            BOOST_TEST(why.code() == errc::timed_out);
            BOOST_TEST(home.get_executor().running_in_this_thread());
            ++passed;
        }
        permit const nobody = co_await kitchen.enter(0);
        BOOST_TEST(home.get_executor().running_in_this_thread());
        ++passed;
    };
    co_spawn(home, guest(), rethrow);
    settle(ctx, home);
    seat.leave();
    settle(ctx, home);
    run_for(ctx, 2s);
    settle(ctx, home);
    BOOST_TEST(passed == 2);
}

BOOST_AUTO_TEST_CASE(a_waiting_request_keeps_both_contexts_running) {
    asio::io_context other;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();

    kitchen.async_enter(asio::bind_executor(other, [](error_code, permit) {}));
    settle(ctx);
    BOOST_TEST(!ctx.stopped());
    other.restart();
    other.poll();
    BOOST_TEST(!other.stopped());

    seat.leave();
    settle(ctx, other);
    BOOST_TEST(ctx.stopped());
    BOOST_TEST(other.stopped());
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_CASE(a_waiting_erased_handler_keeps_both_contexts_running) {
    asio::io_context other;
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    int calls = 0;
    auto callback = [&](error_code, permit) {
        BOOST_TEST(other.get_executor().running_in_this_thread());
        ++calls;
    };
    kitchen.async_enter(asio::any_completion_handler<void(error_code, permit)>(
        asio::bind_executor(other, callback)));
    settle(ctx);
    BOOST_TEST(!ctx.stopped());
    other.restart();
    other.poll();
    BOOST_TEST(!other.stopped());

    seat.leave();
    settle(ctx, other);
    BOOST_TEST(calls == 1);
    BOOST_TEST(ctx.stopped());
    BOOST_TEST(other.stopped());

    // A request that is granted at once runs its handler there too.
    kitchen.async_enter(asio::any_completion_handler<void(error_code, permit)>(
        asio::bind_executor(other, callback)));
    settle(ctx, other);
    BOOST_TEST(calls == 2);
}

BOOST_AUTO_TEST_CASE(an_idle_limiter_keeps_no_context_running) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto const seat = kitchen.try_enter();
    BOOST_TEST(ctx.poll() == 0U);
    BOOST_TEST(ctx.stopped());
    visit guest{kitchen, 1s};
    run_for(ctx, 2s);
    BOOST_TEST(guest.rejected(errc::timed_out));
    BOOST_TEST(ctx.stopped());
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));
}

BOOST_AUTO_TEST_CASE(the_timer_stops_when_no_request_waits) {
    asio::io_context ctx;
    sliding_log printer{ctx, {.limit = 1, .window = 1h}};
    auto const first = printer.try_enter();
    asio::cancellation_signal signal;
    visit guest;
    printer.async_enter(asio::bind_cancellation_slot(signal.slot(), guest.callback()));
    settle(ctx);
    BOOST_TEST((weir::testing::next_expiry(ctx) != clock::time_point::max()));
    signal.emit(asio::cancellation_type::terminal);
    settle(ctx);
    BOOST_TEST((weir::testing::next_expiry(ctx) == clock::time_point::max()));
    BOOST_TEST(ctx.stopped());
}

BOOST_AUTO_TEST_CASE(an_executor_without_post_is_reached_through_the_executor_of_the_limiter) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    int calls = 0;
    inline_executor const on_the_spot(ctx, calls);
    visit granted;
    visit waits;
    kitchen.async_enter(asio::bind_executor(on_the_spot, granted.callback()));
    kitchen.async_enter(1, 1s, asio::bind_executor(on_the_spot, waits.callback()));
    BOOST_TEST(calls == 0);
    run_for(ctx, 2s);
    BOOST_TEST(granted.granted());
    BOOST_TEST(waits.rejected(errc::timed_out));
    BOOST_TEST(calls == 2);
}

BOOST_AUTO_TEST_CASE(the_system_executor_runs_handlers_on_its_threads,
                     *boost::unit_test::label("whole")) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    auto seat = kitchen.try_enter();
    std::promise<std::thread::id> ran;
    kitchen.async_enter(asio::bind_executor(asio::system_executor(), [&](error_code, permit) {
        ran.set_value(std::this_thread::get_id());
    }));
    settle(ctx);
    seat.leave();
    settle(ctx);
    BOOST_TEST((ran.get_future().get() != std::this_thread::get_id()));
}

BOOST_AUTO_TEST_CASE(a_limiter_can_use_the_system_executor, *boost::unit_test::label("whole")) {
    weir::seats kitchen{asio::system_executor(), {.seats = 1}};
    auto seat = kitchen.try_enter();
    auto later = kitchen.async_enter(asio::use_future);
    auto never = kitchen.async_enter(1ms, asio::use_future);
    BOOST_CHECK_THROW(static_cast<void>(never.get()), boost::system::system_error);
    seat.leave();
    later.get().leave();
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_CASE(a_thread_pool_and_coroutines_on_strands_of_it) {
    asio::thread_pool pool(2);
    seats kitchen{pool, {.seats = 1}};
    int inside = 0;  // guarded by the only seat
    int most = 0;
    std::atomic<int> done = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        for (int i = 0; i != 50; ++i) {
            auto const seat = co_await kitchen.enter();
            most = std::max(most, ++inside);
            co_await asio::post(asio::deferred);
            --inside;
        }
        ++done;
    };
    for (int i = 0; i != 8; ++i)
        co_spawn(asio::make_strand(pool), guest(), rethrow);
    pool.join();
    BOOST_TEST(done == 8);
    BOOST_TEST(most == 1);
    BOOST_TEST(kitchen.stats().granted == 400U);
    BOOST_TEST(kitchen.stats().live == 0U);
}

BOOST_AUTO_TEST_CASE(a_context_run_by_many_threads) {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 2}};
    std::atomic<int> inside = 0;
    std::atomic<int> most = 0;
    std::atomic<int> done = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        for (int i = 0; i != 50; ++i) {
            auto const seat = co_await kitchen.enter();
            int const now = ++inside;
            for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {}
            co_await asio::post(asio::deferred);
            --inside;
        }
        ++done;
    };
    for (int i = 0; i != 8; ++i)
        co_spawn(ctx, guest(), rethrow);
    std::vector<std::thread> threads;
    for (int i = 0; i != 3; ++i)
        threads.emplace_back([&] { ctx.run(); });
    for (auto& thread : threads)
        thread.join();
    BOOST_TEST(done == 8);
    BOOST_TEST(most <= 2);
    BOOST_TEST(kitchen.stats().live == 0U);
}

BOOST_AUTO_TEST_CASE(a_blocking_handler_delays_no_other_on_another_thread) {
    asio::thread_pool pool(2);
    seats kitchen{pool, {.seats = 2}};
    auto both = kitchen.try_enter(2);
    std::promise<void> second_ran;
    auto waits_for_the_second = [&](error_code, permit) { second_ran.get_future().wait(); };
    kitchen.async_enter(waits_for_the_second);
    kitchen.async_enter([&](error_code, permit) { second_ran.set_value(); });
    both.leave();
    pool.join();
    BOOST_TEST(kitchen.stats().live == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
