#pragma once

#include <weir/policy/smooth.hpp>

namespace weir {

struct smooth_warming_up_options {
    /// The steady rate, above 0: what is granted once it is warm.
    weir::rate rate = weir::rate(1, std::chrono::seconds(1));

    /// How long it takes callers that keep it busy to warm it up from cold, and how long of idleness
    /// to cool it down again; 0 or more. With 0 it is always warm.
    duration warm_up = std::chrono::seconds(1);

    /// By how much the interval between permits is longer when it is cold, 1 to 1,000,000.
    double cold_factor = 3;

    /// What becomes of the warmth in `configure`. Saved permits stand for the cold.
    weir::carry_over carry_over = weir::carry_over::proportional;
};

namespace policy {

/// The line of Guava's warm-up: a permit costs 1 up to the threshold, and from there on more and more,
/// up to `cold_factor` when all is saved.
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

/// A steady rate that is reached gradually: after a cold start or a time of idleness the first permits
/// take up to `cold_factor` as long, so that whatever is behind it can get warm.
///
/// It is cold at the start. Kept busy, it goes down from cold to warm in `warm_up`: half the saved
/// permits, at the default factor of 3, are granted on the slope in that time, and the other half at the
/// steady rate. Left alone for `warm_up`, it is cold again. A late caller is charged for the idleness:
/// there are no bursts.
/// Otherwise as `smooth` says.
/// Source: Guava's SmoothWarmingUp.
extern template class smooth_rule<warm_up_curve>;
using smooth_warming_up = smooth<warm_up_curve>;

}  // namespace policy
}  // namespace weir
