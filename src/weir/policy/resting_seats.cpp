#include <weir/policy/resting_seats.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ranges>

namespace weir::inline v0_2::policy {
namespace {

constexpr amount most_seats = 1 << 20;

resting_seats_options const& checked(resting_seats_options const& options) {
    detail::check_option("resting_seats", "seats", options.seats, 1, most_seats);
    detail::check_duration("resting_seats", "rest", options.rest, duration(1));
    return options;
}

}  // namespace

resting_seats_rule::resting_seats_rule(options_type const& options) : options_(checked(options)) {}

resting_seats_rule::state_type resting_seats_rule::begin(time_point) const {
    state_type s;
    if (options_.seats > 1)
        s.several.resize(static_cast<std::size_t>(options_.seats));
    return s;
}

void resting_seats_rule::restart(state_type& s, time_point) const noexcept {
    s.in_use = 0;
    s.first = 0;
    s.number = 0;
}

// A ring for more seats is kept, so that ends which rest are not lost if `seats` is lowered.
void resting_seats_rule::take_over(state_type& s, resting_seats_rule const& old, state_type& before,
                                   time_point now) const {
    auto const rests = old.resting(before, now);
    s.in_use = before.in_use;
    s.first = 0;
    s.number = static_cast<std::uint32_t>(rests);
    if (before.size() > s.size()) {
        std::ranges::rotate(before.several, before.several.begin() + before.first);
        s.several.swap(before.several);
        s.first = rests == 0 ? 0 : before.number - s.number;
        return;
    }
    for (amount i = 0; i != rests; ++i)
        s.at(static_cast<std::size_t>(i)) = end(before, before.number - rests + i);
}

amount resting_seats_rule::resting(state_type const& s, time_point now) const noexcept {
    auto const is_over = [&](amount i) { return later(end(s, i), options_.rest) <= now; };
    auto const all = std::views::iota(amount(0), amount(s.number));
    return static_cast<amount>(std::ranges::end(all) - std::ranges::partition_point(all, is_over));
}

time_point resting_seats_rule::ready_at(state_type const& s, amount n, amount ahead,
                                        time_point now) const noexcept {
    auto const room = options_.seats - s.in_use - n;
    if (room < ahead)
        return unknown;
    auto const may_rest = room - ahead;
    if (may_rest >= s.number)
        return now;
    return std::max(now, later(end(s, s.number - 1 - may_rest), options_.rest));
}

bool resting_seats_rule::leave(state_type& s, amount n, ticket, time_point now) const noexcept {
    s.in_use -= n;
    auto const size = static_cast<std::uint32_t>(s.size());
    for (auto left = std::min<amount>(n, size); left != 0; --left) {
        if (s.number == size)
            s.first = s.first + 1 == size ? 0 : s.first + 1;
        else
            ++s.number;
        auto const last = s.first + s.number - 1;
        s.at(last < size ? last : last - size) = now;
    }
    return true;
}

}  // namespace weir::inline v0_2::policy
