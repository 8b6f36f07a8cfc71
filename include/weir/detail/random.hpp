#pragma once

#include <weir/time.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace weir::inline v0_2::detail {

/// Returns bits from `std::random_device`, whose exceptions it passes on; or the next number of the series that
/// `begin_series` has begun.
[[nodiscard]] std::uint64_t random_bits();
void begin_series(std::uint64_t seed) noexcept;

/// The step from one state to the next of a series of random numbers, and the number that a state gives, one to one.
/// Source: splitmix64 of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
inline constexpr std::uint64_t next_in_series = 0x9e3779b97f4a7c15U;
[[nodiscard]] constexpr std::uint64_t mix_bits(std::uint64_t state) noexcept {
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebU;
    return state ^ (state >> 31);
}

/// Random delays. They need not be secret, but they differ in each limiter.
class jitter {
public:
    /// Returns `ready`, or `now` if that is later, plus a uniform random delay up to `most`. An unknown time stays
    /// unknown.
    [[nodiscard]] time_point after(time_point ready, duration most, time_point now) noexcept {
        if (most == duration::zero() || ready >= never)
            return ready;
        if (state_ == 0)
            state_ = first_state(now);
        auto const values = static_cast<std::uint64_t>(most.count()) + 1;
        auto const bits = mix_bits(state_ += next_in_series);
        return later(std::max(ready, now), duration(static_cast<std::int64_t>(bits % values)));
    }

    /// Returns the duration `wait`, from now on, plus a random delay as in `after`. `forever` stays so, since it is
    /// unknown.
    [[nodiscard]] duration of(duration wait, duration most, time_point now) noexcept {
        return wait == forever ? forever : after(later(now, wait), most, now) - now;
    }

private:
    [[nodiscard]] std::uint64_t first_state(time_point now) const noexcept {
        try {
            return random_bits();
        } catch (std::exception const&) {  // a weak seed is better than none
            return static_cast<std::uint64_t>(now.time_since_epoch().count()) ^
                   reinterpret_cast<std::uintptr_t>(this);
        }
    }

    std::uint64_t state_ = 0;
};

}  // namespace weir::inline v0_2::detail
