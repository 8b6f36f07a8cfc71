#pragma once

#include <weir/policy/smooth.hpp>

namespace weir::inline v0_2 {

/// The options of `smooth_warming_up`.
struct smooth_warming_up_options {
    /// The steady rate of the warm limiter, above 0.
    weir::rate rate = weir::rate(1, std::chrono::seconds(1));

    /// The time in which constant requests warm the cold limiter up, and in which idleness cools it down again; at
    /// least 0. With 0 it is always warm.
    duration warm_up = std::chrono::seconds(1);

    /// The factor by which the interval between permits is longer when it is cold, 1 to 1,000,000.
    double cold_factor = 3;

    /// The treatment of the warmth in `configure`. Saved permits represent the cold.
    weir::carry_over carry_over = weir::carry_over::proportional;
};

namespace policy {

/// The curve of Guava's warm-up: a permit costs 1 up to the threshold, and from there on increasingly more, up to
/// `cold_factor` when all permits are saved.
class warm_up_curve {
public:
    using options_type = smooth_warming_up_options;

    explicit warm_up_curve(options_type const& options);

    [[nodiscard]] duration full_after() const noexcept { return warm_up_; }
    [[nodiscard]] duration idle_at_start() const noexcept { return forever; }
    [[nodiscard]] double saving() const noexcept { return saving_; }
    [[nodiscard]] double cost(double saved) const noexcept {
        auto const above = saved > threshold_ ? saved - threshold_ : 0;
        return saved + slope_ / 2 * above * above;
    }

private:
    duration warm_up_;
    double saving_;
    double threshold_;
    double slope_;
};

/// A rate limit that reaches its steady rate gradually, so that the limited service can warm up.
///
/// After a cold start, or after idleness, the first permits take up to `cold_factor` times as long.
///
/// The limiter is cold at the start. With constant requests it goes from cold to warm in `warm_up`: half of the saved
/// permits, at the default factor of 3, are granted on the slope in that time, and the other half at the steady rate.
/// After `warm_up` without requests it is cold again. A late caller pays for the idleness: there are no bursts.
/// Otherwise as `smooth`.
///
/// Source: Guava's SmoothWarmingUp.
extern template class smooth_rule<warm_up_curve>;
/// The policy of `weir::smooth_warming_up`: a rate limit that reaches its steady rate gradually.
using smooth_warming_up = smooth<warm_up_curve>;

}  // namespace policy
}  // namespace weir::inline v0_2
