#include "chain_oracle.hpp"

#include "joint_ledger.hpp"

#include <boost/asio/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace explorer {
namespace {

using weir::errc;
using stats = weir::limiter_stats;

auto const aborted = error_code(boost::asio::error::operation_aborted);

chain_oracle* the_oracle = nullptr;

}  // namespace

chain_oracle::chain_oracle(simulation& world, of_each_limiter<limiter_kind> const& limiters)
    : world_(world), queueing_(world.what.queueing), sections_(world.threads), cases_(limiters_) {
    the_oracle = this;
    auto const now = world.threads.now();
    for (auto const& l : limiters) {
        auto book = l.with_a_log ? ledger_of_seats_and_log(l.in_force, now)
                                 : ledger::of(l.which, l.in_force, now);
        auto& one = limiters_.emplace_back(chained_limiter{
            .which = l.which,
            .core = l.core,
            .book = std::move(book),
            .line = order_book(queueing_)});
        one.line.has_seats(one.book->capacity());
        number_of_cores_ = std::max(number_of_cores_, l.core + 1);
    }
}

chain_oracle::~chain_oracle() {
    the_oracle = nullptr;
}

chain_oracle& chain_oracle::current() noexcept {
    return *the_oracle;
}

int chain_oracle::limiter_of(int core) const {
    auto const it = std::ranges::find(limiters_, core, &chained_limiter::core);
    return static_cast<int>(it - limiters_.begin());
}

// Calls.

visit& chain_oracle::asks(int caller, visit::way by, action const& a, std::vector<int> named,
                          of_each_limiter<amount> const& asks_of) {
    visits_.push_back(std::make_unique<visit>());
    auto& v = *visits_.back();
    v.caller = caller;
    v.asked_by = by;
    v.n = a.n;
    if (by != visit::way::charges)  // a charge names no range and no patience
        v.how = a.how;
    if (a.time != action::unset)
        v.patience = a.time;
    v.named = std::move(named);
    v.asks_of = asks_of;
    return v;
}

request& chain_oracle::asks_to_drain(int caller) {
    drains_.push_back(std::make_unique<request>());
    auto& r = *drains_.back();
    r.caller = caller;
    r.wants = request::wish::idleness;
    return r;
}

void chain_oracle::told(visit& v, error_code ec) {
    if (v.told || v.thrown)
        violated(invariant::completion, name(v) + " is completed twice");
    v.told = true;
    v.op = nullptr;
    v.error = ec;
    for (auto const i : v.named) {
        if (auto const t = v.tickets[static_cast<std::size_t>(i)])
            owners_[t] = {&v, i};
    }
    if (ec) {
        count_rejection(told_, ec, {});
    } else {
        ++told_.granted;
        told_.granted_immediately += v.waits ? 0 : 1;
    }
}

void chain_oracle::throws(request& r) {
    r.op = nullptr;
    r.doomed = true;
    if (r.wants == request::wish::permits)
        static_cast<visit&>(r).thrown = true;
    else
        r.is = request::state::over;
}

void chain_oracle::told(request& drain, error_code ec) {
    if (drain.is == request::state::over)
        violated(invariant::completion, "a drain is completed twice");
    drain.op = nullptr;
    drain.error = ec;
    drain.is = request::state::over;
}

// Critical sections.

void chain_oracle::section_begins(call& c, int core) {
    request* cancels = nullptr;
    if (c.what == call::kind::cancel && c.link->target) {
        for (auto const& v : visits_) {
            if (v->op == c.link->target)
                cancels = v.get();
        }
        for (auto const& r : drains_) {
            if (r->op == c.link->target)
                cancels = r.get();
        }
        if (!cancels)
            violated(invariant::verdict, "a cancellation finds a request that is over");
    }
    sections_.begins(core, cancels);
}

void chain_oracle::section_ends(call& c, int core, stats const& of_core,
                                of_each_limiter<stats> const& of_limiter) {
    auto& s = sections_.ends(c, core);
    s.of_core[static_cast<std::size_t>(core)] = of_core;
    for (std::size_t i = 0; i != limiters_.size(); ++i) {
        if (limiters_[i].core == core)
            s.of_limiter[i] = of_limiter[i];
    }
}

// Questions about one case.

bool chain_oracle::names_one_of(visit const& v, int core) const {
    return (locks_of(v, limiters_) & (1U << static_cast<unsigned>(core))) != 0;
}

// The answer for a newcomer, before a request was dropped for it.
bool chain_oracle::has_let(possibility const& c, visit const& v, int limiter,
                           time_point now) const {
    return made_way_ != limiter && cases_.lets(c, v, limiter, now);
}

