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

template <class Other, class Chain>
void calls_and_runs(asio::io_context& ctx, Chain& l) {
    error_code ec = errc::closed;
    granted(l.try_enter(ec));
    BOOST_TEST(!ec);
    run_to_end(ctx, calls<Other>(l, Chain::clock_type::now() + 1h));
    run_to_end(ctx, runs<Other>(l));
}

// Makes a chain of two limiters with `make(one, two)`.
template <class Executor, class Make>
void use_chain(Make make) {
    with_own_and_other_coroutine<Executor>([&]<class Other>() {
        asio::io_context ctx;
        auto const ex = executor_of<Executor>(ctx);
        seats<Executor> one(ex, {.seats = 3});
        seats<Executor> two(ex, {.seats = 3});
        auto l = make(one, two);
        calls_and_runs<Other>(ctx, l);
        two.close();
        auto const deadline = decltype(l)::clock_type::now() + 1h;
        run_to_end(ctx, rejections<Other, weir::chain_rejection>(l, deadline));
    });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(verbs_chain)

BOOST_AUTO_TEST_CASE_TEMPLATE(chain, Executor, executors) {
    use_chain<Executor>([](auto& one, auto& two) { return weir::chain{one, two}; });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(chain_at_run_time, Executor, executors) {
    use_chain<Executor>([](auto& one, auto& two) {
        return weir::basic_any_chain<Executor>{one, two};
    });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(chain_without_limiters, Executor, executors) {
    with_own_and_other_coroutine<Executor>([]<class Other>() {
        asio::io_context ctx;
        weir::basic_any_chain<Executor> l(executor_of<Executor>(ctx));
        calls_and_runs<Other>(ctx, l);
    });
}

BOOST_AUTO_TEST_SUITE_END()
