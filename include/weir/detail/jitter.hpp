#pragma once

#include <weir/time.hpp>

#include <algorithm>
#include <cstdint>

namespace weir::detail {

/// Delays by chance. It is no secret which one comes next, but it is another one in each limiter.
/// Source: splitmix64 of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
class jitter {
public:
    /// `ready`, or `now` if that is later, and then by up to `most`, evenly. What is not known stays so.
    [[nodiscard]] time_point after(time_point ready, duration most, time_point now) noexcept {
        if (most == duration::zero() || ready >= never)
            return ready;
        if (state_ == 0)
            state_ = static_cast<std::uint64_t>(now.time_since_epoch().count()) ^
                     reinterpret_cast<std::uintptr_t>(this);
        auto const values = static_cast<std::uint64_t>(most.count()) + 1;
        return later(std::max(ready, now), duration(static_cast<std::int64_t>(bits() % values)));
    }

    /// The same for a length of time from now on, of which `forever` is not known.
    [[nodiscard]] duration of(duration wait, duration most, time_point now) noexcept {
        return wait == forever ? forever : after(later(now, wait), most, now) - now;
    }

private:
    [[nodiscard]] std::uint64_t bits() noexcept {
        auto z = state_ += 0x9e3779b97f4a7c15U;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }

    std::uint64_t state_ = 0;
};

}  // namespace weir::detail
