#pragma once

#include <weir/policy/smooth.hpp>

namespace weir::inline v0_2 {

/// The options of `smooth_bursty`.
struct smooth_bursty_options {
    /// The steady rate, above 0.
    weir::rate rate = weir::rate(1, std::chrono::seconds(1));

    /// The longest idle time that is saved, at least 0: for a second, the permits that the rate grants in a second.
    /// With 0 nothing is saved, and grants are evenly spaced.
    duration max_burst = std::chrono::seconds(1);

    /// The idle time saved at the start, at least 0. Time above `max_burst` does not count, so `forever` starts full.
    /// Guava starts with nothing. It then rejects many requests that come together at the start with little patience; a
    /// full limiter grants them.
    duration initial = duration::zero();

    /// The treatment of saved permits in `configure`.
    weir::carry_over carry_over = weir::carry_over::proportional;
};

namespace policy {

/// The curve of cost 0: saved permits are free.
class bursty_curve {
public:
    using options_type = smooth_bursty_options;

    explicit bursty_curve(options_type const& options);

    [[nodiscard]] duration full_after() const noexcept { return max_burst_; }
    [[nodiscard]] duration idle_at_start() const noexcept { return initial_; }
    [[nodiscard]] double saving() const noexcept { return 1; }
    [[nodiscard]] double cost(double) const noexcept { return 0; }

private:
    duration max_burst_;
    duration initial_;
};

/// A steady rate with bursts after idleness, and with debt: a token bucket that grants any request while it has no
/// debt.
///
/// Guarantee: from one grant to another, both included, the limiter grants at most `max_burst * rate` permits more than
/// the rate allows for the time between them, not counting the permits of the later grant. Otherwise as `smooth`; only
/// the time of a grant is rounded.
///
/// Source: Guava's SmoothBursty; `max_burst` is its maxBurstSeconds.
extern template class smooth_rule<bursty_curve>;
/// The policy of `weir::smooth_bursty`: a steady rate with bursts after idleness.
using smooth_bursty = smooth<bursty_curve>;

}  // namespace policy
}  // namespace weir::inline v0_2
