#pragma once

#include <weir/time.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weir::inline v0_2 {

/// Counts wait times in 304 ranges; its size does not depend on the number of waits.
///
/// Each wait counts as the end of its range. So a reported wait is never shorter than the true wait, and longer by at
/// most an eighth or 128 ns. Waits longer than 39 h count as 39 h.
///
/// The difference of two histograms of one limiter counts the waits between them:
///
///     auto const before = limiter.snapshot();
///     ...
///     auto const recent = limiter.snapshot().waits - before.waits;
///     fmt::print("half of them waited at most {}\n", recent.quantile(0.5));
///
/// A histogram is a value: several threads must not use one object at the same time.
class wait_histogram {
public:
    /// The number of ranges.
    static constexpr std::size_t ranges = 304;

    /// Returns the longest wait in range `i`, from 0 to `ranges - 1`.
    [[nodiscard]] static constexpr duration end_of(std::size_t i) noexcept {
        if (i < parts)
            return duration(static_cast<std::int64_t>((i + 1) << unit_bits) - 1);
        auto const doublings = i / parts - 1;
        auto const first = (parts + i % parts) << doublings;
        return duration(
            static_cast<std::int64_t>((first + (std::size_t(1) << doublings)) << unit_bits) - 1);
    }
    /// Returns the range of `wait`.
    [[nodiscard]] static constexpr std::size_t range_of(duration wait) noexcept {
        auto const units = static_cast<std::uint64_t>(
                               std::clamp(wait, duration::zero(), end_of(ranges - 1)).count()) >>
                           unit_bits;
        if (units < parts)
            return static_cast<std::size_t>(units);
        auto const doublings = static_cast<std::size_t>(std::bit_width(units)) - part_bits - 1;
        return parts * doublings + static_cast<std::size_t>(units >> doublings);
    }

    /// Counts `wait` as many times as `times`.
    constexpr void add(duration wait, std::uint64_t times = 1) noexcept {
        counts_[range_of(wait)] += times;
    }

    /// Returns the number of waits.
    [[nodiscard]] constexpr std::uint64_t count() const noexcept {
        std::uint64_t all = 0;
        for (auto const n : counts_)
            all += n;
        return all;
    }
    /// Returns the number of waits in range `i`.
    [[nodiscard]] constexpr std::uint64_t count_in(std::size_t i) const noexcept {
        return counts_[i];
    }

    /// Returns the wait that the fraction `q` of all waits, from 0 to 1, does not exceed: `quantile(0.5)` is the
    /// median, and `quantile(1)` the longest wait. 0 if no wait was counted.
    [[nodiscard]] constexpr duration quantile(double q) const noexcept {
        auto const all = count();
        if (all == 0)
            return duration::zero();
        auto const rank = std::clamp(q, 0.0, 1.0) * static_cast<double>(all);
        std::uint64_t so_far = 0;
        std::size_t last = 0;
        for (std::size_t i = 0; i != ranges; ++i) {
            if (counts_[i] == 0)
                continue;
            last = i;
            so_far += counts_[i];
            if (static_cast<double>(so_far) >= rank)
                break;
        }
        return end_of(last);
    }

    /// Adds the waits of `other`.
    constexpr wait_histogram& operator+=(wait_histogram const& other) noexcept {
        for (std::size_t i = 0; i != ranges; ++i)
            counts_[i] += other.counts_[i];
        return *this;
    }
    /// Subtracts `earlier`, which must be of the same limiter.
    constexpr wait_histogram& operator-=(wait_histogram const& earlier) noexcept {
        for (std::size_t i = 0; i != ranges; ++i)
            counts_[i] -= earlier.counts_[i];
        return *this;
    }
    friend constexpr wait_histogram operator+(wait_histogram a, wait_histogram const& b) noexcept {
        return a += b;
    }
    friend constexpr wait_histogram operator-(wait_histogram a, wait_histogram const& b) noexcept {
        return a -= b;
    }
    friend constexpr bool operator==(wait_histogram const&,
                                     wait_histogram const&) noexcept = default;

private:
    // The first 8 ranges have 128 ns each; then each doubling is divided into 8.
    static constexpr int unit_bits = 7;
    static constexpr std::size_t part_bits = 3;
    static constexpr std::size_t parts = 1 << part_bits;

    std::array<std::uint64_t, ranges> counts_{};
};

}  // namespace weir::inline v0_2
