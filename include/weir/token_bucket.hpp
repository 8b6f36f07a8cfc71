#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/token_bucket.hpp>

namespace weir::inline v0_2 {

/// A rate limit that keeps an average rate and allows bursts.
///
/// `basic_limiter` documents the operations, `policy::token_bucket` the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_token_bucket = basic_limiter<policy::token_bucket, Executor, Timer>;

/// A rate limit that keeps an average rate and allows bursts; see `basic_token_bucket`.
using token_bucket = basic_token_bucket<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::token_bucket)
