#pragma once

#include <weir/amount.hpp>
#include <weir/error.hpp>
#include <weir/limiter_name.hpp>
#include <weir/time.hpp>

#include <functional>
#include <optional>

namespace weir::inline v0_2 {

/// The end of a request that waited or was rejected. A request that was granted immediately has no event.
struct request_event {
    /// The permits that the request asked for, with its `standing`.
    request asked{};
    /// The permits that were granted; 0 if the request was rejected.
    amount granted = 0;
    /// The reason of the rejection, an `errc` or `asio::error::operation_aborted`; clear if the request was granted.
    error_code error{};
    /// The time for which the request waited; absent if it was rejected without a wait.
    std::optional<duration> waited{};
    /// With a rejection, the time until a retry is useful; absent if it is unknown.
    std::optional<duration> retry_after{};
    /// The name of the limiter, `queue_options::name`.
    limiter_name limiter{};
};

/// A function that a limiter calls for each request that waits or is rejected; see `basic_limiter::observe`.
using observer = std::function<void(request_event const&)>;

}  // namespace weir::inline v0_2
