#pragma once

#include <weir/policy/policy.hpp>

#include "scenario.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace explorer {

using weir::ticket;

/// A policy by its definition, with the whole history and no thought for speed.
///
/// seats: at most `limit` permits are out at a time.
/// sliding_log: at most `limit` permits are granted in any half-open window of `time`; those that are
/// cool when the window is changed stay so.
/// sliding_window: the same, but those granted in one of `slices` of the window cool together.
/// fixed_window: at most `limit` in a window; what is taken beyond that is owed by the next.
/// token_bucket, leaky_bucket: a level that sinks by one in each `time`, and never exceeds `limit`.
/// smooth_bursty, smooth_warming_up: a debt that sinks by one in each `time`; while there is none, as
/// many are saved, up to `limit`. Whatever is asked for is granted as soon as nothing is owed.
class ledger {
public:
    ledger(ledger const&) = delete;
    ledger& operator=(ledger const&) = delete;
    virtual ~ledger() = default;

    /// As the policy keeps it.
    [[nodiscard]] static std::unique_ptr<ledger> of(policy which, rule in_force, time_point now);
    /// As it is promised, where that is less than what the policy keeps; otherwise none.
    [[nodiscard]] static std::unique_ptr<ledger> promise_of(policy which, rule in_force);

    [[nodiscard]] rule const& in_force() const noexcept { return rule_; }
    [[nodiscard]] virtual amount capacity() const noexcept { return rule_.limit; }
    [[nodiscard]] virtual bool fits(amount n, time_point now) const { return n <= remaining(now); }
    /// When `n` can be granted if those `ahead` are granted before, one by one, each as soon as it
    /// fits, and nothing else happens; `unknown` if that depends on others.
    [[nodiscard]] time_point earliest(amount n, std::vector<amount> const& ahead,
                                      time_point now) const;

    [[nodiscard]] virtual amount remaining(time_point now) const = 0;
    /// How many are taken, if they come home.
    [[nodiscard]] virtual std::optional<amount> in_use() const { return {}; }

    virtual void took(amount n, ticket t, time_point now) = 0;
    virtual void came_home(amount) {}
    /// As the policies say it: permits of the ticket go first, then perhaps those of others.
    virtual void refunded(amount n, ticket t, time_point now) = 0;
    /// As it is in truth: just these have not been used.
    virtual void unused(std::vector<time_point> const&) {}
    virtual void merged(ticket, ticket, ticket) {}
    virtual void configured(rule next, time_point now) = 0;

    /// The same, to try what would be.
    [[nodiscard]] virtual std::unique_ptr<ledger> copy() const = 0;
    /// When `n` can be granted if nothing else happens.
    [[nodiscard]] virtual time_point alone(amount n, time_point now) const = 0;

protected:
    explicit ledger(rule in_force) : rule_(in_force) {}

    rule rule_;
};

/// Into how many slices the explorer has a sliding_window divided.
inline constexpr int slices_of_a_window = 3;

/// How many times as long a permit of its smooth_warming_up takes when that is cold.
inline constexpr double cold_factor = 3;

}  // namespace explorer
