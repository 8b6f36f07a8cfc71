#pragma once

#include <weir/amount.hpp>
#include <weir/rate.hpp>
#include <weir/time.hpp>

#include <cstdint>

namespace weir::inline v0_2::policy {

/// A rate in whole numbers. Time and permits are counted in the same ticks, which are so short that a nanosecond, and
/// the time of a permit at this rate, are whole numbers of ticks. Only the conversion to an instant is rounded, so
/// nothing drifts.
///
/// Precondition: the rate is not 0. All sums are capped at `limit`, which is later than any time.
class pacing {
public:
    __extension__ using ticks = __int128;
    static constexpr ticks limit = ticks{1} << 124;

    explicit pacing(rate const& r) noexcept;

    [[nodiscard]] ticks nanosecond() const noexcept { return per_nanosecond_; }
    [[nodiscard]] ticks until(time_point t) const noexcept {
        return ticks{t.time_since_epoch().count()} * per_nanosecond_;
    }
    [[nodiscard]] ticks length(duration d) const noexcept {
        return ticks{d.count()} * per_nanosecond_;
    }
    /// Returns the time of `n` permits.
    [[nodiscard]] ticks of(amount n) const noexcept { return ticks{n} * per_permit_; }
    /// Returns the time of a number of permits with a fraction.
    [[nodiscard]] ticks of(double permits) const noexcept {
        return nearest(permits * static_cast<double>(per_permit_));
    }
    /// Returns the nearest whole number, from 0 to `limit`.
    [[nodiscard]] static ticks nearest(double t) noexcept {
        if (!(t > 0))
            return 0;
        if (t < 0x1p52)  // the fastest conversion by far
            return static_cast<std::int64_t>(t + 0.5);
        return t < static_cast<double>(limit) ? static_cast<ticks>(t) : limit;
    }
    [[nodiscard]] static double real(ticks t) noexcept {
        auto const small = static_cast<std::int64_t>(t);
        return small == t ? static_cast<double>(small) : static_cast<double>(t);
    }

    /// Returns the first nanosecond at or after `t`, which is after `now`; `never` if a `time_point` cannot represent
    /// it.
    [[nodiscard]] time_point instant(ticks t, time_point now) const noexcept;
    /// Returns the number of permits that take this time.
    [[nodiscard]] double permits(ticks t) const noexcept {
        return real(t) / static_cast<double>(per_permit_);
    }
    [[nodiscard]] ticks whole_permits(ticks t) const noexcept { return t / per_permit_; }

    /// Converts an instant or a number of permits from the ticks of another rate. The instant is at most a fraction of
    /// a tick later, the number at most a fraction of a tick smaller.
    [[nodiscard]] ticks instant_from(pacing const& other, ticks t) const noexcept;
    [[nodiscard]] ticks permits_from(pacing const& other, ticks t) const noexcept;

private:
    std::int64_t per_nanosecond_;
    std::int64_t per_permit_;
};

}  // namespace weir::inline v0_2::policy
