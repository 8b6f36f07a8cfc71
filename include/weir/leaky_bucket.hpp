#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/leaky_bucket.hpp>

namespace weir::inline v0_2 {

/// A rate limit that grants permits at an even pace.
///
/// `basic_limiter` documents the operations, `policy::leaky_bucket` the rule.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_leaky_bucket = basic_limiter<policy::leaky_bucket, Executor, Timer>;

/// A rate limit that grants permits at an even pace; see `basic_leaky_bucket`.
using leaky_bucket = basic_leaky_bucket<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::leaky_bucket)
