#include "key_oracles.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace explorer {
namespace {

using enum call::kind;
using place = weir::detail::operation::place;
using stats = weir::limiter_stats;

key_oracles* the_oracles = nullptr;

auto const aborted = error_code(boost::asio::error::operation_aborted);

constexpr std::array counts{
    &stats::granted,
    &stats::granted_immediately,
    &stats::no_permit,
    &stats::timed_out,
    &stats::deadline_unreachable,
    &stats::queue_full,
    &stats::shed,
    &stats::exceeds_capacity,
    &stats::closed,
    &stats::cancelled,
    &stats::overdue};
constexpr std::array lengths{&stats::waited_total, &stats::rejected_waited_total};
constexpr std::array longest{&stats::waited_max, &stats::rejected_waited_max};

void add(stats& all, stats const& one) {
    for (auto const count : counts)
        all.*count += one.*count;
    for (auto const length : lengths)
        all.*length += one.*length;
    for (auto const length : longest)
        all.*length = std::max(all.*length, one.*length);
    all.permits_granted += one.permits_granted;
}

// A call without a key: returns whether it affects each key alike.
bool concerns_all(call::kind k) {
    return k == cancel_all || k == shut_down || k == close || k == configure || k == pause ||
           k == resume || k == abandon || k == context_ends || k == step;
}

// The effect of a call for one key on the other keys: at most, due requests are served or removed.
call::kind to_others(call::kind k) {
    switch (k) {
        case enter:
        case try_enter:
        case enter_at_once:
        case hand_over:
        case take_up:
        case give_up:
        case leave:
        case leave_unused:
        case refund:
        case cancel:
        case cancel_all:
        case configure:
            return step;
        default:
            return other;
    }
}

}  // namespace

key_oracles::key_oracles(simulation& world, bool leave_is_told, int help)
    : world_(world), leave_is_told_(leave_is_told) {
    the_oracles = this;
    for (int k = 0; k != keys; ++k) {
        of_key_.emplace_back(world.what, world.threads.now());
        of_key_.back().calls_help(help);
        of_key_.back().numbers_begin_anew();
    }
    for (auto& c : of_core_)
        c.for_all = world.what.at_first;
}

key_oracles& key_oracles::current() noexcept {
    return *the_oracles;
}

int key_oracles::key_called() const {
    auto const& c = world_.calling();
    if (c.key == call::every_key)
        violated(invariant::verdict, "a key is first used in a call that does not concern it");
    return c.key;
}

call& key_oracles::calling(int key) {
    auto& c = world_.calling();
    if (core_of(key) != c.core || c.parts.empty())
        violated(invariant::conserved, "a key is used in a call to another core");
    return c.parts[static_cast<std::size_t>(key)];
}

void key_oracles::describe(call& c) {
    c.parts.resize(keys);
    each_key_of(c.core, [&](int k) {
        auto& part = c.parts[static_cast<std::size_t>(k)];
        bool const mine = c.key == call::every_key ? concerns_all(c.what) : c.key == k;
        part.what = mine ? c.what : to_others(c.what);
        part.core = c.core;
        part.key = k;
        if (!mine)
            return;
        part.n = c.n;
        part.more = c.more;
        part.who = c.who;
        part.link = c.link;
        part.change = c.change;
        part.pause_ends = c.pause_ends;
        part.unused = c.unused;
    });
}

void key_oracles::section_begins(call& c) {
    if (c.parts.empty())
        describe(c);
    each_key_of(c.core, [&](int k) { of(k).locked(c.parts[static_cast<std::size_t>(k)]); });
    of_core(c.core).was_idle = idle(c.core);
    if (c.what == cancel && c.key == call::every_key && c.link->target) {
        c.target = world_.judge.find(c.link->target);
        if (!c.target || c.target->is == request::state::decided)
            violated(invariant::verdict, "a cancellation finds a drain that is over");
        c.target->cancelled = true;
    }
    if (c.sections != 0)
        return;
    if (c.what == leave && !leave_is_told_) {
        auto& part = calling(c.key);
        of(c.key).came_home(part, part.n, 0, world_.threads.now());
    }
}

void key_oracles::tells_time(time_point read, time_point now) {
    if (now < read || now > world_.threads.now())
        violated(invariant::verdict, "an event has a time outside its call");
    world_.calling().told = now;
}

time_point key_oracles::now() const {
    return world_.calling().told.value_or(world_.threads.now());
}

// A key with individual options keeps them when the common options change.
void key_oracles::changes_rules() {
    auto& c = world_.calling();
    auto& core = of_core(c.core);
    each_key_of(c.core, [&](int k) {
        auto& part = c.parts[static_cast<std::size_t>(k)];
        auto& own = has_own_[static_cast<std::size_t>(k)];
        if (c.key == call::every_key && own)
            part.what = step;
        if (part.what != configure)
            return;
        if (c.key != call::every_key)
            own = !c.resets;
        if (c.resets)
            part.change = core.for_all;
        of(k).configured(part, part.change, now());
    });
    if (c.key == call::every_key)
        core.for_all = c.change;
}

