#include <weir/chain.hpp>
#include <weir/keyed.hpp>

#include "verbs/table.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/system_executor.hpp>

#include <future>

using namespace verbs;
using weir::testing::clock;

namespace {

template <class Chain, class TimePoint>
concept takes_deadline = requires(Chain& c, TimePoint t) {
    c.enter_until(t);
    c.async_enter_until(t);
};
template <class... Limiters>
using chain_of = decltype(weir::chain(std::declval<Limiters const&>()...));
using system_time = std::chrono::system_clock::time_point;
using steady_time = std::chrono::steady_clock::time_point;

// A time point of another clock than the limiters' does not compile.
static_assert(takes_deadline<chain_of<weir::seats, weir::seats>, steady_time>);
static_assert(!takes_deadline<chain_of<weir::seats, weir::seats>, system_time>);
static_assert(!takes_deadline<chain_of<weir::seats, weir::seats>, clock::time_point>);
static_assert(takes_deadline<chain_of<seats<erased>, weir::seats>, clock::time_point>);
static_assert(!takes_deadline<chain_of<seats<erased>, weir::seats>, steady_time>);
static_assert(takes_deadline<weir::any_chain, steady_time>);
static_assert(!takes_deadline<weir::any_chain, system_time>);

static_assert(
    std::same_as<weir::any_chain::rebind_executor<strand>::other, weir::basic_any_chain<strand>>);

}  // namespace

BOOST_AUTO_TEST_SUITE(verbs_chain)

BOOST_AUTO_TEST_CASE_TEMPLATE(chain, Executor, executors) {
    with_each_coroutine([]<class Other>() {
        asio::io_context ctx;
        auto const ex = executor_of<Executor>(ctx);
        seats<Executor> one(ex, {.seats = 3});
        seats<Executor> two(ex, {.seats = 3});
        weir::chain l{one, two};
        auto const deadline = clock::now() + 1h;
        error_code ec;
        granted(l.try_enter(ec));
        run_to_end(ctx, calls<Other>(l, deadline));
        run_to_end(ctx, runs<Other>(l));
        two.close();
        run_to_end(ctx, rejections<Other, weir::chain_rejection>(l, deadline));
    });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(chain_at_run_time, Executor, executors) {
    with_each_coroutine([]<class Other>() {
        asio::io_context ctx;
        auto const ex = executor_of<Executor>(ctx);
        seats<Executor> one(ex, {.seats = 3});
        seats<Executor> two(ex, {.seats = 3});
        weir::basic_any_chain<Executor> l{one, two};
        auto const deadline = std::chrono::steady_clock::now() + 1h;
        error_code ec;
        granted(l.try_enter(ec));
        run_to_end(ctx, calls<Other>(l, deadline));
        run_to_end(ctx, runs<Other>(l));
        two.close();
        run_to_end(ctx, rejections<Other, weir::chain_rejection>(l, deadline));
    });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(chain_without_limiters, Executor, executors) {
    with_each_coroutine([]<class Other>() {
        asio::io_context ctx;
        weir::basic_any_chain<Executor> l(executor_of<Executor>(ctx));
        auto const deadline = std::chrono::steady_clock::now() + 1h;
        error_code ec = errc::closed;
        granted(l.try_enter(ec));
        BOOST_TEST(!ec);
        run_to_end(ctx, calls<Other>(l, deadline));
        run_to_end(ctx, runs<Other>(l));
    });
}

BOOST_AUTO_TEST_SUITE_END()
