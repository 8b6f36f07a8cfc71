#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/resting_seats.hpp>

namespace weir::inline v0_2 {

/// A concurrency limit whose seats rest: a released permit is free only `rest` later.
///
///     weir::resting_seats host{ctx, {.rest = 2s}};  // one request at a time, and 2 s between them
///
/// `basic_limiter` documents the operations, `policy::resting_seats` the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_resting_seats = basic_limiter<policy::resting_seats, Executor, Timer>;

/// A concurrency limit whose seats rest: a released permit is free only `rest` later; see `basic_resting_seats`.
using resting_seats = basic_resting_seats<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::resting_seats)
