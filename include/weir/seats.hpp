#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/seats.hpp>

namespace weir::inline v0_2 {

/// A concurrency limit: at most `seats` permits are in use at a time.
///
/// `basic_limiter` documents the operations, `policy::seats` the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_seats = basic_limiter<policy::seats, Executor, Timer>;

/// A concurrency limit: at most `seats` permits are in use at a time; see `basic_seats`.
using seats = basic_seats<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::seats)
