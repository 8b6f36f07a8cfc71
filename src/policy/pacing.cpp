#include <weir/policy/pacing.hpp>

#include <cmath>
#include <numeric>

namespace weir::policy {
namespace {

using ticks = pacing::ticks;

// What is a float by its nature is rounded to ticks: a thousandth of a nanosecond does.
constexpr std::int64_t ticks_wanted = 1024;

// Towards minus infinity; `divisor` is positive.
ticks floor_of(ticks t, std::int64_t divisor) noexcept {
    return t / divisor - (t % divisor < 0 ? 1 : 0);
}

// `t` of a unit of which `from` are as many as `to` of the result's, rounded down.
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

pacing::ticks pacing::nearest(ticks t, double factor) noexcept {
    auto const exact = factor * static_cast<double>(t);
    if (!(exact > 0))
        return 0;
    return exact < static_cast<double>(limit) ? static_cast<ticks>(std::nearbyint(exact)) : limit;
}

time_point pacing::instant(ticks t) const noexcept {
    auto const ns = -floor_of(-t, per_nanosecond_);
    return ns < never.time_since_epoch().count()
               ? time_point(duration(static_cast<duration::rep>(ns)))
               : never;
}

pacing::ticks pacing::instant_from(pacing const& other, ticks t) const noexcept {
    return -converted(-t, other.per_nanosecond_, per_nanosecond_);
}

pacing::ticks pacing::permits_from(pacing const& other, ticks t) const noexcept {
    return converted(t, other.per_permit_, per_permit_);
}

}  // namespace weir::policy
