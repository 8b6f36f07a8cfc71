#include <weir/policy/fixed_window.hpp>

#include "../check_option.hpp"

namespace weir::policy {
namespace {

fixed_window_options const& checked(fixed_window_options const& options) {
    detail::check_option("fixed_window", "limit", options.limit, 1, max_amount);
    detail::check_option("fixed_window", "window in nanoseconds", options.window.count(), 1,
                         forever.count());
    detail::check_option("fixed_window", "alignment", options.alignment, window_alignment::epoch);
    return options;
}

}  // namespace

fixed_window::fixed_window(options_type const& options) : options_(checked(options)) {}

void fixed_window::take_over(fixed_window& before, time_point now) noexcept {
    auto w = before.at(now);
    if (options_.alignment == window_alignment::epoch)
        w.began = beginning(now);
    else if (now >= later(w.began, options_.window))
        w.began = now;
    number_ = before.number_;
    oldest_ = before.oldest_;
    carried_ = before.carried_;
    enter(w);
}

bool fixed_window::refund(amount n, ticket t, time_point now) noexcept {
    move_on(now);
    if (t < oldest_)
        return false;
    auto const undone = std::min(n, t == number_ ? window_.used : carried_);
    if (t != number_)
        carried_ -= undone;
    window_.used -= undone;
    return undone != 0;
}

// The window of this time, after those that debt has used up; one that nobody has used begins now.
fixed_window::window fixed_window::next(time_point now) const noexcept {
    auto const [began, used] = window_;
    if (used != 0) {
        auto const passed = (now - began) / options_.window;
        if (passed <= (used - 1) / options_.limit)
            return {.began = began + passed * options_.window,
                    .used = used - passed * options_.limit};
    }
    return {.began = beginning(now), .used = 0};
}

// Of the window that would begin if one were used now.
time_point fixed_window::beginning(time_point now) const noexcept {
    if (options_.alignment == window_alignment::first_use)
        return now;
    auto const into = now.time_since_epoch() % options_.window;
    return now - (into < duration::zero() ? into + options_.window : into);
}

time_point fixed_window::when(window const& w, amount too_many) const noexcept {
    auto const windows = (too_many - 1) / options_.limit + 1;
    return later(w.began, times(options_.window, windows));
}

void fixed_window::enter(window const& w) noexcept {
    window_ = w;
    ++number_;
    if (w.used == 0) {
        oldest_ = number_;
        carried_ = most;
    } else {
        carried_ = std::min(carried_, w.used);
    }
}

}  // namespace weir::policy
