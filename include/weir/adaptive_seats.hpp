#pragma once

#include <weir/limiter.hpp>
#include <weir/policy/adaptive.hpp>

namespace weir {

/// Seats of a number that follows what the service behind them can do: concurrency, for a service of which
/// nobody knows how much it can take.
///
///     weir::adaptive_seats kitchen{ctx, weir::vegas_options{.max = 500}};
///     auto seat = co_await kitchen.enter(1s);
///     auto const answer = co_await call();
///     if (answer.status() == 503)
///         seat.report(weir::outcome::dropped);
///
/// See `basic_limiter` for what can be done with it, `policy::adaptive` for the rule and how fast it is, and
/// `vegas_options`, `gradient2_options` and `aimd_options` for the algorithms. `stats().capacity` is the
/// number at the moment.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_adaptive_seats = basic_limiter<policy::adaptive, Executor, Timer>;

using adaptive_seats = basic_adaptive_seats<>;

}  // namespace weir
