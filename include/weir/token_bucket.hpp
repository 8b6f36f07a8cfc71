#pragma once

#include <weir/limiter.hpp>
#include <weir/policy/token_bucket.hpp>

namespace weir {

/// An average rate that allows for bursts. See `basic_limiter` for what can be done with it, and
/// `policy::token_bucket` for the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_token_bucket = basic_limiter<policy::token_bucket, Executor, Timer>;

using token_bucket = basic_token_bucket<>;

}  // namespace weir
