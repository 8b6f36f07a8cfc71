#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/server_quota.hpp>
#include <weir/rate_limit_fields.hpp>

#include <string_view>

namespace weir::inline v0_2 {

/// The quota of a server, as its responses state it: for a client of an API.
///
///     weir::server_quota quota{ctx};
///     auto permit = co_await quota.enter(5min);
///     auto const response = co_await call();
///     permit.leave();
///     weir::obey(quota, weir::read_rate_limit_fields(response.status, response.fields));
///
/// Hold a permit from before the request is sent until the header of the response has arrived. `basic_limiter` documents
/// the operations, and `policy::server_quota` the rule. A `chain` adds your own rate to it.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_server_quota = basic_limiter<policy::server_quota, Executor, Timer>;

/// The quota of a server, as its responses state it; see `basic_server_quota`.
using server_quota = basic_server_quota<>;

/// Makes a limiter obey the fields of a response: it pauses for `retry_after`, and takes into account the quota `name`,
/// or the first one if `name` is empty. It ignores a quota without a reset.
///
/// Leave with the permit of the request before. If the server states several quotas, use a limiter for each, all in one
/// `chain`: for instance one named "requests", and one named "tokens" that is asked for an estimate.
///
/// Thread-safe, as the limiter is. Takes linear time in the number of waiting requests.
template <class Executor, class Timer>
void obey(basic_limiter<policy::server_quota, Executor, Timer>& limiter,
          rate_limit_fields const& fields, std::string_view name = {}) {
    if (auto const* const quota = fields.find(name); quota && quota->reset) {
        limiter.configure([quota](server_quota_options& options) {
            options.stated = {.remaining = quota->remaining, .reset = *quota->reset};
        });
    }
    if (fields.retry_after)
        limiter.pause_for(*fields.retry_after);
}

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::server_quota)
