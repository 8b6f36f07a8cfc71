#pragma once

#include <chrono>
#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <ratio>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace weir::inline v0_2 {

/// The type of all durations in weir: whole nanoseconds, so that no decision depends on a rounded number.
using duration = std::chrono::nanoseconds;

/// The time scale of policies. It has no `now()`: only a limiter owns a clock.
struct timeline {
    /// The type of a number of nanoseconds.
    using rep = std::chrono::nanoseconds::rep;
    /// The unit, a nanosecond.
    using period = std::chrono::nanoseconds::period;
    /// The type of durations.
    using duration = std::chrono::nanoseconds;
    /// The type of instants.
    using time_point = std::chrono::time_point<timeline>;
    /// Instants never decrease.
    static constexpr bool is_steady = true;
};

/// An instant, in nanoseconds since the epoch of the limiter's clock.
using time_point = timeline::time_point;

/// Longer than any wait: the patience of a request that waits without a limit.
inline constexpr duration forever = duration::max();

/// The result of a policy that cannot predict the grant time: only a release can free permits.
inline constexpr time_point unknown = time_point::max();

/// The last instant: the deadline of a request that waits forever, and the result of a policy if the grant time is
/// later than any representable time. It is before `unknown`, because such a grant time is after every other deadline
/// for certain.
inline constexpr time_point never = unknown - duration(1);

/// Returns `t + d`, at most `never`: it does not overflow. `d` must not be negative.
[[nodiscard]] constexpr time_point later(time_point t, duration d) noexcept {
    return t > never - d ? never : t + d;
}

/// Returns `d * k`, at most `forever`: it does not overflow. Neither may be negative.
[[nodiscard]] constexpr duration times(duration d, std::int64_t k) noexcept {
    return k != 0 && d > forever / k ? forever : d * k;
}

/// Returns no value for `forever`, which represents an unknown time, and otherwise `d`.
[[nodiscard]] constexpr std::optional<duration> if_known(duration d) noexcept {
    return d == forever ? std::nullopt : std::optional(d);
}

/// Converts any chrono duration to nanoseconds. It rounds fractions up, and values outside the range to the nearest
/// limit.
///
/// @throws std::invalid_argument if the duration is NaN
template <class Rep, class Period>
[[nodiscard]] constexpr duration round_up(std::chrono::duration<Rep, Period> d) {
    using longest = std::chrono::duration<long double, std::nano>;
    constexpr auto limit = static_cast<long double>(duration::max().count());
    auto const wide = longest(d).count();
    if constexpr (std::floating_point<Rep>) {
        if (wide != wide)
            throw std::invalid_argument("weir: the duration is NaN");
    }
    if (wide >= limit)
        return duration::max();
    if (wide <= -limit)
        return -duration::max();
    if constexpr (std::floating_point<Rep>) {
        auto const whole = static_cast<duration::rep>(wide);  // towards zero
        return duration(static_cast<long double>(whole) < wide ? whole + 1 : whole);
    } else {
        // Two parts, because the whole product can overflow where the quotient fits.
        using factor = std::ratio_divide<Period, std::nano>;
        using number = std::common_type_t<Rep, std::intmax_t>;
        constexpr auto num = static_cast<number>(factor::num);
        constexpr auto den = static_cast<number>(factor::den);
        auto const n = static_cast<number>(d.count());
        auto const rest = n % den * num;
        auto const part = rest / den + (rest % den > 0 ? 1 : 0);
        return duration(static_cast<duration::rep>(n / den * num + part));
    }
}

/// The longest time that a request waits: any chrono duration, rounded up to nanoseconds.
///
/// Zero and negative values mean "now or not at all". A default-constructed patience is not set, and the limiter's
/// default applies (`queue_options::patience`).
class patience {
public:
    /// The limiter's default.
    constexpr patience() noexcept = default;

    /// A patience of `d`; 0 if `d` is negative.
    template <class Rep, class Period>
    constexpr patience(std::chrono::duration<Rep, Period> d) : length_(clamp(round_up(d))) {}

    /// Returns whether a duration was given.
    [[nodiscard]] constexpr bool is_set() const noexcept { return length_ != unset; }
    /// Returns the duration, or `otherwise` if none was given.
    [[nodiscard]] constexpr duration length_or(duration otherwise) const noexcept {
        return is_set() ? length_ : otherwise;
    }

private:
    static constexpr duration unset = duration::min();
    static constexpr duration clamp(duration d) noexcept {
        return d < duration::zero() ? duration::zero() : d;
    }

    duration length_ = unset;
};

}  // namespace weir::inline v0_2
