#include "chain_oracle.hpp"

#include <boost/asio/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace explorer {
namespace {

using weir::errc;
using stats = weir::limiter_stats;

auto const aborted = error_code(boost::asio::error::operation_aborted);

chain_oracle* the_oracle = nullptr;

// All of these at once.
class joint_ledger final : public ledger {
public:
    joint_ledger(rule in_force, time_point now)
        : ledger(in_force),
          seats_(ledger::of(policy::seats, in_force, now)),
          log_(ledger::of(policy::sliding_log, with_window(in_force), now)) {}

    amount remaining(time_point now) const override {
        return std::min(seats_->remaining(now), log_->remaining(now));
    }
    void took(amount n, ticket t, time_point now) override {
        seats_->took(n, t, now);
        log_->took(n, t, now);
    }
    void came_home(amount n) override { seats_->came_home(n); }
    void refunded(amount n, ticket t, time_point now) override {
        seats_->refunded(n, t, now);
        log_->refunded(n, t, now);
    }
    void configured(rule next, time_point now) override {
        rule_ = next;
        seats_->configured(next, now);
        log_->configured(with_window(next), now);
    }

private:
    static rule with_window(rule r) {
        r.time = window_of_a_log;
        return r;
    }
    joint_ledger(rule in_force, std::unique_ptr<ledger> seats, std::unique_ptr<ledger> log)
        : ledger(in_force), seats_(std::move(seats)), log_(std::move(log)) {}

    std::unique_ptr<ledger> copy() const override {
        return std::unique_ptr<ledger>(new joint_ledger(rule_, seats_->copy(), log_->copy()));
    }
    time_point alone(amount n, time_point now) const override {
        return std::max(seats_->alone(n, now), log_->alone(n, now));
    }

    std::unique_ptr<ledger> seats_;
    std::unique_ptr<ledger> log_;
};

std::string name(visit const& v) {
    return fmt::format("{} of caller {} for {} of {}", v.is_chain ? "the chain" : "the request",
                       v.caller, fmt::join(v.asks_of, ", "), fmt::join(v.named, ", "));
}

}  // namespace

bool visit::names(int limiter) const noexcept {
    return std::ranges::find(named, limiter) != named.end();
}

bool visit::asks_for_nothing() const noexcept {
    return std::ranges::all_of(asks_of, [](amount each) { return each == 0; });
}

chain_oracle::chain_oracle(simulation& world, of_each_limiter<limiter_kind> const& limiters)
    : world_(world), queueing_(world.what.queueing) {
    the_oracle = this;
    auto const now = world.threads.now();
    for (std::size_t i = 0; i != limiters.size(); ++i) {
        auto const& l = limiters[i];
        limiters_[i].is = l;
        if (l.with_a_log)
            limiters_[i].book = std::make_unique<joint_ledger>(l.in_force, now);
        else
            limiters_[i].book = ledger::of(l.which, l.in_force, now);
        number_of_cores_ = std::max(number_of_cores_, l.core + 1);
    }
}

chain_oracle::~chain_oracle() {
    the_oracle = nullptr;
}

chain_oracle& chain_oracle::current() noexcept {
    return *the_oracle;
}

// Calls.