// Returns whether the reason of its rejection holds now.
bool chain_oracle::may_leave(visit const& v, time_point now) const {
    if (!v.told)
        return false;
    if (!v.error)
        return v.doomed && v.tickets == of_each_limiter<ticket>() &&
               cores_[static_cast<std::size_t>(v.core)].dead;
    if (v.error == aborted)
        return v.cancelled || v.marked;
    if (v.error == errc::closed)
        return std::ranges::any_of(v.named, [&](int i) {
            return limiters_[static_cast<std::size_t>(i)].door == doors::shut &&
                   (!v.rejected_by || *v.rejected_by == i);
        });
    if (v.error == errc::timed_out)
        return v.deadline < now;
    if (v.error == errc::exceeds_capacity) {
        auto const at = static_cast<std::size_t>(*v.rejected_by);
        return v.asks_of[at] > limiters_[at].book->capacity();
    }
    if (v.error == errc::deadline_unreachable) {
        auto const at = static_cast<std::size_t>(*v.rejected_by);
        std::vector<amount> ahead;
        for (auto const* const other : waiting_) {
            if (!v.is_chain && other->in_queue && other->number < v.number &&
                other->asks_of[at] != 0)
                ahead.push_back(other->asks_of[at]);
        }
        auto const too_late = [&](std::vector<amount> const& others) {
            auto const turn = limiters_[at].book->earliest(v.asks_of[at], others, now);
            return turn != weir::unknown && turn > v.deadline;
        };
        return too_late({}) || too_late(ahead);
    }
    return false;
}

// A waiting chain is dropped neither for a newcomer by when_full::evict_oldest, nor by queue_order::codel.
bool chain_oracle::may_be_shed(section const& s, visit const& v) const {
    auto const limiter = v.named.front();
    auto const& line = of(limiter).line;
    if (line.may_drop(v.since, s.now))
        return true;
    if (queueing_.full != weir::when_full::evict_oldest || !s.is_first || !s.who ||
        s.who->wants != request::wish::permits || s.who == &v)
        return false;
    auto const& newcomer = static_cast<visit const&>(*s.who);
    return newcomer.names(limiter) &&
           line.may_make_way(v.number, newcomer.number, newcomer.asked_of(limiter));
}

bool chain_oracle::has_place(possibility const& c, visit const& v, int limiter) const {
    return chain_cases::size(c, limiter) < static_cast<std::uint64_t>(queueing_.max_waiting) ||
           made_way_ == limiter ||
           (queueing_.full == weir::when_full::evict_oldest &&
            of(limiter).line.somebody_makes_way(v.asked_of(limiter)));
}

chain_oracle::owner chain_oracle::owner_of(section::step const& taken) const {
    if (taken.what != section::step::kind::take)
        return {};
    if (taken.taken == 0)
        return {taken.who, taken.limiter};
    auto const it = owners_.find(taken.taken);
    return it == owners_.end() ? owner() : it->second;
}

// Replays.

void chain_oracle::settle(section const& s) {
    cases_.settle(s.cores, s.now, [&](visit const& v) { return may_leave(v, s.now); });
}

void chain_oracle::replay(section const& s) {
    note_call(s);
    made_way_.reset();
    visit const* served = nullptr;  // and takes next
    visit* gone = nullptr;          // before it has waited
    for (std::size_t k = 0; k < s.steps.size(); ++k) {
        using enum chain_section::step::kind;
        auto const& one = s.steps[k];
        if (!served) {
            settle(s);
            note_who_is_idle();
        }
        switch (one.what) {
            case configure: {
                auto& l = of(one.limiter);
                l.book->configured(one.next, one.now);
                l.line.has_seats(l.book->capacity());
                break;
            }
            case join:
                joins(*one.who, s.now);
                break;
            case serve:
                is_served(*one.who, s.now);
                served = one.who;
                break;
            case chain_joins:
                comes_to(*one.who, one.limiter, s.now);
                break;
            case chain_leaves:
                of(one.limiter).line.left(one.who->number);
                break;
            case leave:
                if (one.who->is == request::state::entering && one.who != served)
                    gone = one.who;
                else if (one.who != served)
                    leaves(s, *one.who);
                break;
            case take: {
                auto const* const who = owner_of(one).who;
                if (!who)
                    violated(invariant::conserved, "permits are taken without a request");
                auto const& v = *who;
                if (served && served != &v)
                    violated(invariant::conserved,
                             fmt::format("permits are taken for {}, and not for {}", name(v),
                                         name(*served)));
                served = nullptr;
                grant(s, k);
                k += static_cast<std::size_t>(
                         std::ranges::count_if(v.asks_of, [](amount n) { return n != 0; })) -
                     1;
                break;
            }
        }
    }
    settle(s);
    note_who_is_idle();  // before a newcomer begins to wait
    if (s.is_first && s.who && s.who->wants == request::wish::permits) {
        arrives(s, static_cast<visit&>(*s.who));
        settle(s);
    }
    if (gone)
        leaves(s, *gone);
    for (int core = 0; core != number_of_cores_; ++core) {
        if (s.of_core[static_cast<std::size_t>(core)])
            compare(s, core);
    }
    if (s.is_first && s.what == call::kind::drain && s.who && !s.who->doomed)
        cores_[static_cast<std::size_t>(s.who->core)].drains.push_back(s.who);
    note_who_is_idle();
}

