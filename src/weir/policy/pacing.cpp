#include <weir/policy/pacing.hpp>

#include <limits>
#include <numeric>

namespace weir::inline v0_2::policy {
namespace {

using ticks = pacing::ticks;

// Values that are floating-point by nature are rounded to ticks: a thousandth of a nanosecond is precise enough.
constexpr std::int64_t ticks_wanted = 1024;

// Rounds towards minus infinity; `divisor` is positive.
ticks floor_of(ticks t, std::int64_t divisor) noexcept {
    auto const quotient = t / divisor;  // takes as long as the rest of the function
    return quotient - (quotient * divisor > t ? 1 : 0);
}

// Converts `t` to a unit of which `to` equal `from` of the old one, rounded down.
ticks converted(ticks t, std::int64_t from, std::int64_t to) noexcept {
    auto const whole = floor_of(t, from);
    if (whole >= pacing::limit / to)
        return pacing::limit;
    if (whole <= -pacing::limit / to)
        return -pacing::limit;
    return whole * to + (t - whole * from) * to / from;
}

}  // namespace

pacing::pacing(rate const& r) noexcept {
    auto const common = std::gcd(r.permits(), r.period().count());
    per_nanosecond_ = r.permits() / common;
    per_permit_ = r.period().count() / common;
    while (per_nanosecond_ < ticks_wanted && per_permit_ <= forever.count() / 2) {
        per_nanosecond_ *= 2;
        per_permit_ *= 2;
    }
}

time_point pacing::instant(ticks t, time_point now) const noexcept {
    auto const wait = t - until(now);
    if (wait <= std::numeric_limits<std::int64_t>::max())  // the division in 64 bits is much faster
        return later(now, duration((static_cast<std::int64_t>(wait) - 1) / per_nanosecond_ + 1));
    auto const ns = (wait - 1) / per_nanosecond_ + 1;
    return ns < forever.count() ? later(now, duration(static_cast<duration::rep>(ns))) : never;
}

pacing::ticks pacing::instant_from(pacing const& other, ticks t) const noexcept {
    return -converted(-t, other.per_nanosecond_, per_nanosecond_);
}

pacing::ticks pacing::permits_from(pacing const& other, ticks t) const noexcept {
    return converted(t, other.per_permit_, per_permit_);
}

}  // namespace weir::inline v0_2::policy
