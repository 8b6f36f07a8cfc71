#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/penalty.hpp>

namespace weir::inline v0_2 {

/// A penalty for offences, such as failed logins or requests beyond a limit; mostly one per client:
///
///     weir::keyed<std::string, weir::policy::penalty> penalties{ctx, {.offences = 5}};
///     auto login = penalties.try_enter(client);
///     if (!login)
///         co_return respond_429(login.retry_after());
///     if (!check_password())
///         login.report(weir::outcome::dropped);
///
/// `basic_limiter` documents the operations, and `policy::penalty_rule` the rule. In a queue without places requests are
/// rejected during a penalty; otherwise they wait for its end.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_penalty = basic_limiter<policy::penalty, Executor, Timer>;

/// A penalty for offences; see `basic_penalty`.
using penalty = basic_penalty<>;

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::penalty)