visit& chain_oracle::asks(int caller, visit::way by, action const& a, std::vector<int> named,
                          of_each_limiter<amount> const& asks_of) {
    visits_.push_back(std::make_unique<visit>());
    auto& v = *visits_.back();
    v.caller = caller;
    v.asked_by = by;
    v.n = a.n;
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
        count_refusal(told_, ec, {});
    } else {
        ++told_.granted;
        told_.granted_at_once += v.waits ? 0 : 1;
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

// What a policy hears.

ticket chain_oracle::took(ticket inner, amount n, time_point now) {
    auto const t = ++last_ticket_;
    inner_[t] = inner;
    under_way().steps.push_back({.taken = t, .n = n, .now = now});
    return t;
}

void chain_oracle::configured(int limiter, rule const& next, time_point now) {
    under_way().steps.push_back({.configured = limiter, .next = next, .now = now});
}

chain_oracle::section& chain_oracle::under_way() {
    auto const it = open_.find(world_.threads.running());
    if (it == open_.end() || it->second.heard)
        violated(invariant::lock, "a policy is used without the lock");
    return it->second.being;
}

// Critical sections.

void chain_oracle::section_begins(call& c, int core) {
    auto& open = open_[world_.threads.running()];
    if (open.heard)
        violated(invariant::lock, "a lock is taken after another one was let go of");
    open.locked |= 1U << static_cast<unsigned>(core);
    if (c.what == call::kind::cancel && c.link->target) {
        for (auto const& v : visits_) {
            if (v->op == c.link->target)
                open.being.cancels = v.get();
        }
        for (auto const& r : drains_) {
            if (r->op == c.link->target)
                open.being.cancels = r.get();
        }
        if (!open.being.cancels)
            violated(invariant::verdict, "a cancellation finds somebody who is over");
    }
}

void chain_oracle::section_ends(call& c, int core, stats const& of_core,
                                of_each_limiter<stats> const& of_limiter) {
    auto const it = open_.find(world_.threads.running());
    auto& open = it->second;
    if (!open.heard) {
        auto& s = open.being;
        s.what = c.what;
        s.core = c.core;
        s.key = c.key;
        s.is_first = c.sections++ == 0;
        s.who = c.who;
        if (s.is_first)
            s.home = c.home_of_each;
        s.cores = open.locked;
        s.now = c.at = c.told.value_or(world_.threads.now());
        c.told.reset();
        heard_.push_back(std::move(s));
        open.heard = &heard_.back();
    }
    open.heard->of_core[static_cast<std::size_t>(core)] = of_core;
    for (std::size_t i = 0; i != limiters_.size(); ++i) {
        if (limiters_[i].is.core == core)
            open.heard->of_limiter[i] = of_limiter[i];
    }
    open.locked &= ~(1U << static_cast<unsigned>(core));
    if (open.locked == 0)
        open_.erase(it);
}

// What is so in a case.

unsigned chain_oracle::locks_of(visit const& v) const {
    unsigned locks = 0;
    for (auto const i : v.named)
        locks |= 1U << static_cast<unsigned>(limiters_[static_cast<std::size_t>(i)].is.core);
    return locks;
}

bool chain_oracle::names_one_of(visit const& v, int core) const {
    return (locks_of(v) & (1U << static_cast<unsigned>(core))) != 0;
}

bool chain_oracle::stands(place const& p, int limiter) {
    return p.where == limiter ||
           (p.where == place::all && p.who->asks_of[static_cast<std::size_t>(limiter)] != 0);
}

// "It goes before all that came after it", in any order of the queue; among plain requests the order holds. Where that
// does not say who is first, either may be.
chain_oracle::answer chain_oracle::barred(possibility const& c, visit const& v, int limiter) const {
    using enum weir::queue_order;
    auto const order = queueing_.order;
    bool const by_age = order == fifo || order == codel;
    auto result = answer::no;
    for (auto const& p : c.waiting) {
        if (p.who == &v || !stands(p, limiter))
            continue;
        bool const newcomer = v.is == request::state::entering;
        bool const elder = newcomer || p.who->number < v.number;
        auto one = answer::no;
        if (p.who->is_chain || by_age)
            one = elder ? answer::yes : answer::no;
        else if (v.is_chain || order == adaptive_lifo)
            one = elder || order == adaptive_lifo ? answer::perhaps : answer::no;
        else
            one = elder ? answer::no : answer::yes;  // lifo
        if (v.is_chain && !p.who->is_chain && !elder)
            one = answer::no;
        result = std::max(result, one);
    }
    return result;
}

bool chain_oracle::fits(int limiter, amount n, time_point now) const {
    return n == 0 || limiters_[static_cast<std::size_t>(limiter)].book->fits(n, now);
}

chain_oracle::answer chain_oracle::lets(possibility const& c, visit const& v, int limiter,
                                        time_point now) const {
    auto const n = v.asks_of[static_cast<std::size_t>(limiter)];
    if (n == 0)
        return answer::yes;
    if (!fits(limiter, n, now))
        return answer::no;
    auto const by_others = barred(c, v, limiter);
    return by_others == answer::yes  ? answer::no
           : by_others == answer::no ? answer::yes
                                     : answer::perhaps;
}

// Whether there is the reason now with which it has been refused.
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
                   (!v.refused_by || *v.refused_by == i);
        });
    if (v.error == errc::timed_out)
        return v.deadline < now;
    if (v.error == errc::exceeds_capacity) {
        auto const at = static_cast<std::size_t>(*v.refused_by);
        return v.asks_of[at] > limiters_[at].book->capacity();
    }
    if (v.error == errc::deadline_unreachable) {
        auto const at = static_cast<std::size_t>(*v.refused_by);
        std::vector<amount> ahead;
        for (auto const* const other : waiting_) {
            if (!v.is_chain && other->number < v.number && other->asks_of[at] != 0)
                ahead.push_back(other->asks_of[at]);
        }
        auto const too_late = [&](std::vector<amount> const& others) {
            auto const turn = limiters_[at].book->earliest(v.asks_of[at], others, now);
            return turn != weir::unknown && turn > v.deadline;
        };
        return too_late({}) || too_late(ahead);
    }
    // "A chain is not dropped for a newcomer by when_full::evict_oldest, nor by queue_order::codel."
    if (v.error == errc::shed)
        return !v.is_chain && (queueing_.full == weir::when_full::evict_oldest ||
                               queueing_.order == weir::queue_order::codel);
    return false;
}

