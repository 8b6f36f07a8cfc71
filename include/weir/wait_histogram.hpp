#pragma once

#include <weir/time.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weir {

/// How long requests have waited: a count for each of 304 ranges of time, whatever is counted. Of a range the
/// end counts, so what is told of a wait is never less than it was, and at most an eighth or 128 ns more. Waits
/// of more than 39 h count as 39 h.
///
/// Of two that one limiter has given, the difference is what was counted in between:
///
///     auto const before = limiter.snapshot();
///     ...
///     auto const lately = limiter.snapshot().waits - before.waits;
///     fmt::print("half of them have waited for {} at most\n", lately.quantile(0.5));
///
/// A value: not for use by several threads at once.
class wait_histogram {
public:
    static constexpr std::size_t ranges = 304;

    /// The longest wait that belongs to range `i`, from 0 to `ranges - 1`.
    [[nodiscard]] static constexpr duration end_of(std::size_t i) noexcept {
        if (i < parts)
            return duration(static_cast<std::int64_t>((i + 1) << unit_bits) - 1);
        auto const doublings = i / parts - 1;
        auto const first = (parts + i % parts) << doublings;
        return duration(
            static_cast<std::int64_t>((first + (std::size_t(1) << doublings)) << unit_bits) - 1);
    }
    /// The range to which `wait` belongs.
    [[nodiscard]] static constexpr std::size_t range_of(duration wait) noexcept {
        auto const units = static_cast<std::uint64_t>(
                               std::clamp(wait, duration::zero(), end_of(ranges - 1)).count()) >>
                           unit_bits;
        if (units < parts)
            return static_cast<std::size_t>(units);
        auto const doublings = static_cast<std::size_t>(std::bit_width(units)) - part_bits - 1;
        return parts * doublings + static_cast<std::size_t>(units >> doublings);
    }

    constexpr void add(duration wait, std::uint64_t times = 1) noexcept {
        counts_[range_of(wait)] += times;
    }

    /// How many waits have been counted: all, and those in range `i`.
    [[nodiscard]] constexpr std::uint64_t count() const noexcept {
        std::uint64_t all = 0;
        for (auto const n : counts_)
            all += n;
        return all;
    }
    [[nodiscard]] constexpr std::uint64_t count_in(std::size_t i) const noexcept {
        return counts_[i];
    }

    /// No more than this has the part `q` of all waited, 0 to 1: `quantile(0.5)` is the median, and
    /// `quantile(1)` the longest wait. 0 if none has been counted.
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

    constexpr wait_histogram& operator+=(wait_histogram const& other) noexcept {
        for (std::size_t i = 0; i != ranges; ++i)
            counts_[i] += other.counts_[i];
        return *this;
    }
    /// `earlier` must be of the same limiter.
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
    // The first 8 ranges have 128 ns each; then each doubling is parted into 8.
    static constexpr int unit_bits = 7;
    static constexpr std::size_t part_bits = 3;
    static constexpr std::size_t parts = 1 << part_bits;

    std::array<std::uint64_t, ranges> counts_{};
};

}  // namespace weir
