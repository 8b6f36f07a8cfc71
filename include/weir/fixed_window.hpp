#pragma once

#include <weir/limiter.hpp>
#include <weir/policy/fixed_window.hpp>

namespace weir {

/// At most `limit` permits in each window of time: the cheapest rate, up to twice that at a
/// boundary. See `basic_limiter` for what can be done with it, and `policy::fixed_window` for the
/// rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_fixed_window = basic_limiter<policy::fixed_window, Executor, Timer>;

using fixed_window = basic_fixed_window<>;

}  // namespace weir
