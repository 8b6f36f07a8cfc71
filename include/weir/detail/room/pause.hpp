#pragma once

#include <weir/amount.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <algorithm>

namespace weir::inline v0_2::detail {

/// A time in which a limiter grants nothing. Its policy is not affected, and continues to free permits.
class pause {
public:
    /// Starts or extends the pause, so that it ends at `end` or later.
    void extend(time_point end) noexcept { end_ = std::max(end_, std::min(end, never)); }
    void stop() noexcept { end_ = over; }
    /// Records the time, so that a pause which has passed costs nothing.
    void elapse(time_point now) noexcept {
        if (is_set() && end_ <= now) [[unlikely]]
            stop();
    }

    /// Returns whether a pause was started and its end was not recorded yet. Until then requests need the time.
    [[nodiscard]] bool is_set() const noexcept { return end_ != over; }
    [[nodiscard]] bool is_on(time_point now) const noexcept { return now < end_; }

    /// Returns the earliest time of a grant.
    [[nodiscard]] time_point from(time_point now) const noexcept { return std::max(now, end_); }
    /// Returns how long the pause lasts from `now` on.
    [[nodiscard]] duration rest(time_point now) const noexcept {
        return is_on(now) ? end_ - now : duration::zero();
    }

    // The results of a policy if it grants nothing before the end of the pause, until which it frees permits.

    /// Returns when `n` permits can be granted after `ahead` other permits.
    template <class Policy>
    [[nodiscard]] time_point ready_at(Policy const& policy, amount n, amount ahead,
                                      time_point now) const noexcept {
        if (!is_on(now)) [[likely]]
            return policy.ready_at(n, ahead, now);
        if (end_ >= never)
            return never;
        return std::max(ready_from(policy, n, ahead, now, end_), end_);
    }
    /// Returns how many permits can be granted now.
    template <class Policy>
    [[nodiscard]] amount remaining(Policy const& policy, time_point now) const noexcept {
        return is_on(now) ? 0 : policy.remaining(now);
    }
    /// Returns how long until the capacity can be granted at once; `forever` if that is unknown.
    template <class Policy>
    [[nodiscard]] duration reset_after(Policy const& policy, time_point now) const noexcept {
        auto const at = ready_at(policy, policy.capacity(), 0, now);
        return at >= never ? forever : std::max(at - now, duration::zero());
    }

private:
    static constexpr time_point over = time_point::min();

    time_point end_ = over;
};

}  // namespace weir::inline v0_2::detail
