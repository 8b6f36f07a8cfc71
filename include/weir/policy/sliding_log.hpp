#pragma once

#include <weir/policy/cooling_log.hpp>
#include <weir/policy/policy.hpp>

namespace weir {

struct sliding_log_options {
    /// How many permits any window may see, 1 to 67,108,864.
    amount limit = 1;

    /// The length of the window, at least a nanosecond.
    duration window = std::chrono::seconds(1);
};

namespace policy {

/// The exact rate limit: every grant is remembered until it has cooled for `window`.
///
/// Guarantee: at most `limit` permits are granted in any half-open window of that length, wherever
/// it starts; a permit granted at `g` is free again at `g + window` sharp. It cools from the grant,
/// not from when it is used or comes home. Permits that were merged, or settled upwards, are given back
/// as long as the oldest of them has not cooled.
/// Formula: permit number u may be granted once number u - limit has been cooling for `window`.
/// Memory: 16 bytes for each grant that still cools, `limit` of them at most, set aside at once.
/// Source: the sliding-window log; here it descends from an Erlang server that hands out tokens and
/// lets each cool before it goes back into the bag.
class sliding_log {
public:
    using options_type = sliding_log_options;

    explicit sliding_log(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    void take_over(sliding_log& before, time_point now) { log_.take_over(before.log_, now); }
    void begin(time_point) noexcept {}

    [[nodiscard]] amount capacity() const noexcept { return options_.limit; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] amount remaining(time_point now) const noexcept { return log_.remaining(now); }
    /// With unequal requests ahead this may be too early: it counts permits, and does not know which
    /// of them must go together.
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        return log_.ready_at(n, ahead, now);
    }

    ticket take(amount n, time_point now) { return log_.take(n, now); }
    bool leave(amount, ticket) noexcept { return false; }
    bool refund(amount n, ticket t, time_point now) noexcept { return log_.refund(n, t, now); }
    ticket merge(ticket a, ticket b, amount) noexcept { return a < b ? a : b; }

private:
    options_type options_;
    cooling_log log_;
};

}  // namespace policy
}  // namespace weir
