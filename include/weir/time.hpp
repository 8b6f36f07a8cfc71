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

namespace weir {

/// Every length of time in weir: whole nanoseconds, so that no decision rests on a rounded number.
using duration = std::chrono::nanoseconds;

/// The line on which policies are told the time. It has no `now()`: only a limiter owns a clock.
struct timeline {
    using rep = std::chrono::nanoseconds::rep;
    using period = std::chrono::nanoseconds::period;
    using duration = std::chrono::nanoseconds;
    using time_point = std::chrono::time_point<timeline>;
    static constexpr bool is_steady = true;
};

/// An instant, in nanoseconds since the epoch of the limiter's clock.
using time_point = timeline::time_point;

/// Longer than any wait: the patience of a caller that waits for as long as it takes.
inline constexpr duration forever = duration::max();

/// What a policy answers when no time can be named: only a permit that comes home can make room.
inline constexpr time_point unknown = time_point::max();

/// The end of time: the deadline of a caller that waits for ever, and what a policy answers when the turn
/// of a request comes later than any time that can be named. It is before `unknown`, since such a turn is
/// known to be too late for every other deadline.
inline constexpr time_point never = unknown - duration(1);

/// `t + d`, held at `never` instead of overflowing. `d` must not be negative.
[[nodiscard]] constexpr time_point later(time_point t, duration d) noexcept {
    return t > never - d ? never : t + d;
}

/// `d * k`, held at `forever` instead of overflowing. Neither may be negative.
[[nodiscard]] constexpr duration times(duration d, std::int64_t k) noexcept {
    return k != 0 && d > forever / k ? forever : d * k;
}

/// Nothing for `forever`, which stands for a time that cannot be named.
[[nodiscard]] constexpr std::optional<duration> if_known(duration d) noexcept {
    return d == forever ? std::nullopt : std::optional(d);
}

/// Converts any chrono duration to nanoseconds: fractions are rounded up, what does not fit is held
/// at the nearest end of the range. Throws `std::invalid_argument` if the duration is not a number.
template <class Rep, class Period>
[[nodiscard]] constexpr duration round_up(std::chrono::duration<Rep, Period> d) {
    using longest = std::chrono::duration<long double, std::nano>;
    constexpr auto limit = static_cast<long double>(duration::max().count());
    auto const wide = longest(d).count();
    if constexpr (std::floating_point<Rep>) {
        if (wide != wide)
            throw std::invalid_argument("weir: a duration that is not a number");
    }
    if (wide >= limit)
        return duration::max();
    if (wide <= -limit)
        return -duration::max();
    if constexpr (std::floating_point<Rep>) {
        auto const whole = static_cast<duration::rep>(wide);  // towards zero
        return duration(static_cast<long double>(whole) < wide ? whole + 1 : whole);
    } else {
        // In two parts, since the product of the whole may not fit where the quotient does.
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

/// How long a caller is willing to wait: any chrono duration, rounded up to nanoseconds.
///
/// Zero and less mean "now or not at all". Without an argument it is `unset`, and the limiter's own
/// default (`queue_options::patience`) holds.
class patience {
public:
    constexpr patience() noexcept = default;

    template <class Rep, class Period>
    constexpr patience(std::chrono::duration<Rep, Period> d) : length_(clamp(round_up(d))) {}

    [[nodiscard]] constexpr bool is_set() const noexcept { return length_ != unset; }
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

}  // namespace weir
