#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/adaptive.hpp>

namespace weir::inline v0_2 {

/// A concurrency limit that finds the number of seats from the behaviour of the service: for a service with unknown
/// capacity.
///
///     weir::adaptive_seats workers{ctx, weir::knee_options{.max = 500}};
///     auto seat = co_await workers.enter(1s);
///     auto const response = co_await call();
///     if (response.status() == 503)
///         seat.report(weir::outcome::dropped);
///
/// `basic_limiter` documents the operations, and `policy::adaptive` the rule and its speed. `knee_options` are the
/// default; `vegas_options`, `gradient2_options` and `aimd_options` select other algorithms. `stats().capacity` is the
/// current number of seats.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_adaptive_seats = basic_limiter<policy::adaptive, Executor, Timer>;

/// A concurrency limit that finds the number of seats from the behaviour of the service; see `basic_adaptive_seats`.
using adaptive_seats = basic_adaptive_seats<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::adaptive)
