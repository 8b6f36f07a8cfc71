#pragma once

#include <weir/limiter.hpp>
#include <weir/policy/smooth_bursty.hpp>

namespace weir {

/// A steady rate with bursts after idleness, and with debt: a request is granted at once if nothing is
/// owed, and it is the next one that pays for it. `permit::waited()` is what Guava's `acquire`
/// returns. See `basic_limiter` for what can be done with it, and `policy::smooth_bursty` for the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_smooth_bursty = basic_limiter<policy::smooth_bursty, Executor, Timer>;

using smooth_bursty = basic_smooth_bursty<>;

}  // namespace weir
