#include "scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <random>
#include <utility>

namespace explorer {
namespace {

using kind = action::kind;

class dice {
public:
    explicit dice(std::uint64_t seed) : random_(seed) {}

    // Uniformly from `low` to `high`.
    template <class T = int>
    T roll(T low, T high) {
        return low + static_cast<T>(random_() % static_cast<std::uint64_t>(high - low + 1));
    }
    bool one_in(int n) { return roll(1, n) == 1; }
    std::uint64_t seed() { return random_(); }

private:
    std::mt19937_64 random_;
};

// The frequency of each kind of action, and the extremes of its values.
struct profile {
    std::vector<std::pair<kind, int>> weights;
    int callers;
    int actions;
    amount max;  // of one request
};

profile make_profile(dice& d, scenario const& s, int max_callers) {
    profile p{{{kind::enter, 10},
               {kind::hold, 4},
               {kind::leave, 4},
               {kind::try_enter, 2},
               {kind::cancel, 3}},
              d.roll(2, 5),
              d.roll(2, 6),
              s.at_first.limit};
    auto const common = d.roll(0, 9);
    if (common >= 5) {
        p.weights.insert(
            p.weights.end(),
            {{kind::charge, 1},
             {kind::settle, 3},
             {kind::split, 1},
             {kind::merge, 1},
             {kind::refund, 2},
             {kind::configure, 2},
             {kind::cancel_all, 1},
             {kind::drain, 1},
             {kind::unlink, 1},
             {kind::look, 1}});
        p.max = s.at_first.limit + 1;
    }
    if (s.at_first.time != weir::forever && s.which == policy::seats)
        p.weights.emplace_back(kind::watch, 3);
    if (common >= 8)
        p.weights.insert(p.weights.end(), {{kind::configure, 4}, {kind::settle, 4}});
    if (d.one_in(32)) {  // many requests
        p.callers = d.roll(6, std::max(6, max_callers));
        p.actions = d.roll(1, 3);
    }
    p.callers = std::min(p.callers, max_callers);
    return p;
}

kind choose(dice& d, profile const& p) {
    int sum = 0;
    for (auto const& [what, weight] : p.weights)
        sum += weight;
    auto left = d.roll(1, sum);
    for (auto const& [what, weight] : p.weights) {
        left -= weight;
        if (left <= 0)
            return what;
    }
    return kind::hold;
}

duration some_patience(dice& d) {
    switch (d.roll(0, 7)) {
        case 0:
            return duration(0);
        case 1:
        case 2:
        case 3:
            return action::unset;
        case 4:
            return duration(d.roll(20, 5000));
        default:
            return duration(d.roll(1, 12));
    }
}

// A policy for the inside of an `any`.
policy some_policy(dice& d) {
    constexpr auto any = std::ranges::find(all_policies, policy::any) - all_policies.begin();
    return all_policies[d.roll<std::size_t>(0, any - 1)];
}

rule some_rule(dice& d, policy which) {
    auto const limit = d.one_in(2) ? 1 : d.roll<amount>(1, 4);
    if (which == policy::seats)
        return {.limit = limit};
    // With these values the floats of the curves are exact, so no rounding can differ.
    if (which == policy::smooth_bursty || which == policy::smooth_warming_up)
        return {.limit = amount{1} << d.roll(0, 2), .time = duration(1 << d.roll(0, 3))};
    if (which == policy::server_quota)
        return {.limit = limit};
    if (which == policy::adaptive_rate) {
        auto const most = amount{1} << d.roll(0, 4);
        duration const second = std::chrono::seconds(1);
        return {.limit = most, .time = std::max(d.roll(1, 12) * second / 4, second / most)};
    }
    if (which == policy::calendar_window)
        return {.limit = limit, .time = d.one_in(2) ? a_day : d.one_in(2) ? a_week : a_month};
    return {.limit = limit, .time = duration(d.roll(1, 12))};
}

action some_action(dice& d, profile const& p, scenario const& s) {
    action a;
    a.what = choose(d, p);
    switch (a.what) {
        case kind::enter:
            a.n = d.one_in(3) ? d.roll<amount>(0, d.one_in(4) ? p.max : s.at_first.limit) : 1;
            a.time = some_patience(d);
            break;
        case kind::try_enter:
        case kind::charge:
            a.n = d.one_in(3) ? d.roll<amount>(0, s.at_first.limit + 1) : 1;
            break;
        case kind::settle:
            a.n = d.roll<amount>(0, 3);
            break;
        case kind::hold:
            a.time = duration(d.roll(0, 12));
            break;
        case kind::cancel:
            a.whom = d.roll(0, p.callers - 1);
            break;
        case kind::configure:
            a.change = some_rule(d, s.which);
            if (s.which == policy::seats || s.which == policy::calendar_window)
                a.change.time = s.at_first.time;
            break;
        default:
            break;
    }
    a.tries_first = d.one_in(4);
    a.lives = d.one_in(2) ? action::abode::home : static_cast<action::abode>(d.roll(0, 2));
    a.posts = d.one_in(3);
    a.drops = d.one_in(6);
    a.throws = d.one_in(16);
    a.allocation = d.one_in(12) ? d.roll(1, 2) : 0;
    return a;
}

// Returns whether the order depends on the standing of a request.
bool groups(scenario const& s) {
    return s.queueing.order == weir::queue_order::priority ||
           s.queueing.order == weir::queue_order::fair ||
           s.queueing.order == weir::queue_order::shares;
}

// Returns what the order uses of a standing.
weir::standing used_by(weir::queue_order order, weir::standing how) {
    if (order == weir::queue_order::priority)
        return {.priority = how.priority};
    return how;
}

std::string to_text(duration t) {
    return t == weir::forever ? "ever" : fmt::format("{} ns", t.count());
}

}  // namespace

std::string_view name_of(policy p) {
    switch (p) {
        case policy::seats:
            return "seats";
        case policy::resting_seats:
            return "resting_seats";
        case policy::sliding_log:
            return "sliding_log";
        case policy::sliding_window:
            return "sliding_window";
        case policy::fixed_window:
            return "fixed_window";
        case policy::token_bucket:
            return "token_bucket";
        case policy::leaky_bucket:
            return "leaky_bucket";
        case policy::smooth_bursty:
            return "smooth_bursty";
        case policy::smooth_warming_up:
            return "smooth_warming_up";
        case policy::any:
            return "any";
        case policy::calendar_window:
            return "calendar_window";
        case policy::server_quota:
            return "server_quota";
        case policy::adaptive_rate:
            return "adaptive_rate";
    }
    return {};
}

scenario make_scenario(policy which, std::uint64_t seed, int max_callers) {
    dice d(seed);
    scenario s;
    s.in_any = which == policy::any;
    s.which = s.in_any ? some_policy(d) : which;
    s.at_first = some_rule(d, s.which);
    if (s.which == policy::seats && d.one_in(4))
        s.at_first.time = duration(d.roll(1, 10));
    if (d.one_in(6))
        s.queueing.max_waiting = d.roll(0, 3);
    if (d.one_in(3))
        s.queueing.full = weir::when_full::evict_oldest;
    s.queueing.tolerance = duration(d.one_in(2) ? 0 : d.roll(1, 9));
    if (d.one_in(4))
        s.queueing.patience = duration(d.roll(0, 20));
    s.executors = d.roll(1, 2);
    s.in_order = !d.one_in(4);
    s.post_failures = d.one_in(4) ? static_cast<unsigned>(d.roll(4, 64)) : 0;
    s.failure_seed = d.seed();

    auto const p = make_profile(d, s, max_callers);
    s.callers.resize(static_cast<std::size_t>(p.callers));
    for (auto& script : s.callers) {
        for (int i = d.roll(1, p.actions); i > 0; --i) {
            script.push_back(some_action(d, p, s));
            if (script.back().what != kind::enter || d.one_in(3))
                continue;
            action stay;
            stay.time = duration(d.roll(1, 8));
            script.push_back(stay);
        }
    }

    // An action that ends everything occurs once, and late.
    for (auto const what : {kind::shut_down, kind::close, kind::abandon, kind::end_context}) {
        if (!d.one_in(8))
            continue;
        auto& script = s.callers[static_cast<std::size_t>(d.roll(0, p.callers - 1))];
        auto const size = static_cast<int>(script.size());
        action a;
        a.what = what;
        script.insert(script.begin() + d.roll(size / 2, size), a);
    }

    if (d.one_in(2)) {
        s.queueing.order = static_cast<weir::queue_order>(d.roll(1, 5));
        s.queueing.target = duration(d.roll(1, 6));
        s.queueing.interval = duration(d.roll(1, 12));
        s.queueing.ageing = duration(d.roll(1, 12));
    }
    if (groups(s)) {
        auto const last = s.queueing.order == weir::queue_order::priority || d.one_in(2) ? 3 : 0;
        for (auto& script : s.callers) {
            for (auto& a : script)
                a.how = used_by(s.queueing.order, {.priority = d.roll(0, last),
                                                   .flow = d.roll<std::uint64_t>(0, 2),
                                                   .weight = d.one_in(2) ? 1 : d.roll(1, 3)});
        }
    }

    return s;
}

scenario with_places(scenario s) {
    dice d(mix(s.failure_seed, 5));
    if (!d.one_in(3))
        return s;
    for (auto& script : s.callers) {
        for (std::size_t i = 0; i < script.size(); ++i) {
            if (script[i].what != kind::enter || d.one_in(2))
                continue;
            script[i].what = kind::reserve;
            auto next = script[i];
            next.what =
                std::array{kind::use, kind::take_up, kind::give_back}.at(d.roll<std::size_t>(0, 2));
            auto const size = static_cast<int>(script.size());
            script.insert(script.begin() + d.roll(static_cast<int>(i) + 1,
                                                  std::min(static_cast<int>(i) + 3, size)),
                          next);
        }
    }
    return s;
}

scenario with_shares(scenario s) {
    dice d(mix(s.failure_seed, 9));
    if (s.which != policy::seats || !d.one_in(4))
        return s;
    constexpr std::array names{"a", "b", "c"};
    s.queueing.order = weir::queue_order::shares;
    int left = 100;
    for (auto const& name : names) {
        auto const percent = d.roll(0, left);
        if (!d.one_in(4))
            s.queueing.partitions.add({name, percent});
        left -= percent;
    }
    if (s.queueing.partitions.empty())
        s.queueing.partitions.add({names[0], left});
    for (auto& script : s.callers) {
        for (auto& a : script)
            a.how = {.flow = weir::partition_flow(names.at(d.roll<std::size_t>(0, 2)))};
    }
    return s;
}

scenario with_ranges(scenario s) {
    dice d(mix(s.failure_seed, 7));
    bool const by_key = s.queueing.order == weir::queue_order::fair ||
                        s.queueing.order == weir::queue_order::shares;
    if (!d.one_in(3) || by_key)  // ranges have no key
        return s;
    for (auto& script : s.callers) {
        for (auto& a : script) {
            bool const asks =
                a.what == kind::enter || a.what == kind::reserve || a.what == kind::try_enter;
            if (asks && a.n != 0 && d.one_in(2))
                a.more = d.roll<amount>(1, 3);
        }
    }
    return s;
}

scenario with_pauses(scenario s) {
    dice d(mix(s.failure_seed, 11));
    if (!d.one_in(3))
        return s;
    for (int pauses = d.roll(1, 4); pauses > 0; --pauses) {
        action a;
        a.what = d.one_in(4) ? kind::resume : kind::pause;
        a.time = d.one_in(16) ? weir::forever : duration(d.roll(0, 16));
        auto& script = s.callers[d.roll<std::size_t>(0, s.callers.size() - 1)];
        script.insert(script.begin() + d.roll(0, static_cast<int>(script.size())), a);
    }
    return s;
}

// Returns the scenario with all times in this unit, which were in nanoseconds. A deadline far beyond the tolerance moves
// through the wheel more often than a newcomer helps: so no tolerance is 0.
static scenario in_units(scenario s, duration unit) {
    auto const grow = [&](duration& t) {
        if (t != action::unset && t != weir::forever)
            t *= unit.count();
    };
    for (auto& script : s.callers) {
        for (auto& a : script)
            grow(a.time);
    }
    auto& q = s.queueing;
    for (auto* const t : {&q.tolerance, &q.target, &q.interval, &q.ageing})
        *t = std::clamp(*t, duration(1), duration(12)) * (unit.count() / 12);
    if (auto length = q.patience.length_or(weir::forever); length != weir::forever) {
        grow(length);
        q.patience = length;
    }
    return s;
}

scenario with_statements(scenario s) {
    if (s.which != policy::server_quota)
        return s;
    dice d(mix(s.failure_seed, 15));
    duration const unit = std::chrono::milliseconds(d.one_in(2) ? 500 : d.roll(100, 2000));
    s = in_units(std::move(s), unit);
    for (int statements = d.roll(0, 8); statements > 0; --statements) {
        action a;
        a.what = kind::state;
        a.n = d.roll<amount>(0, 4);
        a.more = d.roll<amount>(0, 1);
        a.time = d.one_in(12) ? duration(0) : d.roll(1, 12) * unit + duration(d.roll(-1, 1));
        auto& script = s.callers[d.roll<std::size_t>(0, s.callers.size() - 1)];
        script.insert(script.begin() + d.roll(0, static_cast<int>(script.size())), a);
    }
    return s;
}

scenario with_reports(scenario s) {
    if (s.which != policy::adaptive_rate)
        return s;
    dice d(mix(s.failure_seed, 17));
    s = in_units(std::move(s), std::chrono::milliseconds(d.one_in(2) ? 500 : d.roll(50, 1000)));
    bool const is_busy = !d.one_in(3);
    for (auto& script : s.callers) {
        auto const add = [&](kind what, duration time = action::unset, amount newest = 0) {
            action a;
            a.what = what;
            a.time = time;
            a.more = newest;
            if (what == kind::report)
                a.n = d.one_in(2) ? 1 : d.roll<amount>(0, 2);
            script.push_back(a);
        };
        auto const before = std::exchange(script, {});
        for (auto const& a : before) {
            if (a.what == kind::leave && !d.one_in(3))
                add(kind::report);
            script.push_back(a);
            if (!is_busy)
                continue;
            if (d.one_in(2))
                add(kind::enter);
            if (d.one_in(3))
                add(kind::hold, std::chrono::milliseconds(d.roll(0, 2'000)));
            if (!d.one_in(3))
                add(kind::report);
            if (d.one_in(4)) {
                add(kind::enter);
                if (!d.one_in(3))
                    add(kind::report, action::unset, 1);
                add(kind::merge);
            }
            add(kind::leave);
        }
        for (int i = d.roll(0, 3); i > 0; --i) {
            add(kind::report);
            add(kind::leave);
        }
    }
    return s;
}

scenario with_wall_clock(scenario s) {
    if (s.which != policy::calendar_window)
        return s;
    using namespace std::chrono;
    dice d(mix(s.failure_seed, 13));
    bool const in_hours = d.one_in(2);
    duration const unit = in_hours ? duration(hours(1)) : seconds(d.roll(5, 30));
    s = in_units(std::move(s), unit);
    for (int steps = d.one_in(4) ? 0 : d.roll(1, 4); steps > 0; --steps) {
        action a;
        a.what = kind::set_clock;
        auto const length =
            std::array<duration, 4>{unit, hours(1), a_day, a_week}.at(d.roll<std::size_t>(0, 3));
        a.time = (d.one_in(2) ? 1 : -1) * d.roll(1, 12) * length;
        auto& script = s.callers[d.roll<std::size_t>(0, s.callers.size() - 1)];
        script.insert(script.begin() + d.roll(0, static_cast<int>(script.size())), a);
    }
    sys_seconds const midnight =
        sys_days(year(2026) / 3 / 24) + days(d.roll(0, 16)) + hours(d.roll(22, 23));
    s.wall_ahead = midnight.time_since_epoch() - d.roll(0, 24) * unit;
    return s;
}

scenario without_groups(scenario s) {
    if (groups(s))
        s.queueing.order = weir::queue_order::codel;
    return s;
}

scenario with_keys(scenario s, int keys) {
    dice d(mix(s.failure_seed, 3));
    s.keys = keys;
    if (s.which == policy::seats)
        s.at_first.time = weir::forever;
    if (d.one_in(2))  // so that requests wait, although the callers use several keys
        s.at_first.limit = 1;
    auto const busy = d.roll(0, keys - 1);  // most callers use this key, or the next
    for (auto& script : s.callers) {
        for (auto& a : script) {
            a.key = d.one_in(4) ? d.roll(0, keys - 1) : (busy + d.roll(0, 1)) % keys;
            a.of_all = d.one_in(3);
            a.resets = !a.of_all && d.one_in(3);
            a.allocation = 0;
            if (a.what == kind::hold && d.one_in(12))
                a.what = kind::cancel_all;
            if (s.which == policy::seats)
                a.change.time = weir::forever;
            if (a.what == kind::watch)
                a.what = kind::drain;
            if (a.what ==
                kind::pause)  // in one without end no rule is asked, so no state learns its key
                a.time = std::min(a.time, duration(64));
        }
    }
    return s;
}

static std::string key_of(action const& a) {
    switch (a.what) {
        case kind::enter:
        case kind::reserve:
        case kind::try_enter:
        case kind::charge:
            return fmt::format(" for key {}", a.key);
        case kind::cancel_all:
        case kind::configure:
            return a.of_all   ? " for all keys"
                   : a.resets ? fmt::format(" key {} like all others", a.key)
                              : fmt::format(" for key {}", a.key);
        default:
            return "";
    }
}

static std::string without_key(action const& a) {
    std::string failing;
    if (a.allocation != 0)
        failing = fmt::format(", allocation {} fails", a.allocation);
    std::string of_operation;
    if (a.tries_first)
        of_operation += ", tries first";
    if (a.lives != action::abode::home)
        of_operation +=
            a.lives == action::abode::beside ? ", handler beside" : ", handler elsewhere";
    if (a.posts)
        of_operation += ", posts";
    if (a.drops)
        of_operation += ", handler drops it";
    if (a.throws)
        of_operation += ", handler throws";
    of_operation += failing;

    auto const range =
        a.more == 0 ? fmt::format("{}", a.n) : fmt::format("{} to {}", a.n, a.n + a.more);
    switch (a.what) {
        case kind::enter: {
            auto const patience =
                a.time == action::unset ? "" : fmt::format(", patience {}", to_text(a.time));
            return fmt::format("enter({}{}){}", range, patience, of_operation);
        }
        case kind::reserve: {
            auto const patience =
                a.time == action::unset ? "" : fmt::format(", patience {}", to_text(a.time));
            return fmt::format("reserve({}{}){}", range, patience, failing);
        }
        case kind::use:
            return "wait in its reservation" + of_operation;
        case kind::take_up:
            return "take the permit of its reservation";
        case kind::give_back:
            return "release its reservation";
        case kind::try_enter:
            return fmt::format("try_enter({})", range);
        case kind::charge:
            return fmt::format("charge({}){}", a.n, failing);
        case kind::hold:
            return fmt::format("sleep {}", to_text(a.time));
        case kind::leave:
            return "leave";
        case kind::refund:
            return "refund";
        case kind::settle:
            return fmt::format("settle({}){}", a.n, failing);
        case kind::split:
            return "split";
        case kind::merge:
            return "merge";
        case kind::cancel:
            return fmt::format("cancel the wait of caller {}", a.whom);
        case kind::unlink:
            return "release the cancellation";
        case kind::cancel_all:
            return "cancel()";
        case kind::shut_down:
            return "shutdown()";
        case kind::close:
            return "close()";
        case kind::drain:
            return "drain()" + of_operation;
        case kind::watch:
            return "wait_overdue()" + of_operation;
        case kind::configure:
            return fmt::format("configure(limit {}, time {}){}", a.change.limit,
                               to_text(a.change.time), failing);
        case kind::pause:
            return fmt::format("pause for {}", to_text(a.time));
        case kind::resume:
            return "resume";
        case kind::report:
            return fmt::format("report {} for the {} permit",
                               a.n == 1   ? "dropped"
                               : a.n == 2 ? "ignored"
                                          : "success",
                               a.more == 0 ? "oldest" : "newest");
        case kind::state:
            return fmt::format("the server states {} for {}{}{}", a.n, to_text(a.time),
                               a.more == 0 ? "" : ", and counts the oldest permit", failing);
        case kind::set_clock:
            return fmt::format("set the wall clock forward by {}", to_text(a.time));
        case kind::look:
            return "stats(), options()";
        case kind::abandon:
            return "destroy the limiter";
        case kind::end_context:
            return "destroy the context";
    }
    return {};
}

std::string to_string(action const& a, scenario const& s) {
    bool const stands =
        groups(s) &&
        (a.what == kind::enter || a.what == kind::reserve || a.what == kind::try_enter);
    auto const how =
        stands
            ? fmt::format(", class {}, for {}, weight {}", a.how.priority, a.how.flow, a.how.weight)
            : std::string();
    return without_key(a) + how + (s.keys == 1 ? "" : key_of(a));
}

static std::string order_of(weir::queue_options const& o) {
    auto const text = to_string(weir::queue_options{
        .order = o.order,
        .target = o.target,
        .interval = o.interval,
        .ageing = o.ageing,
        .partitions = o.partitions});
    return o.order == weir::queue_order::fifo ? "order fifo" : text;
}

std::string to_string(scenario const& s) {
    auto out = fmt::format(
        "{}{}, limit {}, time {}; queue: limit {}, {}, {}, tolerance {}, patience {};\n"
        "{} thread(s) run the context, {}; {} of 256 posts throw{}\n",
        s.in_any ? "any of " : "", name_of(s.which), s.at_first.limit, to_text(s.at_first.time),
        s.queueing.max_waiting,
        s.queueing.full == weir::when_full::evict_oldest ? "evicts the oldest"
                                                         : "rejects the newest",
        order_of(s.queueing), to_text(s.queueing.tolerance),
        to_text(s.queueing.patience.length_or(weir::forever)), s.executors,
        s.in_order ? "in order" : "in any order", s.post_failures,
        s.wall_ahead == duration(0)
            ? ""
            : fmt::format("; the wall clock is {} ahead", to_text(s.wall_ahead)));
    for (std::size_t i = 0; i < s.callers.size(); ++i) {
        std::string line;
        for (auto const& a : s.callers[i])
            line += (line.empty() ? "" : "; ") + to_string(a, s);
        if (!line.empty())
            fmt::format_to(std::back_inserter(out), "  caller {}: {}\n", i, line);
    }
    return out;
}

}  // namespace explorer
