#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/smooth_warming_up.hpp>

namespace weir::inline v0_2 {

/// A rate limit that reaches its steady rate gradually after a cold start or idleness.
///
/// `basic_limiter` documents the operations, `policy::smooth_warming_up` the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_smooth_warming_up = basic_limiter<policy::smooth_warming_up, Executor, Timer>;

/// A rate limit that reaches its steady rate gradually after a cold start or idleness; see `basic_smooth_warming_up`.
using smooth_warming_up = basic_smooth_warming_up<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::smooth_warming_up)
