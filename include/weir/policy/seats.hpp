#pragma once

#include <weir/policy/hold_watch.hpp>
#include <weir/policy/rule.hpp>

#include <algorithm>
#include <optional>

namespace weir::inline v0_2 {

/// The options of `seats`.
struct seats_options {
    /// The number of seats, 1 to `max_amount`; at most 16,777,216 if `max_hold` is set.
    amount seats = 1;

    /// The longest time to hold a permit. `async_wait_overdue` reports a permit that is held longer, once; the holder
    /// keeps it. The timer for this runs only while an operation waits in `async_wait_overdue`.
    duration max_hold = forever;
};

namespace policy {

/// A concurrency limit: at most `seats` permits are in use at a time, and a released permit is free immediately.
///
/// Guarantee: unless `seats` is lowered, never more than `seats` permits are in use. If it is lowered below the permits
/// in use, the limiter revokes nothing, and grants nothing until a request fits.
///
/// The rule does not use `max_hold`, which never changes a decision.
///
/// Memory: 8 bytes of state.
///
/// Source: the seat server of many Erlang and Elixir systems; Dijkstra's general semaphore.
class seats_rule {
public:
    using options_type = seats_options;
    struct state_type {
        amount free;
    };

    explicit seats_rule(options_type const& options);

    [[nodiscard]] state_type begin(time_point) const noexcept { return {options_.seats}; }
    void take_over(state_type& s, seats_rule const& old, state_type const& before,
                   time_point) const noexcept {
        s.free = before.free + (options_.seats - old.options_.seats);
    }
    [[nodiscard]] bool are_alike(state_type const& a, state_type const& b,
                                 time_point) const noexcept {
        return a.free == b.free;
    }

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return options_.seats; }
    [[nodiscard]] bool timed() const noexcept { return false; }
    [[nodiscard]] amount remaining(state_type const& s, time_point) const noexcept {
        return std::max<amount>(s.free, 0);
    }
    [[nodiscard]] amount debt(state_type const& s, time_point) const noexcept {
        return s.free < 0 ? -s.free : 0;
    }
    [[nodiscard]] time_point ready_at(state_type const& s, amount n, amount ahead,
                                      time_point now) const noexcept {
        return s.free >= n && s.free - n >= ahead ? now : unknown;
    }

    ticket take(state_type& s, amount n, time_point) const noexcept {
        s.free -= n;
        return 0;
    }
    bool leave(state_type& s, amount n, ticket) const noexcept {
        s.free += n;
        return true;
    }
    bool refund(state_type& s, amount n, ticket t, time_point) const noexcept {
        return leave(s, n, t);
    }
    ticket merge(state_type&, ticket a, ticket, amount) const noexcept { return a; }

private:
    options_type options_;
};

/// A concurrency limit: `seats_rule`, which with `max_hold` also measures how long permits have been held.
///
/// Memory: constant; with `max_hold`, also a `hold_watch` for as many permits as there are seats.
class seats : public ruled<seats_rule> {
public:
    explicit seats(options_type const& options);

    void take_over(seats& before, time_point now) noexcept {
        ruled::take_over(before, now);
        watch_.take_over(before.watch_);
    }

    [[nodiscard]] bool timed() const noexcept { return options().max_hold != forever; }
    ticket take(amount n, time_point now) noexcept {
        ticket const t = timed() ? watch_.take(n, now) : 0;
        ruled::take(n, now);
        return t;
    }
    bool leave(amount n, ticket t) noexcept {
        if (t != 0)
            watch_.leave(n, t);
        return ruled::leave(n, t);
    }
    bool refund(amount n, ticket t, time_point) noexcept { return leave(n, t); }
    using countable_type = seats;
    [[nodiscard]] amount countable() const noexcept { return timed() ? -1 : state().free; }
    void counted(amount n) noexcept { ruled::take(n, {}); }
    ticket merge(ticket a, ticket b, amount n) noexcept {
        return a == b ? a : watch_.merge(a, b, n);
    }

    [[nodiscard]] time_point next_overdue() const noexcept {
        return timed() ? watch_.next_overdue(options().max_hold) : never;
    }
    [[nodiscard]] std::optional<overdue> pop_overdue(time_point now) noexcept {
        return next_overdue() <= now ? std::optional(watch_.pop_overdue(now)) : std::nullopt;
    }

private:
    hold_watch watch_;
};

}  // namespace policy
}  // namespace weir::inline v0_2
