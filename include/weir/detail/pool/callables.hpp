#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

/// The functions that the user of a pool supplies: one makes an object, one checks it. The pool stores both as
/// functions that return an awaitable.
namespace weir::inline v0_2::detail {

/// The result type of awaiting an `R`: `R` is an awaitable, or an Asio operation that has not started.
template <class R>
struct awaited : awaited<decltype(std::declval<R>()(boost::asio::use_awaitable))> {};
template <class U>
struct awaited<boost::asio::awaitable<U>> {
    using type = U;
};
template <class R>
using awaited_t = typename awaited<R>::type;

template <class F, class Executor>
decltype(auto) call_maker(F& make, Executor const& ex) {
    if constexpr (std::invocable<F&, Executor const&>)
        return make(ex);
    else
        return make();
}
template <class F, class Executor>
using made_by = decltype(detail::call_maker(std::declval<F&>(), std::declval<Executor const&>()));

/// Makes a `T`. It is called with the executor of the pool, or without arguments, and returns an awaitable, or an
/// Asio operation that has not started, whose result can construct a `T`.
template <class F, class T, class Executor>
concept maker = (std::invocable<F&, Executor const&> || std::invocable<F&>) && requires {
    requires std::constructible_from<T, awaited_t<made_by<F, Executor>>>;
};

/// Checks a `T`. It is called with the object, and returns whether it is healthy, or an awaitable or an Asio
/// operation with that result. If the result is `void`, an exception means that the object is not healthy.
template <class F, class T>
concept checker =
    std::invocable<F&, T&> && (std::same_as<std::invoke_result_t<F&, T&>, bool> || requires {
        typename awaited_t<std::invoke_result_t<F&, T&>>;
    });

template <class T, class Executor, class F>
boost::asio::awaitable<T> make_with(std::shared_ptr<F> make, Executor ex) {
    co_return T(co_await detail::call_maker(*make, ex));
}

template <class T, class Executor, class F>
[[nodiscard]] std::function<boost::asio::awaitable<T>(Executor const&)> as_maker(F&& f) {
    return [make = std::make_shared<std::decay_t<F>>(std::forward<F>(f))](Executor const& ex) {
        return detail::make_with<T, Executor>(make, ex);
    };
}

template <class T, class F>
boost::asio::awaitable<bool> check_with(std::shared_ptr<F> check, T& object) {
    using result = std::invoke_result_t<F&, T&>;
    if constexpr (std::same_as<result, bool>) {
        co_return (*check)(object);
    } else if constexpr (std::is_void_v<awaited_t<result>>) {
        co_await (*check)(object);
        co_return true;
    } else {
        co_return static_cast<bool>(co_await (*check)(object));
    }
}

template <class T, class F>
[[nodiscard]] std::function<boost::asio::awaitable<bool>(T&)> as_checker(F&& f) {
    return [check = std::make_shared<std::decay_t<F>>(std::forward<F>(f))](T& object) {
        return detail::check_with<T>(check, object);
    };
}

}  // namespace weir::inline v0_2::detail
