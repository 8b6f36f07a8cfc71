#include <weir/policy/bucket.hpp>

#include <limits>

namespace weir::policy {
namespace {

using drops = bucket::drops;

// a * m / d, rounded down, where the product would not fit: m and d are below 2^126.
drops scaled(drops a, drops m, drops d) noexcept {
    auto const whole = a / d - (a % d < 0 ? 1 : 0);
    auto const rest = a - whole * d;
    drops quotient = 0;
    drops left = 0;
    for (int bit = 125; bit >= 0; --bit) {  // as at school, in base two
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

// Rounded up.
std::uint64_t steps_for(drops lacking, std::int64_t by_step) noexcept {
    constexpr auto fits = std::numeric_limits<std::int64_t>::max();
    auto const quotient = lacking <= fits  // much the faster division
                              ? (static_cast<std::int64_t>(lacking) - 1) / by_step
                              : (lacking - 1) / by_step;
    return static_cast<std::uint64_t>(std::min<drops>(quotient, fits)) + 1;
}

}  // namespace

bucket::bucket(rule const& r) {
    restart(r, 0, time_point::min());
}

void bucket::restart(rule const& r, drops level, time_point from) noexcept {
    bool const by_periods = r.drains == drain::by_periods;
    step_ = by_periods ? r.rate.period().count() : 1;
    by_step_ = r.rate.permits();
    permit_ = by_periods ? 1 : r.rate.period().count();
    owed_ = std::max<std::int64_t>(std::min(by_step_, permit_) - 1, 0);
    capacity_ = r.capacity;
    origin_ = from;
    empty_ = level;
}

time_point bucket::beat(rule const& next, time_point now) const noexcept {
    bool const the_same =
        next.drains == drain::by_periods && permit_ == 1 && step_ == next.rate.period().count();
    return the_same ? origin_ + duration(static_cast<duration::rep>(steps(now)) * step_) : now;
}

bucket::drops bucket::room_in(rule const& next, carry_over carry, time_point now) const noexcept {
    auto const full = capacity_ * drops(permit_);
    auto const room = full - filled(now);
    return carry == carry_over::proportional && room > 0
               ? scaled(room, drops_of(next, next.capacity), full)
               : scaled(room, drops_of(next, 1), permit_);
}

amount bucket::level(time_point now) const noexcept {
    return static_cast<amount>((filled(now) + permit_ - 1) / permit_);
}

amount bucket::room(time_point now) const noexcept {
    auto const free = capacity_ * drops(permit_) - filled(now);
    return free <= 0 ? 0 : static_cast<amount>(free / permit_);
}

time_point bucket::when(drops gone, time_point now) const noexcept {
    if (by_step_ == 0)
        return unknown;
    auto const more = steps_for(gone - drained(now), by_step_);
    if (step_ == 1)
        return more < static_cast<std::uint64_t>(forever.count())
                   ? later(now, duration(static_cast<duration::rep>(more)))
                   : never;
    auto const count = drops(steps(now)) + more;
    auto const at = origin_.time_since_epoch().count() + count * step_;
    return at >= never.time_since_epoch().count()
               ? never
               : time_point(duration(static_cast<duration::rep>(at)));
}

}  // namespace weir::policy