void chain_oracle::note_call(section const& s) {
    using enum call::kind;
    auto& core = cores_[static_cast<std::size_t>(s.core)];
    auto const shut = [&](doors d) {
        for (auto& l : limiters_) {
            if (l.core == s.core)
                l.door = std::max(l.door, d);
        }
    };
    if (s.cancels)
        s.cancels->cancelled = true;
    for (auto const& part : s.home) {
        auto const at = static_cast<std::size_t>(part.limiter);
        auto& counts = cores_[static_cast<std::size_t>(limiters_[at].core)].counts;
        --counts.live;
        counts.in_use -= part.n;
        if (part.n == 0)
            continue;
        auto const& whose = static_cast<visit const&>(*part.whose);
        auto const granted = static_cast<ticket>(whose.decided_at.time_since_epoch().count());
        if (!whose.is_chain)
            limiters_[at].line.came_home(whose.how.flow, part.n);
        if (part.used)
            limiters_[at].book->came_home(part.n, part.taken, s.now);
        else
            limiters_[at].book->refunded(part.n, granted, s.now);
    }
    if (!s.is_first)
        return;
    switch (s.what) {
        case cancel_all:
            for (auto* const v : waiting_) {
                if (s.key == call::every_key ? names_one_of(*v, s.core) : v->names(s.key))
                    v->marked = true;
            }
            for (auto* const r : core.drains)
                r->marked = r->marked || s.key == call::every_key;
            break;
        case shut_down:
            shut(doors::no_newcomers);
            break;
        case close:
            shut(doors::shut);
            break;
        case abandon:
            shut(doors::shut);
            core.gone = true;
            break;
        case context_ends:
            shut(doors::shut);
            core.gone = core.dead = true;
            break;
        default:
            break;
    }
}

// In the order in which the queue receives them.
void chain_oracle::joins(visit& v, time_point now) {
    auto& line = of(v.named.front()).line;
    v.number = ++arrivals_;
    v.since = now;
    v.in_queue = true;
    if (line.empty())
        line.begins(now);
    line.joined(v.number, now, v.asks_for());
}

// Where the order ranks chains, the queue reports which chains are in it.
void chain_oracle::comes_to(visit& v, int limiter, time_point now) {
    if (v.number == 0) {
        v.number = ++arrivals_;
        v.since = now;
    }
    of(limiter).line.joined(v.number, v.since, v.asked_of(limiter), true);
    if (v.is == request::state::entering)
        return;
    cases_.drop(invariant::order, name(v) + " moves",
                [&](possibility const& c) -> std::optional<std::string> {
                    auto const p = std::ranges::find(c.waiting, &v, &place::who);
                    if (p == c.waiting.end() || !chain_cases::stands(*p, limiter))
                        return fmt::format("it has no reason to move to {}", limiter);
                    return std::nullopt;
                });
}

void chain_oracle::is_served(visit& v, time_point now) {
    auto& line = of(v.named.front()).line;
    if (line.next(now) != v.number)
        violated(invariant::order, fmt::format("{}, number {}, is served before number {}", name(v),
                                               v.number, line.next(now)));
    line.granted(now - v.since, now);
    line.served(v.number);
    v.in_queue = false;
}

void chain_oracle::leaves(section const& s, visit& v) {
    auto const limiter = v.named.front();
    v.in_queue = false;
    if (v.thrown)
        return of(limiter).line.left(v.number);
    bool const is_shed = v.error == errc::shed;
    if (is_shed ? !may_be_shed(s, v) : !may_leave(v, s.now))
        violated(invariant::verdict,
                 fmt::format("{} is rejected without that reason: {}", name(v), v.error.message()));
    bool const makes_way = is_shed && !of(limiter).line.may_drop(v.since, s.now);
    of(limiter).line.left(v.number);
    if (makes_way) {
        cases_.drop(invariant::verdict, name(v) + " is dropped",
                    [&](possibility const& c) -> std::optional<std::string> {
                        if (chain_cases::size(c, limiter) <
                            static_cast<std::uint64_t>(queueing_.max_waiting))
                            return "the queue is not full";
                        return std::nullopt;
                    });
        made_way_ = limiter;
    }
    cases_.leaves(v, s.now);
}

