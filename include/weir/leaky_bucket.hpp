#pragma once

#include <weir/limiter.hpp>
#include <weir/policy/leaky_bucket.hpp>

namespace weir {

/// An even pace. See `basic_limiter` for what can be done with it, and `policy::leaky_bucket` for
/// the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_leaky_bucket = basic_limiter<policy::leaky_bucket, Executor, Timer>;

using leaky_bucket = basic_leaky_bucket<>;

}  // namespace weir
