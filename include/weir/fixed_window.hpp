#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/fixed_window.hpp>

namespace weir::inline v0_2 {

/// A rate limit: at most `limit` permits in each window. It is the cheapest rate, and can grant up to twice `limit`
/// around a boundary.
///
/// `basic_limiter` documents the operations, `policy::fixed_window` the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_fixed_window = basic_limiter<policy::fixed_window, Executor, Timer>;

/// A rate limit: at most `limit` permits in each window; see `basic_fixed_window`.
using fixed_window = basic_fixed_window<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::fixed_window)