// Checks that all its permits are granted at one time.
void chain_oracle::grant(section const& s, std::size_t first) {
    auto& v = *owner_of(s.steps[first]).who;
    of_each_limiter<amount> taken{};
    for (auto k = first; k != s.steps.size(); ++k) {
        auto const whose = owner_of(s.steps[k]);
        if (whose.who != &v)
            break;
        taken[static_cast<std::size_t>(whose.limiter)] += s.steps[k].n;
    }
    if (taken != v.asks_of)
        violated(invariant::conserved, name(v) + " is granted in parts");

    bool const newcomer = v.is == request::state::entering;
    if (newcomer && (!s.is_first || s.who != &v))
        violated(invariant::conserved, name(v) + " is granted before it asks");
    bool const charges = v.asked_by == visit::way::charges;
    for (auto const i : v.named) {
        auto const& l = limiters_[static_cast<std::size_t>(i)];
        if (l.door == doors::shut || (newcomer && l.door != doors::open))
            violated(invariant::closed, name(v));
        if (!charges && !l.fits(v.asks_of[static_cast<std::size_t>(i)], s.now))
            violated(invariant::room, name(v));
    }
    if (v.cancelled || v.marked)
        violated(invariant::cancelled, name(v));
    if (!newcomer && v.deadline < s.now)
        violated(invariant::deadline, name(v));
    // If it has waited, the queue has reported that it is next.
    bool const asks_all = v.is_chain || v.number == 0;
    if (v.in_queue)
        violated(invariant::order, name(v) + " is granted, and was not next");
    if (!charges)
        cases_.drop(
            newcomer ? invariant::barging : invariant::order, name(v) + " is granted",
            [&](possibility const& c) -> std::optional<std::string> {
                if (!newcomer && std::ranges::find(c.waiting, &v, &place::who) == c.waiting.end())
                    return "it has left already";
                for (auto const i : v.named) {
                    if (v.asks_of[static_cast<std::size_t>(i)] != 0 &&
                        (asks_all ? cases_.barred(c, v, i, s.now)
                                  : cases_.barred_by_chains(c, v, i)))
                        return fmt::format("another request is before it at {}", i);
                }
                return std::nullopt;
            });
    for (auto k = first; k != s.steps.size(); ++k) {
        auto const whose = owner_of(s.steps[k]);
        if (whose.who != &v)
            break;
        auto& l = of(whose.limiter);
        if (!v.is_chain) {
            l.line.took(v.how.flow, s.steps[k].n);
        } else if (!newcomer && l.line.ranks_chains()) {
            if (!l.line.has(v.number))
                l.line.joined(v.number, v.since, v.asked_of(whose.limiter), true);
            l.line.served_chain(v.number, s.steps[k].n);
        }
        l.book->took(s.steps[k].n, static_cast<ticket>(s.now.time_since_epoch().count()), s.now);
        std::erase_if(fits_since_,
                      [&](auto const& one) { return one.first.second == whose.limiter; });
    }
    v.decided_at = s.now;
    if (v.is_chain && s.steps[first].by_counting)
        ++told_.chains_by_counting;
    // Its wait may have been zero: it was in the queue until another request was dropped for it.
    if (newcomer)
        v.since = s.now;
    count_grant(v, s.now, newcomer && !v.waits);
    v.is = request::state::over;
    if (newcomer)
        return;
    std::erase(waiting_, &v);
    cases_.ends(v);
}

void chain_oracle::count_grant(visit const& v, time_point now, bool at_once) {
    auto const waited = at_once ? duration() : now - v.since;
    if (v.told)
        check_waits(v, waited);
    for (auto const i : v.named) {
        auto const at = static_cast<std::size_t>(i);
        auto& core = cores_[static_cast<std::size_t>(limiters_[at].core)];
        auto& counts = core.counts;
        ++counts.granted;
        ++counts.live;
        counts.in_use += v.asks_of[at];
        counts.permits_granted += v.asks_of[at];
        core.waits_known = core.waits_known && (v.told || at_once || !v.is_chain);
        auto const here = v.is_chain ? v.waited[at] : waited;
        counts.granted_immediately += at_once || (v.is_chain && here == duration()) ? 1 : 0;
        counts.waited_total += here;
        counts.waited_max = std::max(counts.waited_max, here);
    }
}

