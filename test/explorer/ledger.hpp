#pragma once

#include <weir/outcome.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/server_quota.hpp>

#include "scenario.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace explorer {

using weir::ticket;
using statement = weir::server_quota_options::statement;

/// A policy by its definition, with the whole history and without regard for speed.
///
/// seats: at most `limit` permits are in use at a time. resting_seats: the permits in use, and those released less than
/// `time` ago, are at most `limit`; `time` is the one in force, unless the rest was over at a change. sliding_log: at
/// most `limit` permits are granted in any half-open window of `time`; permits that have expired when the window
/// changes stay expired. sliding_window: like sliding_log, but the permits of one of `slices` of the window expire
/// together. fixed_window: at most `limit` in a window; permits beyond that are a debt of the next one. token_bucket,
/// leaky_bucket: a level that sinks by one in each `time`, and never exceeds `limit`. smooth_bursty, smooth_warming_up:
/// a debt that sinks by one in each `time`; while there is none, permits are saved at the same rate, up to `limit`. Any
/// request is granted as soon as there is no debt. calendar_window: at most `limit` in a day, week or month of the wall
/// clock, as the policy reads it. server_quota: see quota_ledger.hpp. adaptive_rate: see
/// adaptive_ledger.hpp.
class ledger {
public:
    ledger(ledger const&) = delete;
    ledger& operator=(ledger const&) = delete;
    virtual ~ledger() = default;

    /// As the policy implements it.
    [[nodiscard]] static std::unique_ptr<ledger> of(policy which, rule in_force, time_point now);
    /// As it is promised, if that is less than the policy implements; otherwise none.
    [[nodiscard]] static std::unique_ptr<ledger> promise_of(policy which, rule in_force);

    [[nodiscard]] rule const& in_force() const noexcept { return rule_; }
    [[nodiscard]] virtual amount capacity() const noexcept { return rule_.limit; }
    [[nodiscard]] virtual bool fits(amount n, time_point now) const { return n <= remaining(now); }
    /// Returns when `n` can be granted if the requests `ahead` are granted before, one by one, each as soon as it
    /// fits, and no other event occurs; `unknown` if that depends on other requests.
    [[nodiscard]] time_point earliest(amount n, std::vector<amount> const& ahead,
                                      time_point now) const;
    /// Returns a time before which `n` cannot be granted if these requests are granted before: also if that depends on
    /// other requests.
    [[nodiscard]] time_point no_earlier(amount n, std::vector<amount> const& ahead,
                                        time_point now) const;

    [[nodiscard]] virtual amount remaining(time_point now) const = 0;
    /// The number of permits in use, if they are released.
    [[nodiscard]] virtual std::optional<amount> in_use() const { return {}; }

    virtual void took(amount n, ticket t, time_point now) = 0;
    virtual void came_home(amount, ticket, time_point) {}
    /// A refund as the policies define it: permits of the ticket are returned first, then perhaps other permits.
    virtual void refunded(amount n, ticket t, time_point now) = 0;
    /// The facts of a refund: exactly these permits were not used.
    virtual void unused(std::vector<time_point> const&) {}
    /// Ticket `both` stands for all permits of `a` and for `n` of `b`.
    virtual void merged(ticket, ticket, ticket, amount) {}
    virtual void configured(rule next, time_point now) = 0;
    /// The policy reads the wall clock.
    virtual void read_clock(time_point) {}
    /// A server states its quota.
    virtual void stated(statement const&, time_point) {}
    /// The outcome of permits of a ticket is reported; `after` stands for them from then on.
    virtual void reported(ticket, [[maybe_unused]] ticket after, weir::outcome) {}
    /// The policy has this rate now, or none yet.
    virtual void follows([[maybe_unused]] bool has_rate, [[maybe_unused]] double per_second,
                         time_point) {}

    /// Returns a copy, to try possible events.
    [[nodiscard]] virtual std::unique_ptr<ledger> copy() const = 0;
    /// Returns when `n` can be granted if no other event occurs.
    [[nodiscard]] virtual time_point alone(amount n, time_point now) const = 0;

protected:
    explicit ledger(rule in_force) : rule_(in_force) {}

    rule rule_;

private:
    [[nodiscard]] std::optional<time_point> foresee(amount n, std::vector<amount> ahead,
                                                    time_point& now) const;
};

/// The number of slices of a sliding_window in the explorer.
inline constexpr int slices_of_a_window = 3;

/// The cold factor of smooth_warming_up in the explorer: how many times longer a permit takes when it is cold.
inline constexpr double cold_factor = 3;

}  // namespace explorer
