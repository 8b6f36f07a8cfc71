#pragma once

#include <weir/amount.hpp>
#include <weir/detail/asio_operation.hpp>
#include <weir/detail/default_token.hpp>
#include <weir/detail/enter_operation.hpp>
#include <weir/detail/run_operation.hpp>
#include <weir/error.hpp>

#include <boost/asio/async_result.hpp>

#include <utility>

/// The verbs of all limiters, chains, pools and reservations. A class that offers one gives the handle of its core and
/// a start, such as `starts_to_enter`: the request with its limit, which the core decides.
namespace weir::inline v0_2::detail {

/// The default token of `async_enter` and functions like it: the executor's own default token, or else `use_await`.
template <class Executor>
using enter_token_t = default_token_t<Executor, use_await>;

/// Returns the request as an operation that refers to `of`.
template <class Core, class Executor, class Start>
[[nodiscard]] auto operation_of(limiter_handle<Core, Executor> const& of, Start&& start) {
    return enter_operation<limiter_handle<Core, Executor> const*, Start>(
        &of, std::forward<Start>(start));
}

/// Does the work of `enter`. `of` must exist until the result is awaited.
template <class Core, class Executor, class Start>
[[nodiscard]] auto enter(limiter_handle<Core, Executor> const& of, Start&& start) {
    return enter_awaitable<limiter_handle<Core, Executor> const*, Executor, Start>(
        &of, std::forward<Start>(start));
}

/// Does the work of `async_enter`.
template <class Core, class Executor, class Start, class Token>
auto async_enter(limiter_handle<Core, Executor> const& of, Start&& start, Token&& token) {
    using signature = typename Start::signature;
    return boost::asio::async_initiate<Token, void(error_code, typename signature::result)>(
        initiation<Core, Executor, signature>(of), token, std::forward<Start>(start));
}

/// Does the work of `run`. `of` must exist until the result is awaited, and `f` until the work is done.
template <class Core, class Executor, class Start, class F>
[[nodiscard]] auto run(limiter_handle<Core, Executor> const& of, Start&& start, F& f) {
    auto operation = operation_of(of, std::forward<Start>(start));
    return run_awaitable(calls_with_permit<decltype(operation), F>(std::move(operation), f));
}

/// Returns a request for the permits that are available now: at least 1, and at most `max`.
[[nodiscard]] inline request up_to(request const& max) {
    return max.count() == 0 ? max : request::between(1, max.count(), max.priority());
}

}  // namespace weir::inline v0_2::detail
