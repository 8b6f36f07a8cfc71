#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/any.hpp>

namespace weir::inline v0_2 {

/// A limiter whose kind is selected at run time, for example by a configuration file.
///
///     weir::any_limiter calls{ctx, weir::limiter_config::parse("10/60s")};
///
/// `basic_limiter` documents the operations, `limiter_config` the texts, and `policy::any` the differences to the other
/// limiters.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_any_limiter = basic_limiter<policy::any, Executor, Timer>;

/// A limiter whose kind is selected at run time; see `basic_any_limiter`.
using any_limiter = basic_any_limiter<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::any)
