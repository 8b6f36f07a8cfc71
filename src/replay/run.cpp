#include "run.hpp"

#include "find.hpp"

#include <algorithm>
#include <utility>

namespace replay {
namespace {

bool needs_held(std::vector<plan> const& plans) {
    return std::ranges::any_of(plans, [](plan const& p) {
        return std::ranges::any_of(p.limits(), [](planned_limit const& l) {
            return config::has_seats(l.what.rule);
        });
    });
}

// Replays the logs once, through several plans.
report replay_by(options const& o, std::vector<plan> plans, watch const& w) {
    report r;
    log_set logs(o.logs, w);
    auto how = o.how;
    if (logs.has_whole_seconds() && !o.is_spread_chosen && !o.find)
        how.spreads = {spread{spread::kind::even}, spread{spread::kind::at_random},
                       spread{spread::kind::burst}};
    auto const check = [&](bool says_held) {
        if (needs_held(plans) && !how.takes && !says_held)
            throw tool::usage_error("the log has no service times; set --service-time");
    };
    check(logs.says_held());
    simulation sim(how, plans);
    r.read = logs.feed(sim);
    check(sim.requests().held_by_log != 0 || r.read.broken_off);
    r.command = o.command;
    r.requests = sim.requests();
    r.plans = std::move(plans);
    r.outcomes = sim.results();
    r.spreads = how.spreads;
    r.rejected_by_spread = sim.rejected_by_spread();
    r.host = how.host;
    r.takes = how.takes;
    r.retries = how.retries;
    return r;
}

}  // namespace

report run(options const& o, watch const& w) {
    if (!o.find)
        return replay_by(o, o.plans, w);
    report last;
    auto const most = o.find->is_of_bytes() ? o.max_slowed : o.max_rejected;
    auto const found = find(o.plans.front(), *o.find, most, [&](std::vector<plan> const& plans) {
        last = replay_by(o, plans, w);
        if (last.read.broken_off)
            throw broken_off();
        return last.outcomes;
    });
    last.found = report::search{found.number ? o.find->text(*found.number) : o.find_text,
                                found.number.has_value(), o.find->is_of_bytes(), most};
    if (!found.number) {
        last.plans = {last.plans.back()};
        last.rejected_by_spread = {last.rejected_by_spread.back()};
    }
    last.outcomes = found.neighbours;
    return last;
}

}  // namespace replay
