#pragma once

#include <weir/policy/carry_over.hpp>
#include <weir/policy/pacing.hpp>
#include <weir/policy/rule.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <limits>

namespace weir::policy {

/// What idleness is worth: how many permits are saved while nobody asks, and what it costs to be
/// granted them afterwards. Plug a curve of your own into `smooth`.
///
/// Everything is relative to the steady rate, at which a permit costs 1. A curve below that line
/// serves faster after idleness, one above it more slowly, as a cold cache wants it.
///
/// | expression          | what it is                                                             |
/// |---------------------|------------------------------------------------------------------------|
/// | `C::options_type`   | has at least the members `weir::rate rate` and                         |
/// |                     | `weir::carry_over carry_over`                                          |
/// | `C(options)`        | the curve, or throws `std::invalid_argument`; the rate must not be 0   |
/// | `c.full_after()`    | after how much idleness nothing more is saved, 0 or more               |
/// | `c.idle_at_start()` | for how long a new limiter is taken to have been idle, 0 or more       |
/// | `c.saving()`        | how many permits are saved for each that the steady rate would have    |
/// |                     | granted meanwhile, above 0                                             |
/// | `c.cost(saved)`     | what it costs to be granted all of `saved` permits: the integral of    |
/// |                     | the curve from 0. 0 at 0, and never decreasing                         |
// clang-format off
template <class C>
concept smooth_curve =
    std::copyable<C> && std::copyable<typename C::options_type> &&
    std::constructible_from<C, typename C::options_type const&> &&
    requires(C const& c, typename C::options_type const& options, double saved) {
        { options.rate } -> std::convertible_to<weir::rate>;
        { options.carry_over } -> std::convertible_to<weir::carry_over>;
        { c.full_after() } noexcept -> std::same_as<duration>;
        { c.idle_at_start() } noexcept -> std::same_as<duration>;
        { c.saving() } noexcept -> std::same_as<double>;
        { c.cost(saved) } noexcept -> std::same_as<double>;
    };
// clang-format on

/// A steady rate that remembers idleness, by debt: a request is granted as soon as the one before it
/// has been paid for, however large it is, and it is the next one that waits until this one is paid.
/// Permits that were saved while nobody asked are used first, at the price that `Curve` sets; the
/// others take what the rate says.
///
/// Guarantee: a request for three costs exactly what three requests for one cost. A grant is made at the
/// first nanosecond at which the debt is paid, and the next one counts from the exact time, so that
/// whoever always waits gets exactly the rate, for ever. There is no upper bound to a request, hence
/// no `errc::exceeds_capacity` up to `max_amount`.
/// Formula: with `saved` permits at `free`, the time at which the last debt is paid, a request for n
/// at a time t from `free` on first saves (t - free) * rate * saving permits, up to the maximum, and
/// makes t the time that counts; then s = min(n, saved), and the debt is paid after
/// (cost(saved) - cost(saved - s) + n - s) / rate.
/// Options: a new rate does not change what has been granted: the debt ends when it was to end. Requests
/// that wait are priced when they are granted, at the new rate. `carry_over` says what becomes of
/// what was saved. Where nothing could be saved, nothing is carried over, in proportion as well: then
/// `smooth_bursty` has no burst until it has been idle, and `smooth_warming_up` is warm.
/// Start: the time begins when the limiter is made.
/// A permit that was not used is paid back, and what was saved is saved again.
/// Memory: constant; 32 bytes of state.
/// Source: Guava's SmoothRateLimiter, in whole nanoseconds and fractions of them instead of
/// microseconds.
template <smooth_curve Curve>
class smooth_rule {
public:
    using options_type = typename Curve::options_type;
    using ticks = pacing::ticks;
    struct state_type {
        ticks free;   // when the last debt is paid
        ticks saved;  // permits
    };

    explicit smooth_rule(options_type const& options)
        : curve_(options),
          options_(options),
          pace_(options.rate),
          full_(scaled(pace_.length(curve_.full_after()), curve_.saving())),
          saved_at_start_(saved_by(pace_.length(curve_.idle_at_start()))) {}

    [[nodiscard]] state_type begin(time_point now) const noexcept {
        return {pace_.until(now), saved_at_start_};
    }
    void take_over(state_type& s, smooth_rule const& old, state_type const& before,
                   time_point now) const noexcept;
    [[nodiscard]] bool are_alike(state_type const& a, state_type const& b,
                                 time_point now) const noexcept {
        auto const one = settled(a, now);
        auto const other = settled(b, now);
        return one.free == other.free && one.saved == other.saved;
    }

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return max_amount; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    static constexpr bool is_scheduled = true;

    /// How many requests for one would be granted at once. One for more than that is granted, too,
    /// if this is not 0.
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept;
    /// What has been granted and is not paid for yet, rounded up.
    [[nodiscard]] amount debt(state_type const& s, time_point now) const noexcept;

    [[nodiscard]] time_point ready_at(state_type const& s, amount, amount ahead,
                                      time_point now) const noexcept {
        auto const due = after(ahead, settled(s, now)).free;
        return due <= pace_.until(now) ? now : pace_.instant(due, now);
    }