// A chain waits in one queue at a time, or in all of them while it reserves its limiters.
void chain_oracle::check_waits(visit const& v, duration waited) {
    duration sum{};
    duration longest{};
    for (auto const i : v.named) {
        auto const here = v.waited[static_cast<std::size_t>(i)];
        sum += here;
        longest = std::max(longest, here);
    }
    if (v.waited_in_all != waited || longest > waited || sum < waited ||
        (!v.is_chain && sum != waited))
        violated(invariant::counts,
                 fmt::format("{} has waited {} ns, and its permits report {} ns, {} in all queues, "
                             "at most {} in one",
                             name(v), waited.count(), v.waited_in_all.count(), sum.count(),
                             longest.count()));
}

void chain_oracle::count_rejection(stats& to, error_code ec, std::optional<duration> waited) {
    ++(ec == errc::no_permit              ? to.no_permit
       : ec == errc::timed_out            ? to.timed_out
       : ec == errc::deadline_unreachable ? to.deadline_unreachable
       : ec == errc::queue_full           ? to.queue_full
       : ec == errc::shed                 ? to.shed
       : ec == errc::exceeds_capacity     ? to.exceeds_capacity
       : ec == errc::closed               ? to.closed
       : ec == errc::too_many_keys        ? to.too_many_keys
                                          : to.cancelled);
    if (!waited)
        return;
    to.rejected_waited_total += *waited;
    to.rejected_waited_max = std::max(to.rejected_waited_max, *waited);
}

// A rejection names the limiter that rejected, and only that limiter counts it. A rejection without such a limiter is
// counted at the home.
int chain_oracle::counted_at(visit const& v) const {
    auto const at = static_cast<std::size_t>(v.rejected_by.value_or(v.named.front()));
    return limiters_[at].core;
}

// The checks are the checks of `basic_limiter`, each over all limiters before the next one.
void chain_oracle::arrives(section const& s, visit& v) {
    if (v.thrown || v.is != request::state::entering)
        return;
    if (v.number == 0)
        v.number = ++arrivals_;
    v.since = s.now;
    auto const length = v.patience ? *v.patience : queueing_.patience.length_or(weir::forever);
    v.deadline = length == weir::forever ? weir::never : weir::later(s.now, length);

    std::optional<error_code> must;
    std::optional<int> by;
    auto const check = [&](error_code ec, auto rejects) {
        auto const it = std::ranges::find_if(v.named, rejects);
        if (must || it == v.named.end())
            return;
        must = ec;
        by = *it;
    };
    if (v.cancelled)
        must = aborted;
    check(errc::closed,
          [&](int i) { return limiters_[static_cast<std::size_t>(i)].door != doors::open; });
    bool const charges = v.asked_by == visit::way::charges;
    check(errc::exceeds_capacity, [&](int i) {
        auto const at = static_cast<std::size_t>(i);
        return !charges && v.asks_of[at] > limiters_[at].book->capacity();
    });
    bool const granted = v.told && !v.error && !v.waits;
    if (must) {
        if (v.error != *must || v.rejected_by != by || v.retry_after || v.waits)
            violated(invariant::verdict, fmt::format("{}: {} instead of {}", name(v),
                                                     v.error.message(), must->message()));
    } else if (granted && v.asks_for_nothing()) {
        count_grant(v, s.now, true);
    } else if (granted) {
        violated(invariant::conserved, name(v) + " is granted, and nothing is taken");
    } else {
        cases_.drop(invariant::verdict, name(v),
                    [&](possibility const& c) { return wrong_arrival(c, v, s.now); });
    }
    bool const is_asked_again = v.asked_by == visit::way::tries_first && v.error == errc::no_permit;
    if (v.told && v.error && !v.waits) {
        if (!charges && !is_asked_again)
            count_rejection(cores_[static_cast<std::size_t>(counted_at(v))].counts, v.error, {});
    }
    if (!v.waits) {
        v.is = request::state::over;
        return;
    }
    cases_.begins(v, [&](possibility const& c, int i) {
        auto const& line = of(i).line;
        return !has_let(c, v, i, s.now) && has_place(c, v, i) &&
               (!line.ranks_chains() || line.has(v.number));
    });
    v.is = request::state::waiting;
    waiting_.push_back(&v);
}

