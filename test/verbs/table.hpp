#pragma once

#include <weir/error.hpp>
#include <weir/observer.hpp>
#include <weir/seats.hpp>
#include <weir/testing.hpp>

#include "support/printing.hpp"
#include "support/rethrow.hpp"
#include "support/virtual_limiters.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <concepts>
#include <utility>

/// The table of calls: each call of `basic_limiter`, on everything that has it, with each type of executor, in
/// coroutines on each type of executor.
namespace verbs {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using weir::errc;
using weir::error_code;

using erased = asio::any_io_executor;
using concrete = asio::io_context::executor_type;
using strand = asio::strand<concrete>;
using executors = boost::mpl::list<erased, concrete, strand>;

template <class Executor>
using timer = weir::testing::basic_timer<Executor>;
template <class Executor>
using seats = weir::basic_seats<Executor, timer<Executor>>;

template <class Executor>
Executor executor_of(asio::io_context& ctx) {
    if constexpr (std::same_as<Executor, strand>)
        return asio::make_strand(ctx);
    else
        return ctx.get_executor();
}

/// Whether the options of a limiter and of its queue can be read and changed.
template <class Limiter>
concept can_be_configured = requires(
    Limiter l, typename Limiter::options_type const& whole,
    void (&change)(typename Limiter::options_type&), void (&in_queue)(weir::queue_options&)) {
    { l.options() } -> std::same_as<typename Limiter::options_type>;
    l.configure(whole);
    l.configure(change);
    { l.queueing() } -> std::same_as<weir::queue_options>;
    l.configure_queue(in_queue);
};

/// Runs a coroutine to its end.
template <class Executor>
void run_to_end(asio::io_context& ctx, asio::awaitable<void, Executor> table) {
    bool done = false;
    auto note = [&](std::exception_ptr failure) {
        support::rethrow(failure);
        done = true;
    };
    asio::co_spawn(executor_of<Executor>(ctx), std::move(table), note);
    support::run_for(ctx, 1min);
    BOOST_TEST(done);
}

/// Calls `check<CoroutineExecutor>` for each type.
template <class F>
void with_each_coroutine(F check) {
    check.template operator()<erased>();
    check.template operator()<concrete>();
    check.template operator()<strand>();
}

/// Calls `check<CoroutineExecutor>` for the executor of the limiter, and for another type. With `executors`, each type
/// occurs in both roles. All nine pairs, as for `seats`, are half as many again.
template <class Executor, class F>
void with_own_and_other_coroutine(F check) {
    check.template operator()<Executor>();
    if constexpr (std::same_as<Executor, erased>)
        check.template operator()<concrete>();
    else if constexpr (std::same_as<Executor, concrete>)
        check.template operator()<strand>();
    else
        check.template operator()<erased>();
}

/// Receives the permit of a call, and releases it.
template <class Permit>
void granted(Permit const& permit) {
    BOOST_TEST(bool(permit));
}

template <class Executor, class Rejection, class Call>
asio::awaitable<void, Executor> rejects(Call call) {
    bool thrown = false;
    try {
        static_cast<void>(co_await call());
    } catch (Rejection const& why) {
        BOOST_TEST(why.code() == errc::closed);
        thrown = true;
    }
    BOOST_TEST(thrown);
}

/// Waits until `n` callbacks have counted their permits.
template <class Executor>
asio::awaitable<void, Executor> all_called(int const& called, int n) {
    constexpr asio::use_awaitable_t<Executor> token;
    timer<Executor> pause(co_await asio::this_coro::executor);
    while (called != n) {
        pause.expires_after(1ms);
        co_await pause.async_wait(token);
    }
}

/// The calls without a number of permits. `who` is the key, if there is one.
template <class Executor, class Limiter, class... Who>
asio::awaitable<void, Executor> calls(Limiter& l, typename Limiter::clock_type::time_point deadline,
                                      Who... who) {
    constexpr asio::use_awaitable_t<Executor> token;
    granted(l.try_enter(who...));
    granted(co_await l.enter(who...));
    granted(co_await l.enter(who..., 1s));
    granted(co_await l.enter_until(who..., deadline));
    granted(co_await l.async_enter(who...));
    granted(co_await l.async_enter(who..., 1s));
    granted(co_await l.async_enter_until(who..., deadline));
    granted(co_await l.async_enter(who..., token));
    granted(co_await l.async_enter(who..., 1s, token));
    granted(co_await l.async_enter_until(who..., deadline, token));

    int called = 0;
    auto callback = [&](error_code ec, auto permit) { called += !ec && permit ? 1 : 0; };
    l.async_enter(who..., callback);
    l.async_enter(who..., 1s, callback);
    l.async_enter_until(who..., deadline, callback);
    co_await all_called<Executor>(called, 3);
}

template <class Executor, class Limiter, class... Who>
asio::awaitable<void, Executor> runs(Limiter& l, Who... who) {
    auto plain = [] { return 3; };
    auto nothing = [] {};
    auto own = []() -> asio::awaitable<int, Executor> { co_return 4; };
    auto other = []() -> asio::awaitable<int, erased> { co_return 5; };
    BOOST_TEST((co_await l.run(who..., plain)) == 3);
    BOOST_TEST((co_await l.run(who..., plain, 1s)) == 3);
    BOOST_TEST((co_await l.run(who..., own)) == 4);
    BOOST_TEST((co_await l.run(who..., own, 1s)) == 4);
    BOOST_TEST((co_await l.run(who..., other)) == 5);
    co_await l.run(who..., nothing);
}

/// The calls with a number of permits.
template <class Executor, class Limiter, class... Who>
asio::awaitable<void, Executor> counted_calls(
    Limiter& l, typename Limiter::clock_type::time_point deadline, Who... who) {
    constexpr asio::use_awaitable_t<Executor> token;
    auto plain = [] { return 3; };
    error_code ec;
    granted(l.try_enter(who..., 2, ec));
    granted(l.try_enter_up_to(who..., 2));
    granted(l.try_enter_up_to(who..., 2, ec));
    granted(co_await l.enter(who..., 2));
    granted(co_await l.enter(who..., {2, {}}, 1s));
    granted(co_await l.enter_until(who..., 2, deadline));
    granted(co_await l.async_enter(who..., 2));
    granted(co_await l.async_enter(who..., 2, 1s));
    granted(co_await l.async_enter_until(who..., 2, deadline));
    granted(co_await l.async_enter(who..., 2, token));
    granted(co_await l.async_enter(who..., 2, 1s, token));
    granted(co_await l.async_enter_until(who..., 2, deadline, token));
    BOOST_TEST((co_await l.run(who..., plain, 2)) == 3);
    BOOST_TEST((co_await l.run(who..., plain, 2, 1s)) == 3);
}

/// All awaited calls without a token throw `Rejection`. The limiter must be closed.
template <class Executor, class Rejection, class Limiter, class... Who>
asio::awaitable<void, Executor> rejections(
    Limiter& l, typename Limiter::clock_type::time_point deadline, Who... who) {
    auto enter = [&] { return l.enter(who...); };
    auto enter_until = [&] { return l.enter_until(who..., deadline); };
    auto async_enter = [&] { return l.async_enter(who...); };
    auto async_enter_until = [&] { return l.async_enter_until(who..., deadline); };
    auto plain = [] { return 3; };
    auto run = [&] { return l.run(who..., plain); };
    co_await rejects<Executor, Rejection>(enter);
    co_await rejects<Executor, Rejection>(enter_until);
    co_await rejects<Executor, Rejection>(async_enter);
    co_await rejects<Executor, Rejection>(async_enter_until);
    co_await rejects<Executor, Rejection>(run);
}

/// Calls `run`, which makes `n` calls that `l` rejects, and checks that the observer of `l` receives each of them.
template <class Limiter, class Run>
void observed(Limiter& l, int n, Run run) {
    int rejected = 0;
    l.observe([&](weir::request_event const& e) { rejected += e.error == errc::closed ? 1 : 0; });
    run();
    BOOST_TEST(rejected == n);
    l.observe({});
}

}  // namespace verbs