bool chain_oracle::may_reserve(possibility const& c, place const& p) const {
    return p.is_overdue && p.where != place::all &&
           std::ranges::none_of(c.waiting, [&](place const& other) {
               bool const first = other.where == place::all ||
                                  (other.is_overdue && other.who->number < p.who->number);
               return first && other.who != p.who &&
                      std::ranges::any_of(p.who->named, [&](int i) { return other.who->names(i); });
           });
}

bool chain_oracle::has_place(possibility const& c, int limiter) const {
    std::uint64_t size = 0;
    bool makes_way = false;
    for (auto const& p : c.waiting) {
        if (!stands(p, limiter))
            continue;
        ++size;
        makes_way = makes_way || !p.who->is_chain;
    }
    return size < static_cast<std::uint64_t>(queueing_.limit) ||
           (queueing_.full == weir::when_full::evict_oldest && makes_way);
}

std::string chain_oracle::text(possibility const& c) {
    std::string result;
    for (auto const& p : c.waiting)
        result += fmt::format("; {} stands at {}, passed {}{}", name(*p.who),
                              p.where == place::all ? "all" : fmt::format("{}", p.where), p.passed,
                              p.is_overdue ? ", overdue" : "");
    return result.empty() ? "; nobody waits" : result;
}

template <class Wrong>
void chain_oracle::drop(std::string_view invariant, std::string const& what, Wrong wrong) {
    std::string last;
    for (auto it = cases_.begin(); it != cases_.end();) {
        auto const why = wrong(*it);
        if (why)
            last = *why + text(*it);
        it = why ? cases_.erase(it) : std::next(it);
    }
    if (cases_.empty())
        violated(invariant, fmt::format("{}: {}", what, last));
}

