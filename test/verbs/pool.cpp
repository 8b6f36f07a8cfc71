#include <weir/pool.hpp>

#include "verbs/table.hpp"

using namespace verbs;
using weir::testing::clock;

namespace {

template <class Executor>
using pool = weir::basic_pool<int, Executor, timer<Executor>>;

static_assert(std::same_as<pool<erased>::rebind_executor<strand>::other, pool<strand>>);
static_assert(can_be_configured<pool<erased>>);

asio::awaitable<int> make_seven() {
    co_return 7;
}

template <class Executor, class Pool>
asio::awaitable<void, Executor> checkouts(Pool& l, clock::time_point deadline) {
    constexpr asio::use_awaitable_t<Executor> token;
    granted(co_await l.checkout());
    granted(l.try_checkout());
    granted(co_await l.checkout(1s));
    granted(co_await l.checkout_until(deadline));
    granted(co_await l.async_checkout());
    granted(co_await l.async_checkout(1s));
    granted(co_await l.async_checkout_until(deadline));
    granted(co_await l.async_checkout(token));
    granted(co_await l.async_checkout(1s, token));
    granted(co_await l.async_checkout_until(deadline, token));

    int called = 0;
    auto callback = [&](error_code ec, auto lease) { called += !ec && lease ? 1 : 0; };
    l.async_checkout(callback);
    l.async_checkout(1s, callback);
    l.async_checkout_until(deadline, callback);
    co_await all_called<Executor>(called, 3);

    auto plain = [](int& object) { return object; };
    auto nothing = [](int&) {};
    auto own = [](int& object) -> asio::awaitable<int, Executor> { co_return object; };
    auto other = [](int& object) -> asio::awaitable<int, erased> { co_return object; };
    BOOST_TEST((co_await l.run(plain)) == 7);
    BOOST_TEST((co_await l.run(plain, 1s)) == 7);
    BOOST_TEST((co_await l.run(own)) == 7);
    BOOST_TEST((co_await l.run(own, 1s)) == 7);
    BOOST_TEST((co_await l.run(other)) == 7);
    co_await l.run(nothing);
}

template <class Executor, class Pool>
asio::awaitable<void, Executor> closed_checkouts(Pool& l, clock::time_point deadline) {
    using rejection = weir::checkout_rejection;
    auto checkout = [&] { return l.checkout(); };
    auto checkout_until = [&] { return l.checkout_until(deadline); };
    auto async_checkout = [&] { return l.async_checkout(); };
    auto async_checkout_until = [&] { return l.async_checkout_until(deadline); };
    auto plain = [](int& object) { return object; };
    auto run = [&] { return l.run(plain); };
    co_await rejects<Executor, rejection>(checkout);
    co_await rejects<Executor, rejection>(checkout_until);
    co_await rejects<Executor, rejection>(async_checkout);
    co_await rejects<Executor, rejection>(async_checkout_until);
    co_await rejects<Executor, rejection>(run);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(verbs_pool)

BOOST_AUTO_TEST_CASE_TEMPLATE(pool_of_objects, Executor, executors) {
    with_own_and_other_coroutine<Executor>([]<class Other>() {
        asio::io_context ctx;
        pool<Executor> l(executor_of<Executor>(ctx), make_seven, {.max = 3});
        auto const deadline = clock::now() + 1h;
        run_to_end(ctx, checkouts<Other>(l, deadline));
        l.close();
        observed(l, 5, [&] { run_to_end(ctx, closed_checkouts<Other>(l, deadline)); });
    });
}

BOOST_AUTO_TEST_SUITE_END()
