#include <weir/policy/calendar_window.hpp>

#include "../check_option.hpp"

#include <limits>

namespace weir::inline v0_2::policy {
namespace {

// Before all numbers of windows.
constexpr std::int64_t least_number = -100'000;

calendar_window_options const& checked(calendar_window_options const& options) {
    detail::check_option("calendar_window", "limit", options.limit, 1, max_amount);
    detail::check_option("calendar_window", "unit", options.unit, calendar_unit::month);
    return options;
}

}  // namespace

calendar_window_rule::calendar_window_rule(options_type const& options)
    : limit_(checked(options).limit),
      cursor_({.unit = options.unit, .zone = options.zone, .clock = options.clock}) {}

void calendar_window_rule::take_over(state_type& s, calendar_window_rule const& old,
                                     state_type const& before, time_point now) const noexcept {
    auto const last = old.in(old.cursor_.passed(now), before);
    cursor_.take_over(old.cursor_);
    auto const paid = std::min(last.owed_, room(last));
    s = {last.used() + paid, last.owed_ - paid, cursor_.passed(now)};
}

bool calendar_window_rule::refund(state_type& s, amount n, ticket t,
                                  time_point now) const noexcept {
    auto const w = cursor_.at(now);
    auto const granted = time_point(duration(static_cast<duration::rep>(t)));
    if (granted < w.since)
        return false;
    auto const current = in(w.passed, s);
    auto const undone = std::min(n, current.used() + current.owed_);
    auto const forgiven = std::min(undone, current.owed_);
    s = {current.used() - (undone - forgiven), current.owed_ - forgiven, w.passed};
    return undone != 0;
}

// Saves the number of the window in the calendar, the used permits and the debt.
void calendar_window_rule::save(state_type const& s, number_writer& to, time_point now) const {
    using wide = number_writer::wide;
    auto const w = cursor_.at(now);
    auto const current = in(w.passed, s);
    to.add(static_cast<wide>(w.number - least_number));
    to.add(static_cast<wide>(current.used()));
    to.add(static_cast<wide>(current.owed_));
}

bool calendar_window_rule::load(state_type& s, number_reader& from, time_point) const noexcept {
    auto const number = from.next_as<std::int64_t>(std::numeric_limits<std::int32_t>::max());
    auto const used = from.next_as<amount>(max_amount);
    auto const owed = from.next_as<amount>(most);
    if (from.failed() || (owed != 0 && used < limit_))
        return false;
    auto const window = cursor_.go_on_from(number + least_number);
    if (window)
        s = {used, owed, *window};
    return window.has_value();
}

// Returns the state in the window `window` after `passed` windows, which paid the debt.
calendar_window_rule::state_type calendar_window_rule::next(
    std::uint64_t window, state_type const& s, std::uint64_t passed) const noexcept {
    auto const before = static_cast<amount>(passed) - 1;
    if (before > (s.owed_ - 1) / limit_)
        return {0, 0, window};
    auto const left = s.owed_ - before * limit_;
    auto const used = std::min(left, limit_);
    return {used, left - used, window};
}

// The end of the window must be the end of the one in which the permits are missing, whatever other threads do.
time_point calendar_window_rule::ready_later(state_type const& s, amount n, amount ahead,
                                             time_point now, time_point from) const noexcept {
    auto const present = cursor_.at(now);
    auto const w = from < present.end ? present : cursor_.predict(present, from);
    auto const too_many = missing(in(w.passed, s), n, ahead);
    return too_many <= 0        ? from
           : too_many <= limit_ ? w.end
                                : cursor_.end_of(w, (too_many - 1) / limit_ + 1);
}

}  // namespace weir::inline v0_2::policy
