#pragma once

#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/permit.hpp>
#include <weir/policy/server_quota.hpp>
#include <weir/rate_limit_fields.hpp>

#include <string_view>

namespace weir::inline v0_2 {

/// The quota of a server, as its responses state it: for a client of an API.
///
///     weir::server_quota quota{ctx};
///     auto permit = co_await quota.enter(5min);
///     auto const response = co_await call();
///     weir::obey(quota, std::move(permit), weir::read_rate_limit_fields(response.status, response.fields));
///
/// Hold a permit from before the request is sent until the header of the response has arrived. `basic_limiter` documents
/// the operations, and `policy::server_quota` the rule. A `chain` adds your own rate to it.
template <class Executor = boost::asio::any_io_executor, class Timer = basic_steady_timer<Executor>>
using basic_server_quota = basic_limiter<policy::server_quota, Executor, Timer>;

/// The quota of a server, as its responses state it; see `basic_server_quota`.
using server_quota = basic_server_quota<>;

/// Makes a limiter obey the fields of a response: it pauses for `retry_after`, and takes into account the quota `name`,
/// or the first one if `name` is empty. It ignores a quota without a reset, or with a reset of 0.
///
/// `counted` is the number of permits that the request still holds at this limiter; release them afterwards, so that no
/// other request is granted before the response counts. If the server states several quotas, use a limiter for each, all
/// in one `chain`: for instance one named "requests", and one named "tokens" that is asked for an estimate.
///
/// A wrong statement may block the limiter until its reset. `limiter.configure` with a statement whose reset is 0 makes
/// the quota unknown again.
///
/// Thread-safe, as the limiter is. Takes linear time in the number of waiting requests.
template <class Executor, class Timer>
void obey(basic_limiter<policy::server_quota, Executor, Timer>& limiter, amount counted,
          rate_limit_fields const& fields, std::string_view name = {}) {
    if (fields.retry_after)
        limiter.pause_for(*fields.retry_after);
    auto const* const quota = fields.find(name);
    if (!quota || quota->reset.value_or(duration::zero()) == duration::zero())
        return;
    limiter.configure([&](server_quota_options& options) {
        options.stated = {
            .remaining = quota->remaining, .reset = *quota->reset, .counted = counted};
    });
}

/// Makes a limiter obey the fields of the response to the request that holds `of_request`, and releases this permit.
template <class Executor, class Timer>
void obey(basic_limiter<policy::server_quota, Executor, Timer>& limiter, permit of_request,
          rate_limit_fields const& fields, std::string_view name = {}) {
    obey(limiter, of_request.count(), fields, name);
}

}  // namespace weir::inline v0_2

WEIR_COMPILED_LIMITER(weir::policy::server_quota)
