#pragma once

#include <weir/policy/policy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

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
/// Memory: constant; with `max_hold`, 32 bytes for each seat, set aside at once.
/// Source: the seat server of many an Erlang and Elixir system; Dijkstra's general semaphore.
class seats {
public:
    using options_type = seats_options;

    explicit seats(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    void configure(options_type const& options, time_point now);

    [[nodiscard]] amount capacity() const noexcept { return options_.seats; }
    [[nodiscard]] bool timed() const noexcept { return options_.max_hold != forever; }
    [[nodiscard]] amount remaining(time_point) const noexcept { return std::max<amount>(free_, 0); }
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        return n <= free_ - ahead ? now : unknown;
    }

    ticket take(amount n, time_point now) {
        ticket const t = timed() ? watch(n, now) : 0;
        free_ -= n;
        return t;
    }
    bool leave(amount n, ticket t, time_point) noexcept {
        if (t != 0)
            unwatch(n, t);
        free_ += n;
        return true;
    }
    bool refund(amount n, ticket t, time_point now) noexcept { return leave(n, t, now); }
    ticket merge(ticket a, ticket b, amount n) noexcept {
        return a == b ? a : merge_watched(a, b, n);
    }

    [[nodiscard]] time_point next_overdue() const noexcept;
    [[nodiscard]] std::optional<overdue> pop_overdue(time_point now) noexcept;

private:
    // A permit that is watched. The places form a table: those in use are a ring in the order of
    // their grants, the others a chain. No permit is for less than one seat, so `seats` places are
    // enough, and taking one allocates nothing. Place 0 anchors the ring, so that ticket 0 can mean
    // "not watched".
    struct place {
        amount held = 0;
        time_point since{};
        std::uint32_t turn = 0;  // tells apart the permits that have used this place
        std::uint32_t next = 0;
        std::uint32_t previous = 0;
    };

    [[nodiscard]] ticket watch(amount n, time_point now);
    void unwatch(amount n, ticket t) noexcept;
    void grow_to(std::size_t places);
    [[nodiscard]] ticket merge_watched(ticket a, ticket b, amount n) noexcept;

    options_type options_;
    amount free_;
    std::vector<place> places_;
    std::uint32_t unused_ = 0;      // the first of the chain, 0 if there is none
    std::uint32_t unreported_ = 0;  // the first in the ring that has not been reported, or 0
};

}  // namespace policy
}  // namespace weir
