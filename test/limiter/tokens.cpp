#include "support/counting_allocator.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>
#include <future>
#include <memory>
#include <memory_resource>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

// A limiter with its only seat in use, which a test can release.
struct taken_seat {
    asio::io_context ctx;
    seats kitchen{ctx, {.seats = 1}};
    permit seat = kitchen.try_enter();

    void serve() {
        settle(ctx);
        seat.leave();
        settle(ctx);
    }
};

// The body of a composed operation.
class dines {
public:
    explicit dines(seats& where) : where_(&where) {}
    template <class Self>
    void operator()(Self& self) {
        where_->async_enter(std::move(self));
    }
    template <class Self>
    void operator()(Self& self, error_code ec, permit held) {
        self.complete(ec, held.count());
    }

private:
    seats* where_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_tokens)

BOOST_FIXTURE_TEST_CASE(a_callback_that_can_only_be_moved, taken_seat) {
    auto resource = std::make_unique<int>(7);
    int got = 0;
    auto callback = [&, resource = std::move(resource)](error_code ec, permit granted) {
        BOOST_TEST(!ec);
        BOOST_TEST(bool(granted));
        got = *resource;
    };
    kitchen.async_enter(std::move(callback));
    serve();
    BOOST_TEST(got == 7);
}

BOOST_FIXTURE_TEST_CASE(an_lvalue_callback_is_copied, taken_seat) {
    int calls = 0;
    auto const callback = [&](error_code, permit) { ++calls; };
    kitchen.async_enter(callback);
    kitchen.async_enter(callback);
    serve();
    BOOST_TEST(calls == 2);
}

BOOST_FIXTURE_TEST_CASE(a_future, taken_seat) {
    std::future<permit> later = kitchen.async_enter(asio::use_future);
    std::future<permit> never = kitchen.async_enter(2, asio::use_future);
    serve();
    BOOST_TEST(bool(later.get()));
    BOOST_CHECK_EXCEPTION(static_cast<void>(never.get()), boost::system::system_error,
                          [](auto const& why) { return why.code() == errc::exceeds_capacity; });
}

BOOST_FIXTURE_TEST_CASE(a_deferred_operation_starts_when_it_is_called, taken_seat) {
    auto later = kitchen.async_enter(1, 1s, asio::deferred);
    settle(ctx);
    BOOST_TEST(kitchen.stats().waiting == 0U);
    visit guest;
    std::move(later)(guest.callback());
    settle(ctx);
    BOOST_TEST(kitchen.stats().waiting == 1U);
    serve();
    BOOST_TEST(guest.granted());
}

BOOST_FIXTURE_TEST_CASE(the_default_is_deferred, taken_seat) {
    static_assert(std::is_same_v<seats::default_token, asio::deferred_t>);
    visit guest;
    auto later = kitchen.async_enter(1s);
    std::move(later)(guest.callback());
    serve();
    BOOST_TEST(guest.granted());
}

BOOST_FIXTURE_TEST_CASE(the_tokens_of_coroutines, taken_seat) {
    int passed = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        {
            permit held = co_await kitchen.async_enter(asio::use_awaitable);
            BOOST_TEST(held.count() == 1);
        }
        {
            error_code ec = errc::closed;
            permit held =
                co_await kitchen.async_enter(1, 1s, asio::redirect_error(asio::use_awaitable, ec));
            BOOST_TEST(!ec);
        }
        {
            auto const [ec, held] =
                co_await kitchen.async_enter(asio::as_tuple(asio::use_awaitable));
            BOOST_TEST(!ec);
        }
        {
            auto const [ec, none] = co_await kitchen.async_enter(2, asio::as_tuple(asio::deferred));
            BOOST_TEST(ec == errc::exceeds_capacity);
            BOOST_TEST(!none);
        }
        try {
            permit none = co_await kitchen.async_enter(2, asio::use_awaitable);
        } catch (boost::system::system_error const& why) {
            BOOST_TEST(why.code() == errc::exceeds_capacity);
            ++passed;
        }
        ++passed;
    };
    co_spawn(ctx, guest(), rethrow);
    serve();
    BOOST_TEST(passed == 2);
}

