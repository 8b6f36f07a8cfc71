#include <weir/shared/limiter.hpp>
#include <weir/shared/memory_store.hpp>
#include <weir/shared/seats.hpp>

#include "verbs/table.hpp"

#include <memory>

using namespace verbs;
using weir::testing::clock;

namespace {

using store = weir::basic_memory_store<timer<erased>>;

template <class Executor>
using bucket = weir::basic_shared_token_bucket<Executor, timer<Executor>>;
template <class Executor>
using interval = weir::basic_shared_interval<Executor, timer<Executor>>;
template <class Executor>
using leased_seats = weir::basic_shared_seats<Executor, timer<Executor>>;

static_assert(std::same_as<bucket<erased>::rebind_executor<strand>::other, bucket<strand>>);
static_assert(std::same_as<interval<erased>::rebind_executor<strand>::other, interval<strand>>);
static_assert(
    std::same_as<leased_seats<erased>::rebind_executor<strand>::other, leased_seats<strand>>);

// A shared limiter grants nothing without a round trip, so `try_enter` is not in this table.
template <class Executor, class Limiter>
asio::awaitable<void, Executor> shared_calls(Limiter& l, clock::time_point deadline) {
    constexpr asio::use_awaitable_t<Executor> token;
    granted(co_await l.enter());
    granted(co_await l.enter(1s));
    granted(co_await l.enter({2, {}}, 1s));
    granted(co_await l.enter_until(deadline));
    granted(co_await l.enter_until(2, deadline));
    granted(co_await l.async_enter());
    granted(co_await l.async_enter(2, 1s));
    granted(co_await l.async_enter_until(2, deadline));
    granted(co_await l.async_enter(token));
    granted(co_await l.async_enter(2, 1s, token));
    granted(co_await l.async_enter_until(2, deadline, token));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(verbs_shared)

BOOST_AUTO_TEST_CASE_TEMPLATE(shared_bucket, Executor, executors) {
    with_own_and_other_coroutine<Executor>([]<class Other>() {
        asio::io_context ctx;
        bucket<Executor> l(executor_of<Executor>(ctx), std::make_shared<store>(ctx), "calls",
                           {.rate = {1000, 1s}, .burst = 100});
        auto const deadline = clock::now() + 1h;
        run_to_end(ctx, shared_calls<Other>(l, deadline));
        run_to_end(ctx, runs<Other>(l));
        l.close();
        observed(l, 5, [&] { run_to_end(ctx, rejections<Other, weir::rejection>(l, deadline)); });
    });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(shared_seats, Executor, executors) {
    with_own_and_other_coroutine<Executor>([]<class Other>() {
        asio::io_context ctx;
        leased_seats<Executor> l(
            executor_of<Executor>(ctx), std::make_shared<store>(ctx), "seats", {.seats = 3});
        auto const deadline = clock::now() + 1h;
        run_to_end(ctx, shared_calls<Other>(l, deadline));
        run_to_end(ctx, runs<Other>(l));
        l.close();
        observed(l, 5, [&] { run_to_end(ctx, rejections<Other, weir::rejection>(l, deadline)); });
    });
}

BOOST_AUTO_TEST_SUITE_END()