// What may have happened in a section by itself: chains move, and who was refused has left.
void chain_oracle::settle(section const& s) {
    std::vector<possibility> todo(cases_.begin(), cases_.end());
    while (!todo.empty()) {
        auto const c = std::move(todo.back());
        todo.pop_back();
        for (std::size_t k = 0; k != c.waiting.size(); ++k) {
            auto const& p = c.waiting[k];
            auto const& v = *p.who;
            if ((locks_of(v) & ~s.cores) != 0)
                continue;
            auto next = c;
            auto const add = [&] {
                if (cases_.insert(next).second)
                    todo.push_back(next);
            };
            if (may_leave(v, s.now)) {
                next.waiting.erase(next.waiting.begin() + static_cast<std::ptrdiff_t>(k));
                next.left.push_back({p.who, s.now});
                std::ranges::sort(next.left);
                add();
            }
            if (!v.is_chain)
                continue;
            auto const stand_with = [&](bool turn_is_lost) {
                for (auto const to : v.named) {
                    if (to == p.where || lets(c, v, to, s.now) == answer::yes)
                        continue;
                    next = c;
                    auto& moved = next.waiting[k];
                    moved.where = to;
                    moved.reserves_until = {};
                    moved.passed = turn_is_lost ? std::min(p.passed + 1, v.options.passes) : 0;
                    moved.is_overdue = moved.passed >= v.options.passes;
                    add();
                }
            };
            if (p.where != place::all && lets(c, v, p.where, s.now) != answer::no)
                stand_with(true);
            if (p.where == place::all && p.reserves_until < s.now)
                stand_with(false);
            if (may_reserve(c, p)) {
                next = c;
                auto& reserving = next.waiting[k];
                reserving.where = place::all;
                reserving.is_overdue = false;
                reserving.passed = 0;
                reserving.reserves_until = weir::later(s.now, v.options.reserve_for);
                add();
            }
        }
    }
}

// Replays.