BOOST_FIXTURE_TEST_CASE(an_erased_handler, taken_seat) {
    visit guest;
    visit rejected;
    asio::any_completion_handler<void(error_code, permit)> one(guest.callback());
    asio::any_completion_handler<void(error_code, permit)> other(rejected.callback());
    kitchen.async_enter(1s, std::move(one));
    kitchen.async_enter(2, std::move(other));
    serve();
    BOOST_TEST(guest.granted());
    BOOST_TEST(rejected.rejected(errc::exceeds_capacity));
}

BOOST_FIXTURE_TEST_CASE(append_and_other_adapters, taken_seat) {
    int sum = 0;
    auto callback = [&](error_code, permit, int more, int still_more) { sum = more + still_more; };
    kitchen.async_enter(asio::append(callback, 3, 4));
    serve();
    BOOST_TEST(sum == 7);
}

BOOST_FIXTURE_TEST_CASE(a_waiting_operation_is_allocated_once_and_freed_before_the_upcall,
                        taken_seat, *boost::unit_test::label("whole")) {
    allocations counts;
    bool called = false;
    auto callback = [&](error_code ec, permit) {
        BOOST_TEST(!ec);
        BOOST_TEST(counts.live == 0);
        called = true;
    };
    kitchen.async_enter(asio::bind_allocator(counting_allocator<>(counts), callback));
    BOOST_TEST(counts.made == 1);
    settle(ctx);
    BOOST_TEST(counts.made == 1);
    BOOST_TEST(counts.live == 1);
    serve();
    BOOST_TEST(called);
    BOOST_TEST(counts.made == 1);
    BOOST_TEST(counts.live == 0);
}

BOOST_AUTO_TEST_CASE(
    a_posted_completion_uses_the_allocator_of_the_handler_and_is_freed_before_the_upcall) {
    allocations counts;
    int calls = 0;
    asio::io_context ctx;
    using concrete = decltype(ctx)::executor_type;
    seats::rebind_executor<concrete>::other kitchen{ctx.get_executor(), {.seats = 1}};
    auto callback = [&](error_code, permit) {
        ++calls;
        BOOST_TEST(counts.live == 4 - 2 * calls);
    };
    kitchen.async_enter(asio::bind_allocator(counting_allocator<>(counts), callback));
    BOOST_TEST(counts.live == 2);
    kitchen.async_enter(2, asio::bind_allocator(counting_allocator<>(counts), callback));
    BOOST_TEST(counts.live == 4);
    settle(ctx);
    BOOST_TEST(calls == 2);
    BOOST_TEST(counts.live == 0);
}

BOOST_FIXTURE_TEST_CASE(a_slot_cancels_a_waiting_operation, taken_seat) {
    asio::cancellation_signal signal;
    visit guest;
    kitchen.async_enter(asio::bind_cancellation_slot(signal.slot(), guest.callback()));
    settle(ctx);
    signal.emit(asio::cancellation_type::total);
    settle(ctx);
    BOOST_TEST(guest.rejected(asio::error::operation_aborted));
}

BOOST_FIXTURE_TEST_CASE(an_immediate_executor_runs_immediate_completions, taken_seat) {
    int calls = 0;
    auto callback = [&](error_code ec, permit granted) {
        BOOST_TEST((bool(granted) || ec == errc::exceeds_capacity));
        ++calls;
    };
    auto at_once = [&] { return asio::bind_immediate_executor(asio::system_executor(), callback); };
    kitchen.async_enter(2, at_once());
    BOOST_TEST(calls == 1);
    seat.leave();
    kitchen.async_enter(at_once());
    BOOST_TEST(calls == 2);

    seat = kitchen.try_enter();
    kitchen.async_enter(at_once());
    BOOST_TEST(calls == 2);
    settle(ctx);
    BOOST_TEST(calls == 2);
    serve();
    BOOST_TEST(calls == 3);
}

BOOST_FIXTURE_TEST_CASE(an_immediate_upcall_can_enter_again_and_destroy_the_limiter, taken_seat) {
    seat.leave();
    auto cafe = std::make_unique<seats>(ctx, weir::seats_options{.seats = 2});
    visit second;
    auto callback = [&](error_code ec, permit granted) {
        BOOST_TEST(!ec);
        visit third;
        cafe->async_enter(second.callback());
        cafe->async_enter(third.callback());
        granted.leave();
        cafe.reset();
    };
    cafe->async_enter(asio::bind_immediate_executor(asio::system_executor(), callback));
    BOOST_TEST(!cafe);
    settle(ctx);
    BOOST_TEST(second.granted());
}