// A rejection names the limiter with the longest known wait, or else the first one. Its retry time is the longest
// time that a limiter names. Behind other requests that may be too early, or unknown.
std::optional<std::string> chain_oracle::wrong_arrival(possibility const& c, visit const& v,
                                                       time_point now) const {
    std::optional<duration> least;
    std::optional<duration> most;
    std::map<int, std::pair<std::optional<duration>, bool>> rejecting;  // when, and whether exactly
    for (auto const i : v.named) {
        if (has_let(c, v, i, now))
            continue;
        auto const at = static_cast<std::size_t>(i);
        std::vector<amount> ahead;
        for (auto const& p : c.waiting) {
            if (chain_cases::stands(p, i))
                ahead.push_back(p.who->asks_of[at]);
        }
        bool const exact = ahead.empty() && made_way_ != i;
        auto const turn = limiters_[at].book->earliest(v.asks_of[at], ahead, now);
        std::optional<duration> in;
        if (turn != weir::unknown)
            in = turn - now;
        else if (!exact)
            in = weir::forever;
        rejecting[i] = {in, exact};
        if (in && exact)
            least = std::max(least, in);
        most = std::max(most, in);
    }
    if (rejecting.empty())
        return "all limiters would allow it";
    if (v.asked_by == visit::way::tries_first && !v.told)
        return std::nullopt;

    bool const unreachable = least && weir::later(now, *least) > v.deadline;
    if (v.waits) {
        if (v.deadline <= now || unreachable)
            return "it waits although it cannot be granted in time";
        if (std::ranges::none_of(rejecting, [&](auto const& one) {
                return has_place(c, v, one.first);
            }))
            return "no queue in which it may wait has space";
        return std::nullopt;
    }
    auto const said = v.retry_after;
    if (said ? !most || *said > *most || (least && *said < *least) : least.has_value())
        return fmt::format("its retry time is {} ns", said ? said->count() : -1);
    if (v.error == errc::queue_full) {
        if (!v.rejected_by || !rejecting.contains(*v.rejected_by) ||
            has_place(c, v, *v.rejected_by))
            return "the queue has space";
        return std::nullopt;
    }
    if (v.error == errc::deadline_unreachable) {
        if (!said || weir::later(now, *said) <= v.deadline)
            return "it may be granted in time";
    } else if (v.error == errc::timed_out) {
        if (v.deadline > now || unreachable)
            return "its patience has not ended";
    } else if (v.error != errc::no_permit || v.asked_by == visit::way::enters) {
        return "that has no reason: " + v.error.message();
    }
    if (!v.rejected_by || !rejecting.contains(*v.rejected_by))
        return "another limiter has rejected";
    auto const& [in, exact] = rejecting.at(*v.rejected_by);
    if (said && (!in || (exact ? *in != *said : *in < *said)))
        return "another limiter names that time";
    auto const first = std::ranges::find_if(v.named, [&](int i) { return rejecting.contains(i); });
    if (!said && *v.rejected_by != *first)
        return "another limiter rejects first";
    return std::nullopt;
}

// Under the lock of a core its statistics equal the statistics of the case.
void chain_oracle::compare(section const& s, int core) {
    for (std::size_t i = 0; i != limiters_.size(); ++i) {
        auto const& seen = s.of_limiter[i];
        if (limiters_[i].core != core || !seen)
            continue;
        auto const& book = *limiters_[i].book;
        if (seen->remaining != book.remaining(s.now) || seen->capacity != book.capacity())
            violated(invariant::counts,
                     fmt::format("{} of {} remain at {} instead of {} of {}", seen->remaining,
                                 seen->capacity, i, book.remaining(s.now), book.capacity()));
    }
    cases_.drop(invariant::counts, fmt::format("the statistics of {}", core),
                [&](possibility const& c) { return wrong_counts(c, s, core); });
}

