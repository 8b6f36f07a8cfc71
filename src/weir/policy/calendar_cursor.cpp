#include <weir/policy/calendar_cursor.hpp>

#include <algorithm>

namespace weir::inline v0_2::policy {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;

// Days that a clock in a zone shows are `sys_days`, too.

constexpr auto monday = sys_days(std::chrono::year(1969) / 12 / 29);  // of the week 0

std::int64_t number_of(calendar_unit unit, sys_days day) noexcept {
    switch (unit) {
        case calendar_unit::week:
            return floor<std::chrono::weeks>(day - monday).count();
        case calendar_unit::month: {
            std::chrono::year_month_day const date(day);
            return static_cast<int>(date.year()) * std::int64_t(12) +
                   static_cast<unsigned>(date.month()) - 1;
        }
        case calendar_unit::day:
            break;
    }
    return day.time_since_epoch().count();
}

sys_days first_day(calendar_unit unit, std::int64_t number) noexcept {
    switch (unit) {
        case calendar_unit::week:
            return monday + std::chrono::weeks(number);
        case calendar_unit::month:
            return std::chrono::year(0) / 1 / 1 + std::chrono::months(number);
        case calendar_unit::day:
            break;
    }
    return sys_days(days(number));
}

// The first instant at which a clock in the zone shows this day or a later one.
sys_seconds beginning_of(time_zone zone, sys_days day) noexcept {
    sys_seconds const midnight = day;
    auto p = zone.at(midnight - std::chrono::hours(26));
    for (;;) {
        auto const t = std::max(p.begin, midnight - p.offset);
        if (t < p.end)
            return t;
        p = zone.at(p.end);
    }
}

// The last day that a clock in the zone showed until `t`; it can be later than the one that it shows at `t`.
sys_days day_at(time_zone zone, sys_seconds t) noexcept {
    auto day = floor<days>(t + zone.at(t).offset);
    while (beginning_of(zone, day + days(1)) <= t)
        day += days(1);
    return day;
}

// A wall clock can be wrong by any time. The calendar has no windows beyond these years.
constexpr duration least_wall = sys_days(std::chrono::year(1700) / 1 / 1).time_since_epoch();
constexpr duration most_wall = sys_days(std::chrono::year(2200) / 1 / 1).time_since_epoch();

}  // namespace

calendar_span span_at(calendar_unit unit, time_zone zone, sys_seconds t) noexcept {
    auto const number = number_of(unit, day_at(zone, t));
    return {beginning_of(unit, zone, number), beginning_of(unit, zone, number + 1), number};
}

sys_seconds beginning_of(calendar_unit unit, time_zone zone, std::int64_t number) noexcept {
    return beginning_of(zone, first_day(unit, number));
}

template <class Edit>
calendar_cursor::position calendar_cursor::change(Edit edit) const noexcept {
    auto version = version_.load();
    while (version % 2 != 0 || !version_.compare_exchange_weak(version, version + 1)) {
        version_.wait(version | 1);
        version = version_.load();
    }
    position p{.current = {.passed = passed_, .since = since_, .end = end_, .number = number_},
               .from = from_,
               .to = to_,
               .fresh_until = fresh_until_};
    edit(p);
    constexpr auto order = std::memory_order_release;
    passed_.store(p.current.passed, order);
    since_.store(p.current.since, order);
    end_.store(p.current.end, order);
    number_.store(p.current.number, order);
    from_.store(p.from, order);
    to_.store(p.to, order);
    fresh_until_.store(p.fresh_until, order);  // the last one: see `passed`
    version_.store(version + 2);
    version_.notify_all();
    return p;
}

calendar_cursor::calendar_cursor(calendar_cursor const& other) noexcept : options_(other.options_) {
    *this = other;
}

calendar_cursor& calendar_cursor::operator=(calendar_cursor const& other) noexcept {
    options_ = other.options_;
    auto const its = other.change([](position&) {});
    change([&](position& mine) { mine = its; });
    return *this;
}

calendar_cursor::window calendar_cursor::read(time_point now) const noexcept {
    auto const move_on = [&](position& p) {
        if (is_fresh(now))  // another thread read the clock
            return;
        wall_time const shown =
            options_.clock ? options_.clock() : std::chrono::system_clock::now();
        auto const wall = std::clamp(shown.time_since_epoch(), least_wall, most_wall);
        sys_seconds const t(floor<seconds>(wall));
        if (t >= p.to || t < p.from - (p.to - p.from)) {
            auto const next = span_at(options_.unit, options_.zone, t);
            p.from = next.begin;
            p.to = next.end;
            p.current.passed += static_cast<std::uint64_t>(
                std::max<std::int64_t>(next.number - p.current.number, 1));
            p.current.number = next.number;
            p.current.since = now;
        }
        p.current.end = later(now, p.to.time_since_epoch() - wall);
        p.fresh_until = std::min(later(now, between_readings), p.current.end);
    };
    return change(move_on).current;
}

calendar_cursor::window calendar_cursor::predict(window const& w, time_point t) const noexcept {
    auto const next = beginning_of(options_.unit, options_.zone, w.number + 1);
    auto const span = span_at(options_.unit, options_.zone, next + floor<seconds>(t - w.end));
    return {.passed = w.passed + static_cast<std::uint64_t>(span.number - w.number),
            .since = {},
            .end = later(w.end, span.end - next),
            .number = span.number};
}

time_point calendar_cursor::end_of(window const& w, std::int64_t count) const noexcept {
    constexpr std::int64_t most = 110'000;  // days are more than a `duration` holds
    if (count > most)
        return never;
    seconds const more = beginning_of(options_.unit, options_.zone, w.number + count) -
                         beginning_of(options_.unit, options_.zone, w.number + 1);
    return more < floor<seconds>(forever) ? later(w.end, more) : never;
}

std::optional<std::uint64_t> calendar_cursor::go_on_from(std::int64_t number) const noexcept {
    auto const day_of = [&](duration wall) {
        return number_of(options_.unit, floor<days>(sys_seconds(floor<seconds>(wall))));
    };
    if (number < day_of(least_wall) || number > day_of(most_wall))
        return std::nullopt;
    std::optional<std::uint64_t> passed;
    change([&](position& p) {
        bool const is_new = p.from == p.to;
        auto const ahead = is_new ? 0 : number - p.current.number;
        if (is_new || ahead > 0) {
            p.from = policy::beginning_of(options_.unit, options_.zone, number);
            p.to = policy::beginning_of(options_.unit, options_.zone, number + 1);
            p.current.passed += static_cast<std::uint64_t>(ahead);
            p.current.number = number;
            p.fresh_until = time_point::min();
        }
        passed = p.current.passed + static_cast<std::uint64_t>(std::min<std::int64_t>(ahead, 0));
    });
    return passed;
}

void calendar_cursor::take_over(calendar_cursor const& other) const noexcept {
    if (options_ != other.options_)
        return;
    auto const its = other.change([](position&) {});
    change([&](position& p) {
        if (p.fresh_until == time_point::min())
            p = its;
    });
}

}  // namespace weir::inline v0_2::policy