void chain_oracle::replay(section& s) {
    note_call(s);
    for (std::size_t k = 0; k < s.steps.size();) {
        auto const& one = s.steps[k];
        settle(s);
        if (one.configured >= 0) {
            limiters_[static_cast<std::size_t>(one.configured)].book->configured(one.next, one.now);
            ++k;
            continue;
        }
        auto const it = owners_.find(one.taken);
        if (it == owners_.end())
            violated(invariant::conserved, "something is taken for nobody");
        auto const& v = *it->second.who;
        auto const takes = std::ranges::count_if(v.asks_of, [](amount n) { return n != 0; });
        grant(s, k);
        k += static_cast<std::size_t>(takes);
    }
    settle(s);
    note_who_is_idle();  // before one who comes begins to wait
    if (s.is_first && s.who && s.who->wants == request::wish::permits) {
        arrives(s, static_cast<visit&>(*s.who));
        settle(s);
    }
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
            if (l.is.core == s.core)
                l.door = std::max(l.door, d);
        }
    };
    if (s.cancels)
        s.cancels->cancelled = true;
    for (auto const& part : s.home) {
        auto const at = static_cast<std::size_t>(part.limiter);
        auto& counts = cores_[static_cast<std::size_t>(limiters_[at].is.core)].counts;
        --counts.live;
        counts.in_use -= part.n;
        if (part.n == 0)
            continue;
        auto const granted =
            static_cast<ticket>(taken_at_.at(part.taken).time_since_epoch().count());
        if (part.used)
            limiters_[at].book->came_home(part.n);
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

// All that it has asked for, at one time.
void chain_oracle::grant(section const& s, std::size_t first) {
    auto& v = *owners_.at(s.steps[first].taken).who;
    of_each_limiter<amount> taken{};
    for (auto k = first; k != s.steps.size(); ++k) {
        auto const it = owners_.find(s.steps[k].taken);
        if (it == owners_.end() || it->second.who != &v)
            break;
        taken[static_cast<std::size_t>(it->second.limiter)] += s.steps[k].n;
    }
    if (taken != v.asks_of)
        violated(invariant::conserved, name(v) + " is granted by parts");

    bool const newcomer = v.is == request::state::entering;
    if (newcomer && (!s.is_first || s.who != &v))
        violated(invariant::conserved, name(v) + " is granted before it asks");
    bool const charges = v.asked_by == visit::way::charges;
    for (auto const i : v.named) {
        auto const& l = limiters_[static_cast<std::size_t>(i)];
        if (l.door == doors::shut || (newcomer && l.door != doors::open))
            violated(invariant::closed, name(v));
        if (!charges && !fits(i, v.asks_of[static_cast<std::size_t>(i)], s.now))
            violated(invariant::room, name(v));
    }
    if (v.cancelled || v.marked)
        violated(invariant::cancelled, name(v));
    if (!newcomer && v.deadline < s.now)
        violated(invariant::deadline, name(v));
    if (!charges)
        drop(newcomer ? invariant::barging : invariant::order, name(v) + " is granted",
             [&](possibility const& c) -> std::optional<std::string> {
                 if (!newcomer && std::ranges::find(c.waiting, &v, &place::who) == c.waiting.end())
                     return "it has left already";
                 for (auto const i : v.named) {
                     if (v.asks_of[static_cast<std::size_t>(i)] != 0 &&
                         barred(c, v, i) == answer::yes)
                         return fmt::format("another one stands before it at {}", i);
                 }
                 return std::nullopt;
             });
    for (auto k = first; k != s.steps.size(); ++k) {
        auto const it = owners_.find(s.steps[k].taken);
        if (it == owners_.end() || it->second.who != &v)
            break;
        auto& l = limiters_[static_cast<std::size_t>(it->second.limiter)];
        taken_at_[s.steps[k].taken] = s.now;
        l.book->took(s.steps[k].n, static_cast<ticket>(s.now.time_since_epoch().count()), s.now);
        std::erase_if(fits_since_,
                      [&](auto const& one) { return one.first.second == it->second.limiter; });
    }
    // It may have waited for no time: in line, until another one was dropped for it.
    if (newcomer)
        v.since = s.now;
    count_grant(v, s.now, newcomer && !v.waits);
    v.is = request::state::over;
    if (newcomer)
        return;
    std::erase(waiting_, &v);
    cases next;
    for (auto c : cases_) {
        std::erase_if(c.waiting, [&](place const& p) { return p.who == &v; });
        next.insert(std::move(c));
    }
    cases_ = std::move(next);
}

void chain_oracle::count_grant(visit const& v, time_point now, bool at_once) {
    for (auto const i : v.named) {
        auto const at = static_cast<std::size_t>(i);
        auto& counts = cores_[static_cast<std::size_t>(limiters_[at].is.core)].counts;
        ++counts.granted;
        ++counts.live;
        counts.in_use += v.asks_of[at];
        counts.permits_granted += v.asks_of[at];
        auto const waited = at_once ? duration() : now - v.since;
        if (v.told && v.waited[at] != waited)
            violated(invariant::counts, fmt::format("{} has waited {} ns, and is told {}", name(v),
                                                    waited.count(), v.waited[at].count()));
        counts.granted_at_once += at_once ? 1 : 0;
        counts.waited_total += waited;
        counts.waited_max = std::max(counts.waited_max, waited);
    }
}

void chain_oracle::count_refusal(stats& to, error_code ec, std::optional<duration> waited) {
    ++(ec == errc::limited                ? to.limited
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
    to.refused_waited_total += *waited;
    to.refused_waited_max = std::max(to.refused_waited_max, *waited);
}

// "A refusal names the limiter that has refused, and is counted there." One that none has made is counted at home.
int chain_oracle::counted_at(visit const& v) const {
    auto const at = static_cast<std::size_t>(v.refused_by.value_or(v.named.front()));
    return limiters_[at].is.core;
}

// "Checks are those of `basic_limiter`, each over all limiters before the next one."
void chain_oracle::arrives(section const& s, visit& v) {
    if (v.thrown || v.is != request::state::entering)
        return;
    v.number = ++arrivals_;
    v.since = s.now;
    auto const length = v.patience ? *v.patience : queueing_.patience.length_or(weir::forever);
    v.deadline = length == weir::forever ? weir::never : weir::later(s.now, length);

    std::optional<error_code> must;
    std::optional<int> by;
    auto const check = [&](error_code ec, auto refuses) {
        auto const it = std::ranges::find_if(v.named, refuses);
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
        if (v.error != *must || v.refused_by != by || v.retry_after || v.waits)
            violated(invariant::verdict, fmt::format("{}: {} instead of {}", name(v),
                                                     v.error.message(), must->message()));
    } else if (granted && v.asks_for_nothing()) {
        count_grant(v, s.now, true);
    } else if (granted) {
        violated(invariant::conserved, name(v) + " is granted, and nothing is taken");
    } else {
        drop(invariant::verdict, name(v),
             [&](possibility const& c) { return wrong_arrival(c, v, s.now); });
    }
    bool const is_asked_again = v.asked_by == visit::way::tries_first && v.error == errc::limited;
    if (v.told && v.error && !v.waits) {
        if (!charges && !is_asked_again)
            count_refusal(cores_[static_cast<std::size_t>(counted_at(v))].counts, v.error, {});
    }
    if (!v.waits) {
        v.is = request::state::over;
        return;
    }
    cases next;
    for (auto const& c : cases_) {
        for (auto const i : v.named) {
            if (lets(c, v, i, s.now) == answer::yes || !has_place(c, i))
                continue;
            auto one = c;
            one.waiting.push_back({.who = &v, .where = i});
            next.insert(std::move(one));
        }
    }
    cases_ = std::move(next);
    v.is = request::state::waiting;
    waiting_.push_back(&v);
}

// "It says which limiter has refused: that for which it takes longest, as far as that is known; or else the first", and
// "how long to stay away: the largest time that a limiter names". Behind others that may be too early, or unknown.
std::optional<std::string> chain_oracle::wrong_arrival(possibility const& c, visit const& v,
                                                       time_point now) const {
    std::optional<duration> least;
    std::optional<duration> most;
    std::map<int, std::pair<std::optional<duration>, bool>> refusing;  // when, and whether exactly
    for (auto const i : v.named) {
        if (lets(c, v, i, now) == answer::yes)
            continue;
        auto const at = static_cast<std::size_t>(i);
        std::vector<amount> ahead;
        for (auto const& p : c.waiting) {
            if (stands(p, i))
                ahead.push_back(p.who->asks_of[at]);
        }
        bool const exact = ahead.empty();
        auto const turn = limiters_[at].book->earliest(v.asks_of[at], ahead, now);
        std::optional<duration> in;
        if (turn != weir::unknown)
            in = turn - now;
        else if (!exact)
            in = weir::forever;
        refusing[i] = {in, exact};
        if (in && exact)
            least = std::max(least, in);
        most = std::max(most, in);
    }
    if (refusing.empty())
        return "it would be let go by all";
    if (v.asked_by == visit::way::tries_first && !v.told)
        return std::nullopt;

    bool const unreachable = least && weir::later(now, *least) > v.deadline;
    if (v.waits) {
        if (v.deadline <= now || unreachable)
            return "it cannot be granted in time, and waits";
        if (std::ranges::none_of(refusing, [&](auto const& one) {
                return has_place(c, one.first);
            }))
            return "there is no place in a line where it may stand";
        return std::nullopt;
    }
    auto const said = v.retry_after;
    if (said ? !most || *said > *most || (least && *said < *least) : least.has_value())
        return fmt::format("it is told to come back in {} ns", said ? said->count() : -1);
    if (v.error == errc::queue_full) {
        if (!v.refused_by || !refusing.contains(*v.refused_by) || has_place(c, *v.refused_by))
            return "there is a place";
        return std::nullopt;
    }
    if (v.error == errc::deadline_unreachable) {
        if (!said || weir::later(now, *said) <= v.deadline)
            return "its turn may come in time";
    } else if (v.error == errc::timed_out) {
        if (v.deadline > now || unreachable)
            return "its patience has not run out";
    } else if (v.error != errc::limited || v.asked_by == visit::way::enters) {
        return "there is no reason for that: " + v.error.message();
    }
    if (!v.refused_by || !refusing.contains(*v.refused_by))
        return "another limiter has refused";
    auto const& [in, exact] = refusing.at(*v.refused_by);
    if (said && (!in || (exact ? *in != *said : *in < *said)))
        return "another limiter names that time";
    auto const first = std::ranges::find_if(v.named, [&](int i) { return refusing.contains(i); });
    if (!said && *v.refused_by != *first)
        return "another limiter is the first to refuse";
    return std::nullopt;
}

// Under the lock of a core its statistics are those of the case.
void chain_oracle::compare(section const& s, int core) {
    for (std::size_t i = 0; i != limiters_.size(); ++i) {
        auto const& seen = s.of_limiter[i];
        if (limiters_[i].is.core != core || !seen)
            continue;
        auto const& book = *limiters_[i].book;
        if (seen->remaining != book.remaining(s.now) || seen->capacity != book.capacity())
            violated(invariant::counts,
                     fmt::format("{} of {} remain at {} instead of {} of {}", seen->remaining,
                                 seen->capacity, i, book.remaining(s.now), book.capacity()));
    }
    drop(invariant::counts, fmt::format("the statistics of {}", core),
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
        if (limiters_[i].is.core != core || !seen)
            continue;
        std::uint64_t waiting = 0;
        amount waiting_for = 0;
        duration oldest{};
        for (auto const& p : c.waiting) {
            if (!stands(p, static_cast<int>(i)))
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
            count_refusal(truth, d.who->error, d.at - d.who->since);
    }
    auto const& seen = *s.of_core[static_cast<std::size_t>(core)];
    same("granted", seen.granted, truth.granted);
    same("granted_at_once", seen.granted_at_once, truth.granted_at_once);
    same("limited", seen.limited, truth.limited);
    same("timed_out", seen.timed_out, truth.timed_out);
    same("deadline_unreachable", seen.deadline_unreachable, truth.deadline_unreachable);
    same("queue_full", seen.queue_full, truth.queue_full);
    same("shed", seen.shed, truth.shed);
    same("exceeds_capacity", seen.exceeds_capacity, truth.exceeds_capacity);
    same("closed", seen.closed, truth.closed);
    same("cancelled", seen.cancelled, truth.cancelled);
    same("permits_granted", seen.permits_granted, truth.permits_granted);
    same("waited_total", seen.waited_total.count(), truth.waited_total.count());
    same("waited_max", seen.waited_max.count(), truth.waited_max.count());
    same("refused_waited_total", seen.refused_waited_total.count(),
         truth.refused_waited_total.count());
    same("refused_waited_max", seen.refused_waited_max.count(), truth.refused_waited_max.count());
    same("live", seen.live, truth.live);
    same("in_use", seen.in_use, truth.in_use);
    return wrong;
}

// "`async_drain` of each waits for it."
void chain_oracle::note_who_is_idle() {
    for (int core = 0; core != number_of_cores_; ++core) {
        auto& at = cores_[static_cast<std::size_t>(core)];
        bool const idle = at.counts.live == 0 && std::ranges::any_of(cases_, [&](auto const& c) {
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

// By how much the first in line may be served too late: a bucket makes up for it.
bool chain_oracle::may_be_late(visit const& v, int limiter, time_point now) const {
    if (limiters_[static_cast<std::size_t>(limiter)].is.which != policy::token_bucket)
        return false;
    auto const it = fits_since_.find({const_cast<visit*>(&v), limiter});
    return it != fits_since_.end() && now < weir::later(it->second, queueing_.tolerance);
}

// "Whenever no claim and no step is on its way, each waiting chain stands in a line whose limiter has no room for it,
// or in which somebody stands before it."
std::optional<std::string> chain_oracle::oversleeps(possibility const& c, time_point now) const {
    for (auto const& p : c.waiting) {
        auto const& v = *p.who;
        auto const sleeps_at = [&](int i) {
            return lets(c, v, i, now) == answer::yes && !may_be_late(v, i, now);
        };
        bool const wakes =
            p.where == place::all ? std::ranges::all_of(v.named, sleeps_at) : sleeps_at(p.where);
        if (wakes)
            return name(v) + " waits where nothing keeps it waiting";
        if (may_reserve(c, p))
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
    if (!open_.empty())
        violated(invariant::lock, "a lock is kept");
    for (; !heard_.empty(); heard_.pop_front())
        replay(heard_.front());

    drop(invariant::verdict, "who was refused waits still, or was refused without that reason",
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
    if (std::ranges::all_of(cases_, [&](auto const& c) {
            return c.left == cases_.begin()->left;
        })) {
        for (auto const& d : cases_.begin()->left) {
            if (d.who->error)
                count_refusal(cores_[static_cast<std::size_t>(counted_at(*d.who))].counts,
                              d.who->error, d.at - d.who->since);
        }
        cases next;
        for (auto c : cases_) {
            c.left.clear();
            next.insert(std::move(c));
        }
        cases_ = std::move(next);
    }

    auto const is_asleep = [](visit const& v, std::string_view why) {
        violated(invariant::asleep, fmt::format("{} still waits, though {}", name(v), why));
    };
    for (auto* const v : waiting_) {
        if (v->cancelled || v->marked)
            is_asleep(*v, "it was cancelled");
        if (v->deadline != weir::never && now >= weir::later(v->deadline, slack()))
            is_asleep(*v, "its deadline has passed");
        for (auto const i : v->named) {
            auto const at = static_cast<std::size_t>(i);
            if (limiters_[at].door == doors::shut)
                is_asleep(*v, "a limiter is closed");
            if (v->asks_of[at] > limiters_[at].book->capacity())
                is_asleep(*v, "a limiter will never let it go");
            if (fits(i, v->asks_of[at], now))
                fits_since_.try_emplace({v, i}, now);
            else
                fits_since_.erase({v, i});
        }
    }
    drop(invariant::asleep, "at a quiet moment",
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
            bool const right =
                r->doomed             ? at.dead
                : !r->error           ? r->granted
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
            violated(invariant::host, view->held ? "the context is kept running for nobody"
                                                 : "the context may return while somebody waits");
        if (view->timer && (view->dead || !waits))
            violated(invariant::host, "a timer is armed for nobody");
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
        for (auto const i : v->named) {
            auto const at = static_cast<std::size_t>(i);
            consider(limiters_[at].book->earliest(v->asks_of[at], {}, now));
        }
    }
    for (auto const& [who, since] : fits_since_)
        consider(weir::later(since, queueing_.tolerance));
    for (auto const& c : cases_) {
        for (auto const& p : c.waiting) {
            if (p.where == place::all)
                consider(weir::later(p.reserves_until, slack()));
        }
    }
    return next;
}

// "If it is the context of the first one, the handler is destroyed, uncalled": by then.
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
            violated(invariant::completion, name(*v) + " is not over in the end");
    }
    for (auto const& r : drains_) {
        if (r->is != request::state::over)
            violated(invariant::completion, "a drain is not over in the end");
    }
    for (auto const& core : cores_) {
        if (core.counts.live != 0 || core.counts.in_use != 0)
            violated(invariant::conserved, "permits are out in the end");
    }
}

}  // namespace explorer