std::optional<std::string> chain_oracle::wrong_counts(possibility const& c, section const& s,
                                                      int core) const {
    std::optional<std::string> wrong;
    auto const same = [&](std::string_view what, auto said, auto truth) {
        if (!wrong && said != truth)
            wrong = fmt::format("{}: {} instead of {}", what, said, truth);
    };
    for (std::size_t i = 0; i != limiters_.size(); ++i) {
        auto const& seen = s.of_limiter[i];
        if (limiters_[i].core != core || !seen)
            continue;
        std::uint64_t waiting = 0;
        amount waiting_for = 0;
        duration oldest{};
        for (auto const& p : c.waiting) {
            if (!chain_cases::stands(p, static_cast<int>(i)))
                continue;
            ++waiting;
            waiting_for += p.who->asks_of[i];
            oldest = std::max(oldest, s.now - p.who->since);
        }
        same("waiting", seen->waiting, waiting);
        same("waiting_for", seen->waiting_for, waiting_for);
        same("oldest_wait", seen->oldest_wait.count(), oldest.count());
    }
    auto truth = cores_[static_cast<std::size_t>(core)].counts;
    for (auto const& d : c.left) {
        if (d.who->error && counted_at(*d.who) == core)
            count_rejection(truth, d.who->error, d.at - d.who->since);
    }
    auto const& seen = *s.of_core[static_cast<std::size_t>(core)];
    same("granted", seen.granted, truth.granted);
    same("no_permit", seen.no_permit, truth.no_permit);
    same("timed_out", seen.timed_out, truth.timed_out);
    same("deadline_unreachable", seen.deadline_unreachable, truth.deadline_unreachable);
    same("queue_full", seen.queue_full, truth.queue_full);
    same("shed", seen.shed, truth.shed);
    same("exceeds_capacity", seen.exceeds_capacity, truth.exceeds_capacity);
    same("closed", seen.closed, truth.closed);
    same("cancelled", seen.cancelled, truth.cancelled);
    same("permits_granted", seen.permits_granted, truth.permits_granted);
    if (cores_[static_cast<std::size_t>(core)].waits_known) {
        same("granted_immediately", seen.granted_immediately, truth.granted_immediately);
        same("waited_total", seen.waited_total.count(), truth.waited_total.count());
        same("waited_max", seen.waited_max.count(), truth.waited_max.count());
    }
    same("rejected_waited_total", seen.rejected_waited_total.count(),
         truth.rejected_waited_total.count());
    same("rejected_waited_max", seen.rejected_waited_max.count(),
         truth.rejected_waited_max.count());
    same("live", seen.live, truth.live);
    same("in_use", seen.in_use, truth.in_use);
    return wrong;
}

// `async_drain` of each limiter waits for the chain.
void chain_oracle::note_who_is_idle() {
    for (int core = 0; core != number_of_cores_; ++core) {
        auto& at = cores_[static_cast<std::size_t>(core)];
        bool const idle =
            at.counts.live == 0 && std::ranges::any_of(cases_.all(), [&](auto const& c) {
                return std::ranges::none_of(c.waiting, [&](place const& p) {
                    return names_one_of(*p.who, core);
                });
            });
        for (auto* const r : at.drains)
            r->granted = r->granted || idle;
    }
}

// Quiet moments.

duration chain_oracle::slack() const {
    return std::max(queueing_.tolerance, duration(1));
}

// Returns how much too late the first request may be granted: a bucket makes up for it.
bool chain_oracle::may_be_late(visit const& v, int limiter, time_point now) const {
    if (limiters_[static_cast<std::size_t>(limiter)].which != policy::token_bucket)
        return false;
    auto const it = fits_since_.find({const_cast<visit*>(&v), limiter});
    return it != fits_since_.end() && now < weir::later(it->second, queueing_.tolerance);
}

// While no claim and no step is pending, each waiting chain is in the queue of a limiter that lacks permits for it,
// or that has another request before it.
std::optional<std::string> chain_oracle::oversleeps(possibility const& c, time_point now) const {
    for (auto const& p : c.waiting) {
        auto const& v = *p.who;
        auto const sleeps_at = [&](int i) {
            return cases_.lets(c, v, i, now) && !may_be_late(v, i, now);
        };
        bool const wakes =
            p.where == place::all ? std::ranges::all_of(v.named, sleeps_at) : sleeps_at(p.where);
        if (wakes)
            return name(v) + " waits although no limiter blocks it";
        if (chain_cases::may_reserve(c, p))
            return name(v) + " is overdue, and does not reserve";
        if (p.where == place::all && weir::later(p.reserves_until, slack()) <= now)
            return name(v) + " reserves for too long";
    }
    return std::nullopt;
}

void chain_oracle::quiet_core(int core, oracle::quiet_view const& seen) {
    views_[static_cast<std::size_t>(core)] = seen;
}

