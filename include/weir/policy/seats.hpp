#pragma once

#include <weir/policy/hold_watch.hpp>
#include <weir/policy/policy.hpp>

#include <algorithm>
#include <optional>

namespace weir {

struct seats_options {
    /// How many seats there are, 1 to `max_amount`; at most 16,777,216 where `max_hold` is set.
    amount seats = 1;

    /// For how long one permit should be held at most. One that is held for longer is reported,
    /// once, to the limiter's `on_overdue` and in its statistics; nobody is evicted.
    duration max_hold = forever;
};

namespace policy {

/// Concurrency: at most `seats` permits are out at a time; one that comes home makes room at once.
///
/// Guarantee: while `seats` is not lowered, never more than `seats` are taken. When it is lowered
/// below what is in use nothing is revoked, and nothing is granted until it fits.
/// Memory: constant; with `max_hold`, that of `hold_watch` for so many permits as there are seats.
/// Source: the seat server of many an Erlang and Elixir system; Dijkstra's general semaphore.
class seats {
public:
    using options_type = seats_options;

    explicit seats(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    void begin(time_point) noexcept {}
    void take_over(seats& before, time_point now) noexcept;

    [[nodiscard]] amount capacity() const noexcept { return options_.seats; }
    [[nodiscard]] bool timed() const noexcept { return options_.max_hold != forever; }
    [[nodiscard]] amount remaining(time_point) const noexcept { return std::max<amount>(free_, 0); }
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        return free_ >= n && free_ - n >= ahead ? now : unknown;
    }

    ticket take(amount n, time_point now) {
        ticket const t = timed() ? watch_.take(n, now) : 0;
        free_ -= n;
        return t;
    }
    bool leave(amount n, ticket t) noexcept {
        if (t != 0)
            watch_.leave(n, t);
        free_ += n;
        return true;
    }
    bool refund(amount n, ticket t, time_point) noexcept { return leave(n, t); }
    ticket merge(ticket a, ticket b, amount n) noexcept {
        return a == b ? a : watch_.merge(a, b, n);
    }

    [[nodiscard]] time_point next_overdue() const noexcept {
        return timed() ? watch_.next_overdue(options_.max_hold) : never;
    }
    [[nodiscard]] std::optional<overdue> pop_overdue(time_point now) noexcept {
        return next_overdue() <= now ? std::optional(watch_.pop_overdue(now)) : std::nullopt;
    }

private:
    options_type options_;
    amount free_;
    hold_watch watch_;
};

}  // namespace policy
}  // namespace weir
