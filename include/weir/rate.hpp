#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <compare>
#include <string>

namespace weir {

/// So many permits per so long a period, kept as the two integers that were given: `rate{100, 1s}`,
/// `rate{1, 3s}`. Nothing is divided, so nothing drifts.
///
/// Rates compare by value: `rate{2, 2s} == rate{1, 1s}`.
class rate {
public:
    /// Throws `std::invalid_argument` unless `0 <= permits <= max_amount` and `period > 0`. A period
    /// with a fraction of a nanosecond is rounded up.
    template <class Rep, class Period>
    rate(amount permits, std::chrono::duration<Rep, Period> period)
        : rate(permits, round_up(period), exact{}) {}

    [[nodiscard]] amount permits() const noexcept { return permits_; }
    [[nodiscard]] duration period() const noexcept { return period_; }

    friend std::strong_ordering operator<=>(rate const& a, rate const& b) noexcept;
    friend bool operator==(rate const& a, rate const& b) noexcept { return (a <=> b) == 0; }

private:
    struct exact {};
    rate(amount permits, duration period, exact);

    amount permits_;
    duration period_;
};

/// "100/1s", "1/3s", "5/1500ms": the period in the largest unit that is exact.
[[nodiscard]] std::string to_string(rate const& r);

}  // namespace weir
