#pragma once

#include <weir/policy/smooth.hpp>

namespace weir {

struct smooth_bursty_options {
    /// The steady rate, above 0.
    weir::rate rate = weir::rate(1, std::chrono::seconds(1));

    /// How much idle time can be saved, 0 or more: in a second, as many permits as the rate grants in
    /// one. With 0 nothing is saved, and grants are evenly spaced.
    duration max_burst = std::chrono::seconds(1);

    /// How much of it is there at the start, 0 or more; what exceeds `max_burst` is not counted, so
    /// `forever` fills it. Guava starts with nothing, and so rejects many requests that come
    /// together at the start and have little patience; full, it grants them.
    duration initial = duration::zero();

    /// What becomes of saved permits in `configure`.
    weir::carry_over carry_over = weir::carry_over::proportional;
};

namespace policy {

/// The curve that costs nothing: saved permits are free.
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

/// A steady rate with bursts after idleness, and with debt: a token bucket that grants any request as
/// soon as it owes nothing.
///
/// Guarantee: between two grants, both included, at most `max_burst * rate` permits more than the rate
/// allows for the time from the first to the last are granted, not counting those of the last.
/// Otherwise as `smooth` says; nothing here is rounded but the time of a grant.
/// Source: Guava's SmoothBursty; `max_burst` is its maxBurstSeconds.
extern template class smooth_rule<bursty_curve>;
using smooth_bursty = smooth<bursty_curve>;

}  // namespace policy
}  // namespace weir
