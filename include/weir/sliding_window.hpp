#pragma once

#include <weir/limiter.hpp>
#include <weir/policy/sliding_window.hpp>

namespace weir {

/// At most `limit` permits in any window, in bounded memory: a rate. See `basic_limiter` for what
/// can be done with it, and `policy::sliding_window` for the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_sliding_window = basic_limiter<policy::sliding_window, Executor, Timer>;

using sliding_window = basic_sliding_window<>;

}  // namespace weir
