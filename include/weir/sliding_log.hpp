#pragma once

#include <weir/limiter.hpp>
#include <weir/policy/sliding_log.hpp>

namespace weir {

/// At most `limit` permits in any window, exactly: a rate. See `basic_limiter` for what can be done
/// with it, and `policy::sliding_log` for the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_sliding_log = basic_limiter<policy::sliding_log, Executor, Timer>;

using sliding_log = basic_sliding_log<>;

}  // namespace weir
