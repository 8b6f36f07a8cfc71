#pragma once

#include <weir/amount.hpp>
#include <weir/detail/room/pause.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <algorithm>

namespace weir::inline v0_2::detail {

/// Returns when to wake up for the head of the queue, which asks for `head`: as soon as it can be granted, after the
/// pause `p`, or when to ask again if that is unknown. But if the policy makes up for late grants, the wake-ups are at
/// least one `tolerance` apart. That is measured from the time for which the last timer was armed, not from when it
/// fired, so that lateness does not add up. Half of the time until the bucket is full stays in reserve for a late
/// timer, and a head that would expire first, at `expiry`, is not delayed.
template <class Policy>
[[nodiscard]] time_point wake_time(Policy const& policy, pause const& p, amount head,
                                   time_point expiry, duration tolerance, time_point now,
                                   time_point last_alarm) noexcept {
    auto const from = p.from(now);
    auto const at = p.ready_at(policy, head, 0, now);
    if (at == unknown)
        return std::max(ask_again_at(policy, head, now), from);
    if constexpr (requires { policy.catches_up(); }) {
        if (!policy.catches_up() || at <= from || at >= never)
            return at;
        auto const full = p.ready_at(policy, policy.capacity(), 0, now);
        auto const spare = full >= never || full <= at ? duration::zero() : (full - at) / 2;
        auto const until = std::min({later(last_alarm, tolerance), at + spare, expiry - tolerance});
        return std::max(at, until);
    }
    return at;
}

}  // namespace weir::inline v0_2::detail
