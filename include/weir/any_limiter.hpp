#pragma once

#include <weir/limiter.hpp>
#include <weir/policy/any.hpp>

namespace weir {

/// A limiter whose kind is chosen at run time, by a configuration file for instance:
///
///     weir::any_limiter door{ctx, weir::limiter_config::parse("10/60s")};
///
/// See `basic_limiter` for what can be done with it, `limiter_config` for the texts, and `policy::any`
/// for what it changes.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_any_limiter = basic_limiter<policy::any, Executor, Timer>;

using any_limiter = basic_any_limiter<>;

}  // namespace weir