    ticket take(state_type& s, amount n, time_point now) const noexcept {
        auto const before = settled(s, now);
        s = after(n, before);
        auto const used = before.saved - s.saved;
        if (used == 0)
            return noted(static_cast<double>(n));
        auto const unsaved = pace_.of(n) - used;
        return noted(unsaved == 0 ? 0 : pace_.permits(unsaved));
    }
    static constexpr bool ignores_leave = true;
    bool leave(state_type&, amount, ticket) const noexcept { return false; }
    bool refund(state_type& s, amount n, ticket t, time_point now) const noexcept;
    ticket merge(state_type&, ticket a, ticket b, amount) const noexcept {
        return noted(not_saved(a) + not_saved(b));
    }

private:
    // The ticket of a grant is how many of its permits had not been saved before.
    [[nodiscard]] static ticket noted(double permits) noexcept {
        return std::bit_cast<ticket>(permits);
    }
    [[nodiscard]] static double not_saved(ticket t) noexcept { return std::bit_cast<double>(t); }

    [[nodiscard]] ticks saved_by(ticks idleness) const noexcept {
        return std::min(scaled(idleness, curve_.saving()), full_);
    }
    [[nodiscard]] ticks cost(ticks saved) const noexcept {
        return pace_.of(curve_.cost(pace_.permits(saved)));
    }
    [[nodiscard]] static ticks scaled(ticks t, double factor) noexcept {
        return factor == 1 ? t : pacing::nearest(pacing::real(t) * factor);
    }

    [[nodiscard]] state_type settled(state_type const& s, time_point now) const noexcept;
    [[nodiscard]] state_type idle_until(ticks t, state_type s) const noexcept;
    [[nodiscard]] state_type after(amount n, state_type s) const noexcept;

    Curve curve_;
    options_type options_;
    pacing pace_;
    ticks full_;  // the most that is saved
    ticks saved_at_start_;
};

template <smooth_curve Curve>
using smooth = ruled<smooth_rule<Curve>>;

// How things stand at `now` if nobody asks before.
template <smooth_curve Curve>
inline typename smooth_rule<Curve>::state_type smooth_rule<Curve>::settled(
    state_type const& s, time_point now) const noexcept {
    auto const t = pace_.until(now);
    if (t - s.free < pace_.nanosecond())  // that is no idleness but how grants are rounded
        return s;
    return idle_until(t, s);
}

template <smooth_curve Curve>
inline typename smooth_rule<Curve>::state_type smooth_rule<Curve>::idle_until(
    ticks t, state_type s) const noexcept {
    if (t <= s.free)
        return s;
    return {t, std::min(s.saved + saved_by(t - s.free), full_)};
}

// What `n` permits make of it.
template <smooth_curve Curve>
inline typename smooth_rule<Curve>::state_type smooth_rule<Curve>::after(
    amount n, state_type s) const noexcept {
    auto const wanted = pace_.of(n);
    auto const used = std::min(wanted, s.saved);
    auto price = wanted - used;
    if (used != 0)
        price += std::max<ticks>(cost(s.saved) - cost(s.saved - used), 0);
    return {std::min(s.free + price, pacing::limit), s.saved - used};
}

template <smooth_curve Curve>
void smooth_rule<Curve>::take_over(state_type& s, smooth_rule const& old, state_type const& before,
                                   time_point now) const noexcept {
    auto const then = old.idle_until(old.pace_.until(now), old.settled(before, now));
    switch (options_.carry_over) {
        case carry_over::as_is:
            s.saved = std::min(pace_.permits_from(old.pace_, then.saved), full_);
            break;
        case carry_over::proportional:
            s.saved = old.full_ == 0 ? 0
                                     : scaled(full_, static_cast<double>(then.saved) /
                                                         static_cast<double>(old.full_));
            break;
        case carry_over::reset:
            s.saved = saved_at_start_;
            break;
    }
    s.free = pace_.instant_from(old.pace_, then.free);
}

template <smooth_curve Curve>
amount smooth_rule<Curve>::remaining(state_type const& before, time_point now) const noexcept {
    auto const t = pace_.until(now);
    auto const s = settled(before, now);
    if (s.free > t)
        return 0;
    // The most that are paid for as they are granted; one more is granted all the same.
    amount least = 0;
    auto const payable = pace_.whole_permits(s.saved + (t - s.free));
    auto most = static_cast<amount>(std::min<ticks>(payable, max_amount - 1));
    while (least != most) {
        auto const middle = most - (most - least) / 2;
        if (after(middle, s).free <= t)
            least = middle;
        else
            most = middle - 1;
    }
    return least + 1;
}

template <smooth_curve Curve>
amount smooth_rule<Curve>::debt(state_type const& before, time_point now) const noexcept {
    auto const t = pace_.until(now);
    auto const free = settled(before, now).free;
    if (free <= t)
        return 0;
    return static_cast<amount>(
        std::min<ticks>(pace_.whole_permits(free - t - 1) + 1, std::numeric_limits<amount>::max()));
}

template <smooth_curve Curve>
bool smooth_rule<Curve>::refund(state_type& before, amount n, ticket t,
                                time_point now) const noexcept {
    auto s = settled(before, now);
    auto const unused = pace_.of(n);
    auto const unsaved = std::min(unused, pace_.of(not_saved(t)));
    auto const back = std::clamp<ticks>(unused - unsaved, 0, full_ - s.saved);
    s.free -= unsaved + std::max<ticks>(cost(s.saved + back) - cost(s.saved), 0);
    s.saved += back;
    before = s;
    return true;
}

}  // namespace weir::policy
