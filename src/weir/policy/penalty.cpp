#include <weir/policy/penalty.hpp>

#include "../check_option.hpp"

#include <algorithm>

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
    // 63 doublings exceed every duration.
    auto length = options_.first;
    for (std::uint32_t i = 0; i != s.penalties && length < options_.longest; ++i)
        length = length > options_.longest / 2 ? options_.longest : length * 2;
    s.penalties = std::min<std::uint32_t>(s.penalties + 1, 63);
    s.until = later(now, length);
}

}  // namespace weir::inline v0_2::policy
