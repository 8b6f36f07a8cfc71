#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/sliding_window.hpp>

namespace weir::inline v0_2 {

/// A rate limit: at most `limit` permits in any window, in bounded memory.
///
/// `basic_limiter` documents the operations, `policy::sliding_window` the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_sliding_window = basic_limiter<policy::sliding_window, Executor, Timer>;

/// A rate limit: at most `limit` permits in any window, in bounded memory; see `basic_sliding_window`.
using sliding_window = basic_sliding_window<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::sliding_window)
