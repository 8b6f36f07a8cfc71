#pragma once

#include <weir/policy/limiter_config.hpp>

namespace proxy {

/// A rule with `percent` of its permits, 100 to 1000, rounded up, and at most `weir::max_amount`: seats, the permits of each
/// period, and `burst`, `capacity` and `initial` of a bucket, in each part of a joint rule. Not for adaptive seats, which
/// decide their number.
[[nodiscard]] weir::limiter_config scaled(weir::limiter_config const& rule, int percent);

}  // namespace proxy