BOOST_FIXTURE_TEST_CASE(memory_resources_can_be_allocators, taken_seat,
                        *boost::unit_test::label("whole")) {
    std::array<std::byte, 4096> bytes{};
    std::pmr::monotonic_buffer_resource memory(
        bytes.data(), bytes.size(), std::pmr::null_memory_resource());
    visit guest;
    kitchen.async_enter(
        asio::bind_allocator(std::pmr::polymorphic_allocator<>(&memory), guest.callback()));
    serve();
    BOOST_TEST(guest.granted());
}

BOOST_FIXTURE_TEST_CASE(composed_operations_contain_it_and_forward_cancellation, taken_seat) {
    auto async_dine = [&](auto&& token) {
        return asio::async_compose<decltype(token), void(error_code, weir::amount)>(
            dines(kitchen), token, ctx);
    };
    asio::cancellation_signal signal;
    error_code cancelled;
    weir::amount had = 0;
    async_dine(asio::bind_cancellation_slot(signal.slot(), [&](error_code ec, weir::amount) {
        cancelled = ec;
    }));
    async_dine([&](error_code ec, weir::amount n) {
        BOOST_TEST(!ec);
        had = n;
    });
    settle(ctx);
    signal.emit(asio::cancellation_type::terminal);
    serve();
    BOOST_TEST(cancelled == asio::error::operation_aborted);
    BOOST_TEST(had == 1);
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_CASE(the_default_token_of_the_executor_has_precedence) {
    asio::io_context ctx;
    using as_values = asio::as_tuple_t<asio::use_awaitable_t<>>;
    using executor = as_values::executor_with_default<asio::any_io_executor>;
    seats::rebind_executor<executor>::other kitchen{executor(ctx.get_executor()), {.seats = 1}};
    int passed = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        auto const [ec, held] = co_await kitchen.async_enter();
        BOOST_TEST(!ec);
        auto const [why, none] = co_await kitchen.async_enter(1, 0s);
        BOOST_TEST(why == errc::timed_out);
        auto const [aborted] = co_await kitchen.async_drain();
        BOOST_TEST(aborted == asio::error::operation_aborted);
        ++passed;
    };
    auto owner = [&]() -> asio::awaitable<void> {
        weir::testing::timer closing_time{ctx, 1s};
        co_await closing_time.async_wait(asio::deferred);
        kitchen.cancel();
    };
    co_spawn(ctx, guest(), rethrow);
    co_spawn(ctx, owner(), rethrow);
    run_for(ctx, 1s);
    BOOST_TEST(passed == 1);
}

BOOST_AUTO_TEST_CASE(as_default_on_works_for_deferred_and_use_awaitable) {
    asio::io_context ctx;
    using by_deferred = asio::deferred_t::as_default_on_t<seats>;
    using by_awaitable = asio::use_awaitable_t<>::as_default_on_t<seats>;
    by_deferred kitchen{ctx, {.seats = 1}};
    by_awaitable cafe{ctx, {.seats = 1}};
    static_assert(std::is_same_v<by_awaitable::default_token, asio::use_awaitable_t<>>);
    int passed = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        permit const a = co_await kitchen.async_enter();
        permit const b = co_await cafe.async_enter();
        BOOST_TEST(bool(a));
        BOOST_TEST(bool(b));
        ++passed;
    };
    co_spawn(ctx, guest(), rethrow);
    settle(ctx);
    BOOST_TEST(passed == 1);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(limiter_awaitable_operators)

using namespace asio::experimental::awaitable_operators;

