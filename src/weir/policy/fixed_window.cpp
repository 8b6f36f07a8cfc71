#include <weir/policy/fixed_window.hpp>

#include "../check_option.hpp"

namespace weir::inline v0_2::policy {
namespace {

fixed_window_options const& checked(fixed_window_options const& options) {
    detail::check_option("fixed_window", "limit", options.limit, 1, max_amount);
    detail::check_duration("fixed_window", "window", options.window, duration(1));
    detail::check_option("fixed_window", "alignment", options.alignment, window_alignment::epoch);
    return options;
}

}  // namespace

fixed_window_rule::fixed_window_rule(options_type const& options) : options_(checked(options)) {}

void fixed_window_rule::take_over(state_type& w, fixed_window_rule const& rule,
                                  state_type const& before, time_point now) const noexcept {
    w = rule.at(before, now);
    auto const old = w.began;
    if (options_.alignment == window_alignment::epoch)
        w.began = beginning(now);
    else if (now >= later(old, options_.window))
        w.began = now;
    if (w.began > old)
        w.carried = std::min(w.carried, w.used + w.owed);
    else if (w.began < old)  // grants of earlier windows could seem to belong to this one
        w.since = std::max(w.since, old);
    auto const paid = std::min(w.owed, room(w));
    w.used += paid;
    w.owed -= paid;
}

bool fixed_window_rule::refund(state_type& w, amount n, ticket t, time_point now) const noexcept {
    w = at(w, now);
    auto const granted = time_point(duration(static_cast<duration::rep>(t)));
    if (granted < w.since)
        return false;
    bool const is_earlier = granted < w.began;
    auto const undone = std::min(n, is_earlier ? w.carried : w.used + w.owed);
    if (is_earlier)
        w.carried -= undone;
    auto const forgiven = std::min(undone, w.owed);
    w.owed -= forgiven;
    w.used -= undone - forgiven;
    return undone != 0;
}

// Saves the window, the debt, and the least debt at the beginning of a window. A window without grants has no numbers.
void fixed_window_rule::save(state_type const& s, number_writer& to, time_point now) const {
    using wide = number_writer::wide;
    auto const w = at(s, now);
    if (w.used == 0)
        return;
    to.add(static_cast<wide>(w.used));
    to.add(static_cast<wide>(w.owed));
    to.add_age(w.began, now);
    to.add(static_cast<wide>(most - w.carried));
}

bool fixed_window_rule::load(state_type& s, number_reader& from, time_point then) const noexcept {
    if (from.rest().empty())
        return true;
    state_type w;
    w.used = from.next_as<amount>(max_amount);
    w.owed = from.next_as<amount>(most);
    w.began = from.next_instant(then);
    w.carried = most - from.next_as<amount>(most);
    // All permits of before are gone.
    w.since = then;
    bool const is_possible = w.used != 0 && (w.owed == 0 || w.used >= options_.limit) &&
                             then < later(w.began, options_.window);
    if (from.failed() || !is_possible)
        return false;
    // The clock of this process may count from another epoch.
    if (options_.alignment == window_alignment::epoch)
        w.began = beginning(then);
    s = w;
    return true;
}

// Returns the window of this time, after the windows that debt uses up; a window without grants begins now.
fixed_window_rule::state_type fixed_window_rule::next(state_type const& s,
                                                      time_point now) const noexcept {
    auto w = s;
    if (w.owed != 0) {
        auto const passed = (now - w.began) / options_.window;
        if (passed <= (w.owed - 1) / options_.limit + 1) {
            amount const left = w.owed - (passed - 1) * options_.limit;
            w.began += passed * options_.window;
            w.carried = std::min(w.carried, left);
            w.used = std::min(left, options_.limit);
            w.owed = left - w.used;
            return w;
        }
    }
    return {.began = beginning(now), .since = now};
}

// Returns the start of the window that a grant at this time would begin.
time_point fixed_window_rule::beginning(time_point now) const noexcept {
    if (options_.alignment == window_alignment::first_use)
        return now;
    auto const into = now.time_since_epoch() % options_.window;
    return now - (into < duration::zero() ? into + options_.window : into);
}

time_point fixed_window_rule::when(state_type const& w, amount too_many) const noexcept {
    auto const windows = (too_many - 1) / options_.limit + 1;
    return later(w.began, times(options_.window, windows));
}

}  // namespace weir::inline v0_2::policy
