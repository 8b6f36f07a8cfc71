#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <compare>
#include <string>

namespace weir::inline v0_2 {

/// A number of permits per period: `rate{100, 1s}`, `rate{1, 3s}`. It stores the two integers without a division, so no
/// rounding error accumulates.
///
/// Rates compare by value: `rate{2, 2s} == rate{1, 1s}`.
class rate {
public:
    /// A rate of `permits` per `period`; a period with a fraction of a nanosecond is rounded up.
    ///
    /// @throws std::invalid_argument unless `0 <= permits <= max_amount` and `period > 0`
    template <class Rep, class Period>
    rate(amount permits, std::chrono::duration<Rep, Period> period)
        : rate(permits, round_up(period), exact{}) {}

    /// Returns the number of permits per period.
    [[nodiscard]] amount permits() const noexcept { return permits_; }
    /// Returns the period.
    [[nodiscard]] duration period() const noexcept { return period_; }

    /// Compares the permits per unit of time, exactly.
    friend std::strong_ordering operator<=>(rate const& a, rate const& b) noexcept;
    friend bool operator==(rate const& a, rate const& b) noexcept { return (a <=> b) == 0; }

private:
    struct exact {};
    rate(amount permits, duration period, exact);

    amount permits_;
    duration period_;
};

/// Returns a text such as "100/1s", "1/3s" or "5/1500ms", with the period in the largest exact unit.
[[nodiscard]] std::string to_string(rate const& r);

}  // namespace weir::inline v0_2
