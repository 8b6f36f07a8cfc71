#include <weir/keyed.hpp>
#include <weir/leaky_bucket.hpp>

#include "verbs/table.hpp"

using namespace verbs;
using weir::testing::clock;

namespace {

template <class Executor>
using keyed = weir::basic_keyed<int, weir::policy::seats, Executor, timer<Executor>>;
template <class Executor>
using leaky_bucket = weir::basic_leaky_bucket<Executor, timer<Executor>>;

static_assert(std::same_as<seats<erased>::rebind_executor<strand>::other, seats<strand>>);
static_assert(std::same_as<keyed<erased>::rebind_executor<strand>::other, keyed<strand>>);
static_assert(can_be_configured<seats<erased>>);
static_assert(can_be_configured<keyed<erased>>);

}  // namespace

BOOST_AUTO_TEST_SUITE(verbs_limiter)

BOOST_AUTO_TEST_CASE_TEMPLATE(limiter, Executor, executors) {
    with_each_coroutine([]<class Other>() {
        asio::io_context ctx;
        seats<Executor> l(executor_of<Executor>(ctx), {.seats = 3});
        auto const deadline = clock::now() + 1h;
        run_to_end(ctx, calls<Other>(l, deadline));
        run_to_end(ctx, counted_calls<Other>(l, deadline));
        run_to_end(ctx, runs<Other>(l));
        l.close();
        observed(l, 5, [&] { run_to_end(ctx, rejections<Other, weir::rejection>(l, deadline)); });
    });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(limiter_by_key, Executor, executors) {
    with_own_and_other_coroutine<Executor>([]<class Other>() {
        asio::io_context ctx;
        keyed<Executor> l(executor_of<Executor>(ctx), {.seats = 3});
        auto const deadline = clock::now() + 1h;
        run_to_end(ctx, calls<Other>(l, deadline, 7));
        run_to_end(ctx, counted_calls<Other>(l, deadline, 7));
        run_to_end(ctx, runs<Other>(l, 7));
        l.close();
        observed(l, 5,
                 [&] { run_to_end(ctx, rejections<Other, weir::rejection>(l, deadline, 7)); });
    });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(reservation, Executor, executors) {
    with_own_and_other_coroutine<Executor>([]<class Other>() {
        asio::io_context ctx;
        leaky_bucket<Executor> l(executor_of<Executor>(ctx), {.rate = {10, 1s}});
        auto use = [](auto& of) -> asio::awaitable<void, Other> {
            constexpr asio::use_awaitable_t<Other> token;
            auto entered = of.reserve();
            granted(co_await entered.enter());
            auto awaited = of.reserve();
            granted(co_await awaited.async_enter());
            auto by_token = of.reserve();
            granted(co_await by_token.async_enter(token));
        };
        run_to_end(ctx, use(l));
    });
}

BOOST_AUTO_TEST_SUITE_END()
