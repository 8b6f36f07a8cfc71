#pragma once

#include "scenario.hpp"

#include <vector>

namespace explorer {

/// A policy by its definition, with the whole history and no thought for speed.
///
/// seats: at most `limit` permits are out at a time.
/// sliding_log: at most `limit` permits are granted in any half-open window of `time`; those that are
/// cool when the window is changed stay so.
class ledger {
public:
    ledger(policy which, rule in_force) : policy_(which), rule_(in_force) {}

    [[nodiscard]] rule const& in_force() const noexcept { return rule_; }
    [[nodiscard]] amount capacity() const noexcept { return rule_.limit; }
    [[nodiscard]] amount remaining(time_point now) const;
    [[nodiscard]] bool fits(amount n, time_point now) const { return n <= remaining(now); }
    /// When `n` can be granted if those `ahead` are granted before, one by one, each as soon as it
    /// fits, and nothing else happens; `unknown` if that depends on others.
    [[nodiscard]] time_point earliest(amount n, std::vector<amount> const& ahead,
                                      time_point now) const;
    /// Of seats: how many are taken.
    [[nodiscard]] amount in_use() const noexcept { return in_use_; }

    void took(amount n, time_point now);
    void came_home(amount n);
    /// As the policies say it: of a sliding log, permits granted at the ticket's time go first, then
    /// later ones, perhaps those of others.
    void refunded(amount n, time_point granted, time_point now);
    /// As it is in truth: just these have not been used.
    void unused(std::vector<time_point> const& grants);
    void configured(rule next, time_point now);

private:
    [[nodiscard]] bool cool(time_point granted, time_point now) const {
        return weir::later(granted, rule_.time) <= now;
    }

    policy policy_;
    rule rule_;
    amount in_use_ = 0;
    std::vector<time_point> grants_;             // one for each permit, in order
    time_point cool_until_ = time_point::min();  // the last that was cool at a change of options
};

}  // namespace explorer
