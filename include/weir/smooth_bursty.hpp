#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/smooth_bursty.hpp>

namespace weir::inline v0_2 {

/// A steady rate limit with bursts after idleness, and with debt: it grants a request immediately if there is no debt,
/// and the next request waits for it. `permit::waited()` is the result of Guava's `acquire`.
///
/// `basic_limiter` documents the operations, `policy::smooth_bursty` the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_smooth_bursty = basic_limiter<policy::smooth_bursty, Executor, Timer>;

/// A steady rate limit with bursts after idleness, and with debt; see `basic_smooth_bursty`.
using smooth_bursty = basic_smooth_bursty<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::smooth_bursty)
