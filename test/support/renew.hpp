#pragma once

#include <weir/policy/policy.hpp>

#include <utility>

namespace support {

/// A policy after its `begin`.
template <class Policy>
[[nodiscard]] Policy begun(typename Policy::options_type const& options, weir::time_point now) {
    Policy policy(options);
    policy.begin(now);
    return policy;
}

/// Changes the options of a policy as a limiter does.
template <class Policy>
void renew(Policy& policy, typename Policy::options_type const& options, weir::time_point now) {
    Policy next(options);
    next.take_over(policy, now);
    std::swap(policy, next);
}

}  // namespace support
