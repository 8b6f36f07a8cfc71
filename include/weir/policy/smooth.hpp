#pragma once

#include <weir/policy/carry_over.hpp>
#include <weir/policy/pacing.hpp>
#include <weir/policy/rule.hpp>
#include <weir/saved_numbers.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <limits>

namespace weir::inline v0_2::policy {

/// The value of idleness: how many permits are saved while no request comes, and their cost afterwards. Pass your own
/// curve to `smooth`.
///
/// Costs are relative to the steady rate, at which a permit costs 1. A curve below 1 grants faster after idleness; a
/// curve above 1 grants more slowly, as a cold cache needs it.
///
/// - `C::options_type`: has at least the members `weir::rate rate` and `weir::carry_over carry_over`.
/// - `C(options)`: makes the curve, or throws `std::invalid_argument`; the rate must not be 0.
/// - `c.full_after()`: returns the idle time after which nothing more is saved, at least 0.
/// - `c.idle_at_start()`: returns the idle time that a new limiter starts with, at least 0.
/// - `c.saving()`: returns how many permits are saved for each permit that the steady rate would have granted
///   meanwhile, above 0.
/// - `c.cost(saved)`: returns the cost of all of `saved` permits: the integral of the curve from 0. It is 0 at 0, and
///   never decreases.
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

/// A steady rate with memory of idleness and with debt.
///
/// A request of any size is granted as soon as the request before it is paid for; the next request then waits until
/// this one is paid for. Permits saved during idleness are used first, at the price that `Curve` sets; the other
/// permits are paid for at the rate.
///
/// Guarantee: a request for three permits costs exactly as much as three requests for one. A grant is made at the first
/// nanosecond at which the debt is paid, and the next grant counts from the exact time. So callers that always wait get
/// exactly the rate. Requests have no upper bound, so `errc::exceeds_capacity` occurs only above `max_amount`.
///
/// Formula: `free` is the time at which the last debt is paid, `saved` the number of saved permits. A request for n
/// permits at a time t from `free` on first saves (t - free) * rate * saving permits, up to the maximum, and makes t
/// the time that counts. Then s = min(n, saved), and the debt is paid after (cost(saved) - cost(saved - s) + n - s) /
/// rate.
///
/// Options: a new rate does not change past grants: their debt ends at the time computed before. Waiting requests are
/// priced at their grant, at the new rate. `carry_over` decides about saved permits. If the old options could save
/// nothing, nothing is carried over, even in proportion: then `smooth_bursty` has no burst until it has been idle, and
/// `smooth_warming_up` is warm.
///
/// Start: the time begins when the limiter is constructed.
///
/// Refund: an unused permit is paid back; if it was saved before, it is saved again.
///
/// Memory: constant; 32 bytes of state.
///
/// Source: Guava's SmoothRateLimiter, in whole nanoseconds and fractions of them instead of microseconds.
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
    static constexpr auto schedule = weir::schedule::by_sum;

    /// Returns how many requests for one permit would be granted now. A larger request is granted, too, if this is not
    /// 0.
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept;
    /// Returns the number of granted permits that are not paid for yet, rounded up.
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
    void save(state_type const& s, number_writer& to, time_point now) const;
    [[nodiscard]] bool load(state_type& s, number_reader& from, time_point then) const noexcept;

private:
    // The ticket of a grant is the number of its permits that were not saved before.
    [[nodiscard]] static ticket noted(double permits) noexcept {
        return std::bit_cast<ticket>(permits);
    }
    [[nodiscard]] static double not_saved(ticket t) noexcept { return std::bit_cast<double>(t); }

    [[nodiscard]] ticks saved_by(ticks idleness) const noexcept {
        return std::min(scaled(idleness, curve_.saving()), full_);
    }
    // In one place, so that the costs of the parts of a request add up to its cost: with fused multiplication and addition
    // g++ could round the same cost differently where it inlines the function.
    [[nodiscard, gnu::noinline]] ticks cost(ticks saved) const noexcept {
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
    ticks full_;  // the most permits that are saved
    ticks saved_at_start_;
};

/// The policy of a steady rate with the curve `Curve`.
template <smooth_curve Curve>
using smooth = ruled<smooth_rule<Curve>>;

// Returns the state at `now` if no request comes before.
template <smooth_curve Curve>
inline typename smooth_rule<Curve>::state_type smooth_rule<Curve>::settled(
    state_type const& s, time_point now) const noexcept {
    auto const t = pace_.until(now);
    if (t - s.free < pace_.nanosecond())  // from rounding of grants, not from idleness
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

// Charges `n` permits to the state.
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
    // The number of permits that are paid for at their grant; one more is granted as well.
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

// Saves when the last debt is or was paid, and the saved permits. Idleness is not counted yet: in two parts it could be
// rounded differently.
template <smooth_curve Curve>
void smooth_rule<Curve>::save(state_type const& s, number_writer& to, time_point now) const {
    using wide = number_writer::wide;
    auto const ahead = std::max(s.free - pace_.until(now), -pacing::limit);
    to.add(ahead < 0 ? (static_cast<wide>(-ahead) << 1) - 1 : static_cast<wide>(ahead) << 1);
    to.add(static_cast<wide>(s.saved));
}

template <smooth_curve Curve>
bool smooth_rule<Curve>::load(state_type& s, number_reader& from, time_point then) const noexcept {
    auto const ahead = from.next(static_cast<number_reader::wide>(pacing::limit) << 1);
    auto const length = static_cast<ticks>((ahead + 1) >> 1);
    auto const saved = static_cast<ticks>(from.next(static_cast<number_reader::wide>(full_)));
    s = {std::min(pace_.until(then) + (ahead % 2 == 0 ? length : -length), pacing::limit), saved};
    return !from.failed();
}

}  // namespace weir::inline v0_2::policy