void key_oracles::section_ends(call& c) {
    auto const time = now();
    if (++c.sections == 1)
        c.at = time;
    c.told.reset();
    each_key_of(c.core, [&](int k) {
        auto& part = c.parts[static_cast<std::size_t>(k)];
        of(k).unlocked(part, time);
        if (c.key != k)
            return;
        c.granted = part.granted;
        c.got = part.got;
        c.expected = part.expected;
        c.retry_in = part.retry_in;
    });
    judge_drains(c);
}

bool key_oracles::idle(int core) {
    bool all = true;
    each_key_of(core, [&](int k) { all = all && of(k).idle(); });
    return all;
}

void key_oracles::judge_drains(call& c) {
    auto& core = of_core(c.core);
    bool const is_idle = idle(c.core);
    bool was_idle_for_newcomer = true;
    each_key_of(c.core, [&](int k) {
        was_idle_for_newcomer = was_idle_for_newcomer && of(k).was_idle_for_newcomer();
    });
    core.gone = core.gone || c.what == abandon || c.what == context_ends;
    if (c.what == cancel_all && c.key == call::every_key && c.sections == 1) {
        for (auto* r : core.drains)
            r->marked = true;
    }
    for (auto* r : core.drains) {
        if (r->op->at == place::draining)
            continue;
        auto const ec = r->op->error;
        auto const must = [&](bool reason) {
            if (!reason)
                violated(invariant::verdict, "a drain ends without that reason: " +
                                                 (ec ? ec.message() : std::string("all is idle")));
        };
        r->is = request::state::decided;
        r->error = ec;
        r->doomed = c.what == context_ends;
        if (r->doomed)
            continue;
        must(!r->cancelled || ec == aborted);
        if (!ec)
            must(core.was_idle || was_idle_for_newcomer || is_idle);
        else if (ec == aborted)
            must(r->cancelled || r->marked);
        else
            must(ec == weir::errc::closed && core.gone);
    }
    std::erase_if(core.drains, [](request* r) { return r->is != request::state::waiting; });
    if (c.what == drain && c.who->is == request::state::entering)
        begins_to_drain(c, is_idle);
}

void key_oracles::begins_to_drain(call& c, bool is_idle) {
    auto& core = of_core(c.core);
    auto& r = *c.who;
    if (r.op->at == place::draining) {
        if (is_idle || core.gone || r.cancelled)
            violated(invariant::verdict, "a drain waits for nothing");
        r.number = r.op->number;
        r.has_waited = true;
        r.is = request::state::waiting;
        core.drains.push_back(&r);
    } else if (r.op->error) {
        if (r.op->error != (r.cancelled ? aborted : error_code(weir::errc::closed)) ||
            !(core.gone || r.cancelled))
            violated(invariant::verdict, "a drain is rejected without a reason");
        r.is = request::state::decided;
        r.error = r.op->error;
    } else if (is_idle && !core.gone && !r.cancelled) {
        r.is = request::state::decided;
    }  // else it throws
}

time_point key_oracles::next_event(time_point now) const {
    auto next = weir::never;
    for (auto const& one : of_key_)
        next = std::min(next, one.next_event(now));
    return next;
}

stats key_oracles::with_counts(int key, stats now) {
    add(now, of(key).counted());
    now.live = of(key).live();
    now.in_use = of(key).out();
    return now;
}

void key_oracles::quiet_together(station const& at, oracle::quiet_view const& seen) {
    auto const& core = of_core(at.number);
    if (!core.drains.empty() && (seen.dead || core.gone || idle(at.number)))
        violated(invariant::asleep, "a drain waits for nothing");
    if (std::ranges::any_of(core.drains, [](request const* r) {
            return r->cancelled || r->marked;
        }))
        violated(invariant::asleep, "a drain waits, though it was cancelled");
    oracle::quiet_view nothing{};
    nothing.now = seen.now;
    world_.judge.quiet(nothing);

    stats all;
    bool waits = false;
    each_key_of(at.number, [&](int k) {
        add(all, of(k).counted());
        all.live += of(k).live();
        all.in_use += of(k).out();
        waits = waits || of(k).callers_waiting() != 0;
    });
    if (seen.held != ((waits || !core.drains.empty()) && !seen.dead))
        violated(invariant::host, seen.held ? "the context is kept running without need"
                                            : "the context may return while a request waits");
    if (seen.timer && (seen.dead || !waits))
        violated(invariant::host, "a timer is armed without need");
    if (!seen.stats)
        return;
    auto const& s = *seen.stats;
    bool same =
        s.permits_granted == all.permits_granted && s.live == all.live && s.in_use == all.in_use;
    for (auto const count : counts)
        same = same && s.*count == all.*count;
    for (auto const length : lengths)
        same = same && s.*length == all.*length;
    for (auto const length : longest)
        same = same && s.*length == all.*length;
    if (!same)
        violated(invariant::counts, "the statistics of a core are not the sum over its keys");
    if (seen.waits)
        oracle::compare(*seen.waits, all);
}

void key_oracles::finished() const {
    for (auto const& one : of_key_)
        one.finished();
    world_.judge.finished();
}

stats const& key_oracles::counted() {
    sum_ = {};
    for (auto const& one : of_key_)
        add(sum_, one.counted());
    return sum_;
}

}  // namespace explorer
