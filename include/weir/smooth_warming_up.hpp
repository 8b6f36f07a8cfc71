#pragma once

#include <weir/limiter.hpp>
#include <weir/policy/smooth_warming_up.hpp>

namespace weir {

/// A steady rate that is reached gradually after a cold start or idleness. See `basic_limiter` for what
/// can be done with it, and `policy::smooth_warming_up` for the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_smooth_warming_up = basic_limiter<policy::smooth_warming_up, Executor, Timer>;

using smooth_warming_up = basic_smooth_warming_up<>;

}  // namespace weir
