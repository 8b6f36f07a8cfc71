#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/sliding_log.hpp>

namespace weir::inline v0_2 {

/// A rate limit: at most `limit` permits in any window, exactly.
///
/// `basic_limiter` documents the operations, `policy::sliding_log` the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_sliding_log = basic_limiter<policy::sliding_log, Executor, Timer>;

/// A rate limit: at most `limit` permits in any window, exactly; see `basic_sliding_log`.
using sliding_log = basic_sliding_log<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::sliding_log)
