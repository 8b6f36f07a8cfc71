#pragma once

#include <weir/detail/any_queue.hpp>
#include <weir/policy/adaptive_rate.hpp>
#include <weir/policy/any.hpp>
#include <weir/policy/calendar_window.hpp>
#include <weir/policy/fixed_window.hpp>
#include <weir/policy/leaky_bucket.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/resting_seats.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/server_quota.hpp>
#include <weir/policy/sliding_log.hpp>
#include <weir/policy/sliding_window.hpp>
#include <weir/policy/smooth_bursty.hpp>
#include <weir/policy/smooth_warming_up.hpp>
#include <weir/policy/token_bucket.hpp>

#include "operation.hpp"
#include "simulation.hpp"
#include "wall.hpp"

#include <cmath>
#include <optional>
#include <variant>

namespace explorer {

inline rule rule_of(weir::seats_options const& o) {
    return {.limit = o.seats, .time = o.max_hold};
}

inline rule rule_of(weir::sliding_log_options const& o) {
    return {.limit = o.limit, .time = o.window};
}

inline rule rule_of(weir::sliding_window_options const& o) {
    return {.limit = o.limit, .time = o.window};
}

inline rule rule_of(weir::fixed_window_options const& o) {
    return {.limit = o.limit, .time = o.window};
}

inline rule rule_of(weir::token_bucket_options const& o) {
    return {.limit = o.burst.value_or(1), .time = o.rate.period()};
}

inline rule rule_of(weir::leaky_bucket_options const& o) {
    return {.limit = o.capacity, .time = o.rate.period()};
}

inline rule rule_of(weir::smooth_bursty_options const& o) {
    return {.limit = o.max_burst / o.rate.period(), .time = o.rate.period()};
}

inline rule rule_of(weir::smooth_warming_up_options const& o) {
    return {.limit = o.warm_up / o.rate.period(), .time = o.rate.period()};
}

inline rule rule_of(weir::calendar_window_options const& o) {
    return {.limit = o.limit,
            .time = o.unit == weir::calendar_unit::day    ? a_day
                    : o.unit == weir::calendar_unit::week ? a_week
                                                          : a_month};
}

inline rule rule_of(weir::server_quota_options const& o) {
    return {.limit = o.probes};
}

inline rule rule_of(weir::adaptive_rate_options const& o) {
    return {.limit = std::llround(o.most), .time = duration(std::llround(1e9 / o.least))};
}

inline rule rule_of(weir::resting_seats_options const& o) {
    return {.limit = o.seats, .time = o.rest};
}

// They do not change the number of seats: no scenario uses them.
inline rule rule_of(weir::adaptive_options const& o) {
    return {.limit = std::visit([](auto const& each) { return each.max; }, o), .time = {}};
}

inline rule rule_of(weir::limiter_config const& o);
inline rule rule_of(weir::all_options const& o) {
    return rule_of(o.parts.front());
}
inline rule rule_of(weir::limiter_config const& o) {
    return std::visit([](auto const& chosen) { return rule_of(chosen); }, o.options);
}

inline void follow(rule const& r, weir::seats_options& o) {
    o = {.seats = r.limit, .max_hold = r.time};
}

inline void follow(rule const& r, weir::sliding_log_options& o) {
    o = {.limit = r.limit, .window = r.time};
}

inline void follow(rule const& r, weir::sliding_window_options& o) {
    o = {.limit = r.limit, .window = r.time, .slices = slices_of_a_window};
}

inline void follow(rule const& r, weir::fixed_window_options& o) {
    o = {.limit = r.limit, .window = r.time};
}

inline void follow(rule const& r, weir::calendar_window_options& o) {
    o = {.limit = r.limit,
         .unit = r.time == a_day    ? weir::calendar_unit::day
                 : r.time == a_week ? weir::calendar_unit::week
                                    : weir::calendar_unit::month,
         .zone = wall::zone(),
         .clock = wall::read};
}

inline void follow(rule const& r, weir::server_quota_options& o) {
    o.probes = r.limit;
}

inline void follow(rule const& r, weir::adaptive_rate_options& o) {
    o.least = 1e9 / static_cast<double>(r.time.count());
    o.most = static_cast<double>(r.limit);
}

inline void follow(rule const& r, weir::resting_seats_options& o) {
    o = {.seats = r.limit, .rest = r.time};
}

inline void follow(rule const& r, weir::token_bucket_options& o) {
    o = {.rate = {1, r.time}, .burst = r.limit};
}

inline void follow(rule const& r, weir::leaky_bucket_options& o) {
    o = {.rate = {1, r.time}, .capacity = r.limit};
}

inline void follow(rule const& r, weir::smooth_bursty_options& o) {
    o = {.rate = {1, r.time}, .max_burst = r.limit * r.time};
}

inline void follow(rule const& r, weir::smooth_warming_up_options& o) {
    o = {.rate = {1, r.time}, .warm_up = r.limit * r.time, .cold_factor = cold_factor};
}

inline void follow(rule const& r, weir::adaptive_options& o) {
    std::visit([&](auto& each) { each.max = r.limit; }, o);
}

inline void follow(rule const& r, weir::penalty_options& o) {
    o = {.offences = r.limit, .window = r.time};
}

inline void follow(rule const& r, weir::limiter_config& o);
inline void follow(rule const& r, weir::all_options& o) {
    for (auto& part : o.parts)
        follow(r, part);
}
inline void follow(rule const& r, weir::limiter_config& o) {
    std::visit([&](auto& chosen) { follow(r, chosen); }, o.options);
}

/// A policy that forwards its events to the oracle.
template <class Policy>
class overheard : public Policy {
public:
    using options_type = typename Policy::options_type;
    using countable_type = overheard;  // the oracle receives counted permits from the lock
    using Policy::Policy;