BOOST_FIXTURE_TEST_CASE(a_timer_that_wins_cancels_the_waiting_request, taken_seat) {
    weir::testing::timer patience{ctx, 2s};
    std::size_t winner = 99;
    auto guest = [&]() -> asio::awaitable<void> {
        auto const result = co_await (kitchen.enter() || patience.async_wait(asio::use_awaitable));
        winner = result.index();
    };
    co_spawn(ctx, guest(), rethrow);
    run_for(ctx, 1s);
    BOOST_TEST(kitchen.stats().waiting == 1U);
    run_for(ctx, 1s);
    BOOST_TEST(winner == 1U);
    BOOST_TEST(kitchen.stats().waiting == 0U);
    BOOST_TEST(kitchen.stats().cancelled == 1U);
    seat.leave();
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_FIXTURE_TEST_CASE(a_grant_that_wins_cancels_the_timer, taken_seat) {
    weir::testing::timer patience{ctx, 2s};
    bool seated = false;
    auto guest = [&]() -> asio::awaitable<void> {
        auto result = co_await (kitchen.enter() || patience.async_wait(asio::use_awaitable));
        BOOST_TEST_REQUIRE(result.index() == 0U);
        seated = bool(std::get<0>(result));
        BOOST_TEST(kitchen.stats().remaining == 0);
    };
    co_spawn(ctx, guest(), rethrow);
    serve();
    BOOST_TEST(seated);
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_FIXTURE_TEST_CASE(a_grant_at_the_same_instant_as_the_timeout_is_released, taken_seat) {
    // Setup: the seat is released at the instant at which the timer fires, after it.
    weir::testing::timer patience{ctx, 2s};
    weir::testing::timer meal{ctx, 2s};
    meal.async_wait([&](error_code) { seat.leave(); });
    int done = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        auto const result = co_await (kitchen.enter() || patience.async_wait(asio::use_awaitable));
        static_cast<void>(result);
        ++done;
    };
    co_spawn(ctx, guest(), rethrow);
    run_for(ctx, 2s);
    BOOST_TEST(done == 1);
    BOOST_TEST(kitchen.stats().remaining == 1);
    BOOST_TEST(kitchen.stats().live == 0U);
    BOOST_TEST(kitchen.stats().waiting == 0U);
}

BOOST_FIXTURE_TEST_CASE(two_seats_of_two_limiters, taken_seat) {
    seats cafe{ctx, {.seats = 1}};
    auto other = cafe.try_enter();
    int seated = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        auto const [one, two] = co_await (kitchen.enter() && cafe.enter(1min));
        BOOST_TEST(bool(one));
        BOOST_TEST(bool(two));
        ++seated;
    };
    co_spawn(ctx, guest(), rethrow);
    serve();
    BOOST_TEST(seated == 0);
    other.leave();
    settle(ctx);
    BOOST_TEST(seated == 1);
    BOOST_TEST(kitchen.stats().remaining + cafe.stats().remaining == 2);
}

BOOST_FIXTURE_TEST_CASE(a_rejection_of_one_cancels_and_releases_the_other, taken_seat) {
    seats cafe{ctx, {.seats = 1}};
    int rejected = 0;
    auto guest = [&]() -> asio::awaitable<void> {
        try {
            auto const both = co_await (kitchen.enter(1s) && cafe.enter());
        } catch (boost::system::system_error const& why) {
            BOOST_TEST(why.code() == errc::timed_out);
            ++rejected;
        }
    };
    co_spawn(ctx, guest(), rethrow);
    run_for(ctx, 2s);
    BOOST_TEST(rejected == 1);
    BOOST_TEST(cafe.stats().remaining == 1);
}

BOOST_FIXTURE_TEST_CASE(a_parallel_group_of_deferred_requests, taken_seat) {
    seats cafe{ctx, {.seats = 1}};
    auto const other = cafe.try_enter();
    std::array<std::size_t, 2> order{};
    error_code first;
    error_code second;
    auto group = asio::experimental::make_parallel_group(
        kitchen.async_enter(asio::deferred), cafe.async_enter(asio::deferred));
    auto callback = [&](std::array<std::size_t, 2> o, error_code a, permit, error_code b, permit) {
        order = o;
        first = a;
        second = b;
    };
    group.async_wait(asio::experimental::wait_for_one(), callback);
    serve();
    BOOST_TEST(order[0] == 0U);
    BOOST_TEST(!first);
    BOOST_TEST(second == asio::error::operation_aborted);
}

BOOST_AUTO_TEST_SUITE_END()
