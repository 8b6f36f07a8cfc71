#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/adaptive_rate.hpp>

namespace weir::inline v0_2 {

/// A rate that follows the rejections of a service whose limit is not known:
///
///     weir::adaptive_rate calls{ctx};
///     auto permit = co_await calls.enter(1s);
///     auto const response = co_await call();
///     if (response.status == 429)
///         permit.report(weir::outcome::dropped);
///
/// `basic_limiter` documents the operations, and `policy::adaptive_rate` the rule. If the service states its quota, use
/// `server_quota`; if it slows down under load, use `adaptive_seats`.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_adaptive_rate = basic_limiter<policy::adaptive_rate, Executor, Timer>;

/// A rate that follows the rejections of a service; see `basic_adaptive_rate`.
using adaptive_rate = basic_adaptive_rate<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::adaptive_rate)
