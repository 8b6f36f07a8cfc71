#include <weir/policy/penalty.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <cstdint>

namespace weir::inline v0_2::policy {
namespace {

penalty_options const& checked(penalty_options const& options) {
    detail::check_option("penalty", "offences", options.offences, 1, max_amount);
    detail::check_duration("penalty", "window", options.window, duration(1));
    detail::check_duration("penalty", "first", options.first, duration(1));
    detail::check_duration("penalty", "longest", options.longest, options.first);
    detail::check_duration("penalty", "memory", options.memory, duration(0));
    return options;
}

}  // namespace

penalty_rule::penalty_rule(options_type const& options) : options_(checked(options)) {}

void penalty_rule::add(state_type& s, amount n, time_point now) const noexcept {
    if (now < s.until)
        return;
    if (!is_in_window(s, now)) {
        s.since = now;
        s.offences = 0;
    }
    s.offences += n;
    if (s.offences < options_.offences)
        return;
    s.offences = 0;
    if (is_forgotten(s, now))
        s.penalties = 0;
    auto length = options_.first;
    for (std::uint32_t i = 0; i != s.penalties && length < options_.longest; ++i)
        length = length > options_.longest / 2 ? options_.longest : length * 2;
    s.penalties = std::min(s.penalties + 1, most_penalties);
    s.until = later(now, length);
}

// Saves the offences of the window with its age, and the penalties in a row with the rest of the last one, or with the
// time since its end.
void penalty_rule::save(state_type const& s, number_writer& to, time_point now) const {
    using wide = number_writer::wide;
    bool const has_offences = is_in_window(s, now);
    to.add(has_offences ? static_cast<wide>(s.offences) : 0);
    if (has_offences)
        to.add_age(s.since, now);
    auto const penalties = is_forgotten(s, now) ? 0 : s.penalties;
    to.add(penalties);
    if (penalties == 0)
        return;
    to.add_age(now, s.until);
    to.add_age(s.until, now);
}

// The options may have changed after the offences and the penalty, so their numbers do not bound these.
bool penalty_rule::load(state_type& s, number_reader& from, time_point then) const noexcept {
    state_type saved;
    saved.offences = from.next_as<amount>(max_amount);
    if (saved.offences != 0)
        saved.since = from.next_instant(then);
    saved.penalties = from.next_as<std::uint32_t>(most_penalties);
    if (saved.penalties != 0) {
        auto const left = duration(from.next_as<duration::rep>());
        auto const ended = from.next_instant(then);
        if (left != duration::zero() && ended != then)
            return false;
        saved.until = left != duration::zero() ? later(then, left) : ended;
    }
    if (from.failed())
        return false;
    s = saved;
    return true;
}

}  // namespace weir::inline v0_2::policy
