#include <weir/policy/bucket.hpp>

#include <limits>

namespace weir::inline v0_2::policy {
namespace {

// Returns a * m / d, rounded down, if the product would overflow: m and d are below 2^126.
drops scaled(drops a, drops m, drops d) noexcept {
    auto const whole = a / d - (a % d < 0 ? 1 : 0);
    auto const rest = a - whole * d;
    drops quotient = 0;
    drops left = 0;
    for (int bit = 125; bit >= 0; --bit) {  // long multiplication, in base two
        left = 2 * left;
        quotient = 2 * quotient + (left >= d ? 1 : 0);
        left -= left >= d ? d : 0;
        if ((m >> bit) % 2 == 0)
            continue;
        left += rest;
        quotient += left >= d ? 1 : 0;
        left -= left >= d ? d : 0;
    }
    return whole * m + quotient;
}

// Returns the number of steps, rounded up.
std::uint64_t steps_for(drops lacking, std::int64_t by_step) noexcept {
    constexpr auto fits = std::numeric_limits<std::int64_t>::max();
    auto const quotient = lacking <= fits  // the division in 64 bits is much faster
                              ? (static_cast<std::int64_t>(lacking) - 1) / by_step
                              : (lacking - 1) / by_step;
    return static_cast<std::uint64_t>(std::min<drops>(quotient, fits)) + 1;
}

}  // namespace

drops bucket_measure::carried(drops room, bucket_measure const& from,
                              carry_over carry) const noexcept {
    return carry == carry_over::proportional && room > 0
               ? scaled(room, full, from.full)
               : scaled(room, permit, from.permit);
}

bucket::bucket(weir::rate const& rate, amount capacity) noexcept
    : by_nanosecond_(rate.permits()),
      permit_(rate.period().count()),
      spare_(std::max<std::int64_t>(std::min(by_nanosecond_, permit_) - 1, 0)),
      capacity_(capacity) {}

time_point bucket::when(drops lacking, time_point now) const noexcept {
    if (by_nanosecond_ == 0)
        return unknown;
    auto const wait = steps_for(lacking, by_nanosecond_);
    return wait < static_cast<std::uint64_t>(forever.count())
               ? later(now, duration(static_cast<duration::rep>(wait)))
               : never;
}

time_point interval_bucket::when(time_point beat, drops lacking) const noexcept {
    if (by_period_ == 0)
        return unknown;
    auto const at =
        beat.time_since_epoch().count() + drops(steps_for(lacking, by_period_)) * period_.count();
    return at >= never.time_since_epoch().count()
               ? never
               : time_point(duration(static_cast<duration::rep>(at)));
}

}  // namespace weir::inline v0_2::policy