void chain_oracle::quiet(time_point now) {
    if (sections_.is_one_open())
        violated(invariant::lock, "a lock is not released");
    for (auto& past = sections_.past; !past.empty(); past.pop_front())
        replay(past.front());

    cases_.drop(invariant::verdict,
                "a rejected request still waits, or was rejected without that reason",
                [&](possibility const& c) -> std::optional<std::string> {
                    for (auto const& p : c.waiting) {
                        if (p.who->told)
                            return fmt::format("{}: {}", name(*p.who), p.who->error.message());
                    }
                    return std::nullopt;
                });
    std::erase_if(waiting_, [](visit* v) {
        if (v->told)
            v->is = request::state::over;
        return v->told;
    });
    for (auto const& v : visits_) {
        if (v->told && v->is != request::state::over && !v->thrown)
            violated(invariant::completion, name(*v) + " is granted, and nothing is taken");
    }
    for (auto const& d : cases_.take_departures()) {
        if (d.who->error)
            count_rejection(cores_[static_cast<std::size_t>(counted_at(*d.who))].counts,
                            d.who->error, d.at - d.who->since);
    }

    auto const is_asleep = [](visit const& v, std::string_view why) {
        violated(invariant::asleep, fmt::format("{} still waits, though {}", name(v), why));
    };
    for (auto* const v : waiting_) {
        if (v->cancelled || v->marked)
            is_asleep(*v, "it was cancelled");
        if (v->deadline != weir::never && now >= weir::later(v->deadline, slack()))
            is_asleep(*v, "its deadline has passed");
        if (v->in_queue && now >= of(v->named.front()).line.must_drop(v->since))
            is_asleep(*v, "it should have been dropped");
        for (auto const i : v->named) {
            auto const at = static_cast<std::size_t>(i);
            if (limiters_[at].door == doors::shut)
                is_asleep(*v, "a limiter is closed");
            if (v->asks_of[at] > limiters_[at].book->capacity())
                is_asleep(*v, "a limiter will never grant it");
            if (limiters_[at].fits(v->asks_of[at], now))
                fits_since_.try_emplace({v, i}, now);
            else
                fits_since_.erase({v, i});
        }
    }
    cases_.drop(invariant::asleep, "at a quiet moment",
                [&](possibility const& c) { return oversleeps(c, now); });

    for (int core = 0; core != number_of_cores_; ++core) {
        auto& at = cores_[static_cast<std::size_t>(core)];
        bool const idle =
            at.counts.live == 0 &&
            std::ranges::none_of(waiting_, [&](visit* v) { return names_one_of(*v, core); });
        std::erase_if(at.drains, [&](request* r) {
            if (r->is != request::state::over) {
                if (idle || at.gone || r->cancelled || r->marked)
                    violated(invariant::asleep, "a drain waits for nothing");
                return false;
            }
            bool const right = !r->error             ? r->granted || (r->doomed && at.dead)
                               : r->error == aborted ? r->cancelled || r->marked
                                                     : r->error == errc::closed && at.gone;
            if (!right)
                violated(invariant::verdict, "a drain is over without a reason");
            return true;
        });
        auto const view = std::exchange(views_[static_cast<std::size_t>(core)], std::nullopt);
        if (!view)
            continue;
        bool const waits =
            std::ranges::any_of(waiting_, [&](visit* v) { return names_one_of(*v, core); });
        if (view->held != ((waits || !at.drains.empty()) && !view->dead))
            violated(invariant::host, view->held ? "the context is kept running without need"
                                                 : "the context may return while a request waits");
        if (view->timer && (view->dead || !waits))
            violated(invariant::host, "a timer is armed without need");
        if (view->waits)
            oracle::compare(*view->waits, at.counts);
    }
}

time_point chain_oracle::next_event(time_point now) const {
    auto next = weir::never;
    auto const consider = [&](time_point t) {
        if (t > now)
            next = std::min(next, t);
    };
    for (auto const* const v : waiting_) {
        if (v->deadline != weir::never)
            consider(weir::later(v->deadline, slack()));
        if (v->in_queue) {
            auto const& line = of(v->named.front()).line;
            consider(line.must_drop(v->since));
            consider(line.turns());
        }
        for (auto const i : v->named) {
            auto const at = static_cast<std::size_t>(i);
            consider(limiters_[at].book->earliest(v->asks_of[at], {}, now));
        }
    }
    for (auto const& [who, since] : fits_since_)
        consider(weir::later(since, queueing_.tolerance));
    for (auto const& c : cases_.all()) {
        for (auto const& p : c.waiting) {
            if (p.where == place::all)
                consider(weir::later(p.reserves_until, slack()));
        }
    }
    return next;
}

// If the context of the first limiter ends, the handler is destroyed without a call: at the latest now.
void chain_oracle::home_has_ended() const {
    for (auto const& v : visits_) {
        bool const at_home =
            world_.stations[static_cast<std::size_t>(v->core)].where == &world_.home;
        if (at_home && v->waits && !v->told && !v->lives_elsewhere)
            violated(invariant::completion, name(*v) + " outlives the context of its handler");
    }
}

void chain_oracle::finished() const {
    for (auto const& v : visits_) {
        bool const undecided = v->asked_by == visit::way::tries_first && !v->waits;
        if (!v->told && !v->thrown && !undecided)
            violated(invariant::completion, name(*v) + " is not over at the end");
    }
    for (auto const& r : drains_) {
        if (r->is != request::state::over)
            violated(invariant::completion, "a drain is not over at the end");
    }
    for (auto const& core : cores_) {
        if (core.counts.live != 0 || core.counts.in_use != 0)
            violated(invariant::conserved, "permits are in use at the end");
    }
}

}  // namespace explorer
