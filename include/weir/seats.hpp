#pragma once

#include <weir/limiter.hpp>
#include <weir/policy/seats.hpp>

namespace weir {

/// At most `seats` permits are out at a time: concurrency. See `basic_limiter` for what can be done
/// with it, and `policy::seats` for the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_seats = basic_limiter<policy::seats, Executor, Timer>;

using seats = basic_seats<>;

}  // namespace weir