    void take_over(overheard& before, time_point now) {
        auto const said = stated();
        Policy::take_over(before, now);
        simulation::unfailing const ours;
        auto const next = rule_of(this->options());
        world().say("  now: limit {}", next.limit);
        world().judge.configured(world().calling(), next, checked(now));
        if (said && world().calling().what != call::kind::state)
            violated(invariant::verdict, "a statement is taken into account again");
        if (said)
            world().judge.stated(*said, now);
        tell_rate(now);
    }
    ticket take(amount n, time_point now) {
        // Without memory a log keeps a grant for longer. The oracle does not know that.
        auto const t =
            this->ready_at(n, 0, now) <= now ? unfailing_take(n, now) : Policy::take(n, now);
        simulation::unfailing const ours;
        world().say("  takes {}", n);
        world().judge.took(world().calling(), n, t, checked(now));
        return t;
    }
    bool leave(amount n, ticket t, time_point now) noexcept {
        world().say("  releases {}", n);
        {
            simulation::unfailing const ours;
            world().judge.came_home(world().calling(), n, t, world().threads.now());
        }
        bool const may_free = weir::leave<Policy>(*this, n, t, now);
        simulation::unfailing const ours;
        tell_rate(now);
        return may_free;
    }
    ticket report(ticket t, weir::outcome o) noexcept
        requires weir::uses_reports<Policy>
    {
        auto const after = Policy::report(t, o);
        simulation::unfailing const ours;
        world().judge.reported(t, after, o);
        return after;
    }
    [[nodiscard]] bool times_leave() const noexcept { return weir::times_leave<Policy>(*this); }
    bool refund(amount n, ticket t, time_point now) noexcept {
        {
            simulation::unfailing const ours;
            world().say("  refunds {}", n);
            world().judge.refunded(world().calling(), n, t, checked(now));
        }
        return Policy::refund(n, t, now);
    }
    ticket merge(ticket a, ticket b, amount n) noexcept {
        auto const both = Policy::merge(a, b, n);
        simulation::unfailing const ours;
        world().judge.merged(a, b, both, n);
        return both;
    }

private:
    void tell_rate(time_point now) const {
        if constexpr (requires { this->per_second(); })
            world().judge.follows(this->has_rate(), this->per_second(), now);
    }
    // The statement in new options, which the policy takes out.
    [[nodiscard]] std::optional<statement> stated() const {
        if constexpr (requires(options_type const& o) { o.stated; })
            return this->options().stated;
        else
            return {};
    }
    static simulation& world() { return simulation::current(); }

    ticket unfailing_take(amount n, time_point now) {
        simulation::unfailing const allocations;
        return Policy::take(n, now);
    }
    time_point checked(time_point now) const {
        if (this->timed() && now != world().threads.now())
            violated(invariant::verdict, "the policy receives a wrong time");
        return world().threads.now();
    }
};

/// A queue that forwards its events to the oracle that `judge` returns.
template <auto judge>
class overheard_queue : public weir::detail::any_queue {
    using op = weir::detail::operation;
    using entry = weir::detail::chain_entry;

public:
    using any_queue::any_queue;

    void push(op& one) noexcept {
        any_queue::push(one);
        simulation::unfailing const ours;
        judge().joined(asked(one));
    }
    void erase(op& one) noexcept {
        {
            simulation::unfailing const ours;
            judge().left(asked(one), simulation::current().calling());
        }
        any_queue::erase(one);
    }
    void grant(op& one, amount n, time_point now) noexcept {
        {
            simulation::unfailing const ours;
            judge().served(asked(one), simulation::current().calling());
        }
        any_queue::grant(one, n, now);
    }
    void push_chain(entry& e) noexcept {
        any_queue::push_chain(e);
        simulation::unfailing const ours;
        judge().chain_joined(asked(*e.op), e.index);
    }
    void erase_chain(entry& e) noexcept {
        {
            simulation::unfailing const ours;
            judge().chain_left(asked(*e.op), e.index);
        }
        any_queue::erase_chain(e);
    }
    void grant_chain(entry& e, time_point now) noexcept {
        if (!e.in_queue) {  // it joins for its grant alone
            simulation::unfailing const ours;
            judge().chain_granted_elsewhere(asked(*e.op), e.index);
        }
        any_queue::grant_chain(e, now);
    }

private:
    static request& asked(op& one) { return dynamic_cast<mortal&>(one).asked(); }
};

}  // namespace explorer
