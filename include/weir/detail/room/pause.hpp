#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <algorithm>

namespace weir::detail {

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

    // The results of a policy, or of a rule with a state of it, if it grants nothing before the end of the pause. The
    // rule is asked as of that end, since it frees permits until then.

    /// Returns when `n` permits can be granted after `ahead` other permits.
    template <class Rule, class... State>
    [[nodiscard]] time_point ready_at(Rule const& rule, amount n, amount ahead, time_point now,
                                      State const&... state) const noexcept {
        if (!is_on(now)) [[likely]]
            return rule.ready_at(state..., n, ahead, now);
        return end_ >= never ? never : std::max(rule.ready_at(state..., n, ahead, end_), end_);
    }
    /// Returns how many permits can be granted now.
    template <class Rule, class... State>
    [[nodiscard]] amount remaining(Rule const& rule, time_point now,
                                   State const&... state) const noexcept {
        return is_on(now) ? 0 : rule.remaining(state..., now);
    }
    /// Returns how long until the capacity can be granted at once; `forever` if that is unknown.
    template <class Rule, class... State>
    [[nodiscard]] duration reset_after(Rule const& rule, time_point now,
                                       State const&... state) const noexcept {
        auto const at = ready_at(rule, rule.capacity(), 0, now, state...);
        return at >= never ? forever : std::max(at - now, duration::zero());
    }

private:
    static constexpr time_point over = time_point::min();

    time_point end_ = over;
};

}  // namespace weir::detail
