#include "calendar_ledger.hpp"

#include "invariant.hpp"
#include "wall.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace explorer {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;

constexpr duration between_readings = std::chrono::minutes(1);

seconds offset_at(sys_seconds t) {
    auto offset = wall::winter;
    for (auto const& c : wall::changes) {
        if (c.at <= t)
            offset = c.offset;
    }
    return offset;
}

sys_days shown_day(sys_seconds t) {
    return floor<days>(t + offset_at(t));
}

// The first instant at which the clock shows this day or a later one: a midnight, or a change of the clock.
sys_seconds beginning_of(sys_days day) {
    std::vector<sys_seconds> possible{day - wall::winter, day - wall::summer};
    for (auto const& c : wall::changes)
        possible.push_back(c.at);
    std::erase_if(possible, [&](sys_seconds t) { return shown_day(t) < day; });
    return std::ranges::min(possible);
}

}  // namespace

sys_days calendar_ledger::first_day(sys_days of) const {
    std::chrono::year_month_day const date(of);
    if (rule_.time == a_week)
        return of - (std::chrono::weekday(of) - std::chrono::Monday);
    return rule_.time == a_month ? sys_days(date.year() / date.month() / 1) : of;
}

// Returns the first day of the next window.
sys_days calendar_ledger::day_after(sys_days first) const {
    std::chrono::year_month_day const date(first);
    if (rule_.time == a_week)
        return first + days(7);
    return rule_.time == a_month ? sys_days(date + std::chrono::months(1)) : first + days(1);
}

// A day that the clock shows again, because it was set back in the zone, belongs to the window of the later day.
calendar_ledger::window calendar_ledger::window_at(sys_seconds t) const {
    auto day = shown_day(t);
    while (beginning_of(day + days(1)) <= t)
        day += days(1);
    auto const first = first_day(day);
    return {beginning_of(first), beginning_of(day_after(first))};
}

bool calendar_ledger::is_due(time_point now) const {
    return !begun_ || now >= end_ || now - read_at_ >= between_readings;
}

void calendar_ledger::read_clock(time_point now) {
    bool const was_foreseen = std::exchange(foreseen_, false) && read_at_ == now;
    if (!is_due(now) && !was_foreseen)
        violated(invariant::verdict, "the wall clock is read too early");
    hear(now, wall::shows());
}

// A clock before the beginning of the window is believed only if it is earlier by more than the length of the window.
void calendar_ledger::hear(time_point now, duration shown) {
    sys_seconds const t(floor<seconds>(shown));
    if (!begun_) {
        begun_ = true;
        window_ = window_at(t);
        since_ = now;
    }
    if (t < window_.begin - (window_.end - window_.begin))
        begin_window(window_at(t), now);
    while (t >= window_.end)
        begin_window(window_at(window_.end), now);
    read_at_ = now;
    end_ = now + (window_.end.time_since_epoch() - shown);
}

void calendar_ledger::begin_window(window next, time_point now) {
    window_ = next;
    since_ = now;
    used_ = 0;
    pay();
}

void calendar_ledger::pay() {
    auto const paid = std::clamp<amount>(rule_.limit - used_, 0, owed_);
    used_ += paid;
    owed_ -= paid;
}

// Takes a reading that is due, and then goes on to `now` as if the clock made no step.
void calendar_ledger::move_on(time_point now) {
    if (is_due(wall::now())) {
        hear(wall::now(), wall::shows());
        foreseen_ = true;
    }
    while (now >= end_) {
        begin_window(window_at(window_.end), end_);
        end_ += window_.end - window_.begin;
    }
}

calendar_ledger calendar_ledger::at(time_point now) const {
    auto then = *this;
    then.move_on(now);
    return then;
}

amount calendar_ledger::remaining(time_point now) const {
    return std::max<amount>(rule_.limit - at(now).used_, 0);
}

void calendar_ledger::took(amount n, ticket, time_point now) {
    move_on(now);
    auto const granted = std::clamp<amount>(rule_.limit - used_, 0, n);
    used_ += granted;
    owed_ += n - granted;
}

// A refund in the window of the grant undoes all of it, the debt first. In a later window it has no effect.
void calendar_ledger::refunded(amount n, ticket t, time_point now) {
    move_on(now);
    if (time_point(duration(static_cast<duration::rep>(t))) < since_)
        return;
    auto const forgiven = std::min(n, owed_);
    owed_ -= forgiven;
    used_ -= n - forgiven;
}

void calendar_ledger::configured(rule next, time_point now) {
    move_on(now);
    rule_ = next;
    pay();
}

std::unique_ptr<ledger> calendar_ledger::copy() const {
    return std::unique_ptr<ledger>(new calendar_ledger(*this));
}

time_point calendar_ledger::alone(amount n, time_point now) const {
    auto then = at(now);
    if (then.used_ + n <= rule_.limit)
        return now;
    do
        then.move_on(then.end_);
    while (then.used_ + n > rule_.limit);
    return then.since_;
}

}  // namespace explorer
