#include "tree_oracle.hpp"

#include <boost/asio/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace explorer {
namespace {

using enum call::kind;
using stats = weir::limiter_stats;

auto const aborted = error_code(boost::asio::error::operation_aborted);

bool in_line(request const& r) {
    return r.op->at != weir::detail::operation::place::nowhere;
}

// The numbers that the limiter counts, by the reason of a rejection.
struct counter {
    error_code why;
    std::uint64_t stats::* count;
};
std::array const rejections{
    counter{weir::errc::no_permit, &stats::no_permit},
    counter{weir::errc::timed_out, &stats::timed_out},
    counter{weir::errc::deadline_unreachable, &stats::deadline_unreachable},
    counter{weir::errc::queue_full, &stats::queue_full},
    counter{weir::errc::shed, &stats::shed},
    counter{weir::errc::exceeds_capacity, &stats::exceeds_capacity},
    counter{weir::errc::too_many_keys, &stats::too_many_keys},
    counter{weir::errc::closed, &stats::closed},
    counter{aborted, &stats::cancelled}};

// Returns whether the limiter reads the clock in the first section of a call.
bool reads_the_clock(call const& c) {
    return c.what == enter || c.what == try_enter || c.what == enter_at_once || c.what == charge ||
           c.what == overdraw;
}

}  // namespace

tree_oracle::tree_oracle(simulation& world, weir::rate_tree_options const& options,
                         std::vector<names> paths, int help)
    : world_(world),
      queueing_(world.what.queueing),
      paths_(std::move(paths)),
      help_(help),
      permits_(options, world.threads.now()) {}

// ---- Sections

void tree_oracle::section_begins(call& c) {
    if (c.what == pause && c.sections == 0)
        pause_ends_ = std::max(pause_ends_, c.pause_ends);
    if (c.what == resume && c.sections == 0)
        pause_ends_ = time_point::min();
    c.target = c.what == cancel && c.link->target ? world_.judge.find(c.link->target) : nullptr;
    if (c.what == cancel && c.link->target &&
        (!c.target || c.target->is == request::state::decided))
        violated(invariant::verdict, "a cancellation finds a request that has left the queue");
}

void tree_oracle::section_ends(call& c, stats const& seen, time_point now) {
    if (++c.sections == 1)
        c.at = now;
    if (now > world_.threads.now() ||
        (now != world_.threads.now() && c.sections == 1 && reads_the_clock(c)))
        violated(invariant::verdict, "the limiter uses a wrong time");
    permits_.pass(now);
    knows_turns_ = knows_turns_ || waiting_.empty();
    waited_before_ = waiting_.size();
    judge_before(c, now);
    look_at_the_lines(c, now);
    judge_help(c, now);
    bool const took = seen.granted != counted_.granted;
    if (c.what == enter)
        judge_enter(c, now, took);
    else if ((c.what == try_enter || c.what == enter_at_once) && c.sections == 1)
        judge_try(c, now, took);
    if (std::ranges::any_of(waiting_, [](request const* r) { return !in_line(*r); }))
        violated(invariant::verdict, "a request leaves the queue for no newcomer");
    if (seen.granted != counted_.granted)
        violated(invariant::conserved, fmt::format("{} requests were granted, and {} are known",
                                                   seen.granted, counted_.granted));
    if (seen.in_use != out_ || seen.live != live_)
        violated(invariant::conserved,
                 fmt::format("{} permits are in use instead of {}", seen.in_use, out_));
}

// The changes of a call before any request is examined.
void tree_oracle::judge_before(call& c, time_point now) {
    bool const is_first = c.sections == 1;
    switch (c.what) {
        case cancel:
            if (c.target)
                c.target->cancelled = true;
            break;
        case cancel_all:
            for (auto* r : waiting_)
                r->marked =
                    r->marked || (is_first && (c.key == call::every_key || c.key == r->key));
            break;
        case shut_down:
            rejects_newcomers_ = true;
            break;
        case close:
        case abandon:
            rejects_newcomers_ = closed_ = true;
            break;
        case context_ends:
            rejects_newcomers_ = closed_ = true;
            for (auto* r : std::exchange(waiting_, {})) {
                r->is = request::state::decided;
                r->doomed = true;
                permits_.erase(find(r->key).node, r->number);
            }
            break;
        case charge:
            if (is_first)
                judge_try(c, now, false);
            break;
        case leave:
        case leave_unused:
        case refund:
        case overdraw:
        case split:
        case merge:
            if (is_first)
                judge_return(c);
            break;
        default:
            break;
    }
}

// Permits that are released, returned or taken beyond the request.
void tree_oracle::judge_return(call& c) {
    auto const leaf = find(c.key).node;
    if (c.what == split)
        ++live_;
    if (c.what == leave || c.what == leave_unused || c.what == merge)
        --live_;
    if (c.what == leave || c.what == leave_unused || c.what == refund)
        out_ -= c.n;
    if ((c.what == leave_unused || c.what == refund) && c.n != 0 && find(c.key).is == place::leaf)
        permits_.put_back(leaf, c.n, permits_.above(leaf, c.taken));
    if (c.what == overdraw) {
        out_ += c.n;
        static_cast<void>(permits_.charge(leaf, c.n));
    }
}

void tree_oracle::configured(weir::rate_tree_options const& options, time_point now) {
    permits_.pass(now);
    permits_.configure(options);
    knows_turns_ = false;
    for (auto const* r : waiting_) {
        if (!why_never(r->key, r->n))
            permits_.push(find(r->key).node, {r->n, r->number});
    }
}

// ---- Requests that wait

// Checks which requests have left in this section, and why. A request that makes way for a newcomer leaves later.
void tree_oracle::look_at_the_lines(call& c, time_point now) {
    left_late_.clear();
    for (auto* r : waiting_) {
        if (in_line(*r) || r->op->granted || makes_way(*r))
            continue;
        removed(*r, c, now);
        rejected(*r, now);
        if (r->error == errc::timed_out)
            left_late_.push_back(find(r->key).node);
        permits_.erase(find(r->key).node, r->number);
    }
    std::erase_if(waiting_, [](request const* r) { return r->is != request::state::waiting; });
    grant_in_turn(now);
}

void tree_oracle::removed(request& r, call& c, time_point now) {
    auto const ec = r.op->error;
    auto const must = [&](bool reason) {
        if (!reason)
            violated(invariant::verdict, fmt::format("{} leaves the queue without that reason: {}",
                                                     name(r), ec ? ec.message() : "none"));
    };
    must(!r.cancelled || ec == aborted);
    must(!r.marked || ec == aborted || ec == errc::closed);
    if (ec == aborted)
        must(r.cancelled || r.marked);
    else if (ec == errc::closed)
        must(closed_);
    else if (ec == errc::timed_out)
        must(now > r.deadline);
    else if (ec == errc::exceeds_capacity)
        must(c.what == configure || why_never(r.key, r.n) == ec);
    else if (ec == errc::deadline_unreachable)
        must(ready_at(find(r.key).node, r.n, now) > r.deadline);
    else
        must(false);
}

// Grants the requests that were granted in this section, in an order in which it is the turn of each.
void tree_oracle::grant_in_turn(time_point now) {
    auto const was_granted = [&](request const* r) { return r && !in_line(*r) && r->op->granted; };
    auto left = std::ranges::count_if(waiting_, was_granted);
    if (left == 0)
        return;
    if (is_paused(now))
        violated(invariant::room, "a request is granted in a pause");
    for (; left != 0; --left) {
        auto const due = knows_turns_ ? permits_.next() : permits_.possible();
        auto const next = std::ranges::find_if(due, [&](tree_permits::grant const& g) {
            auto const* const r = waiting(g.id);
            return was_granted(r) &&
                   (knows_turns_ || r->op->granted.id() == permits_.levels(g.leaf, g.from));
        });
        if (next == due.end() &&
            std::ranges::any_of(waiting_, [](request const* r) { return makes_way(*r); }))
            return;  // it is granted after that
        if (next == due.end()) {
            auto const& r = **std::ranges::find_if(waiting_, was_granted);
            if (permits_.first(find(r.key).node) != r.number)
                violated(invariant::order, name(r) + " is served before an older one of its leaf");
            if (due.empty())
                violated(invariant::room, name(r) + " is granted without permits");
            violated(invariant::order, fmt::format("{} is served before {}", name(r),
                                                   name(*waiting(due.front().id))));
        }
        auto& r = *waiting(next->id);
        if (r.cancelled || r.marked)
            violated(invariant::cancelled, name(r) + " is granted after it was cancelled");
        if (now > r.deadline)
            violated(invariant::deadline, name(r) + " is granted after its deadline");
        if (closed_)
            violated(invariant::closed, name(r) + " is granted after close");
        auto const t = permits_.levels(next->leaf, next->from);
        permits_.serve(*next);
        granted(r, t, now);
        counted_.waited_total += now - r.since;
        counted_.waited_max = std::max(counted_.waited_max, now - r.since);
    }
    std::erase_if(waiting_, [](request const* r) { return r->is != request::state::waiting; });
}

// Returns a request that should have been granted. If the turns are not known, that is certain only for the own permits
// of a leaf, or if no other leaf waits.
request* tree_oracle::due(time_point now) {
    if (is_paused(now))
        return nullptr;
    auto const next = permits_.next();
    if (next.empty() || (!knows_turns_ && next.front().leaf != next.front().from &&
                         permits_.waits_elsewhere(next.front().leaf)))
        return nullptr;
    return waiting(next.front().id);
}

// A request that is due blocks no other, even while the limiter's context does not run: a call that asks for a permit
// serves and removes due requests first.
void tree_oracle::judge_help(call const& c, time_point now) {
    bool const at_the_gate = c.what == enter || c.what == try_enter || c.what == enter_at_once;
    bool const is_cancelled = c.who && c.who->cancelled;  // and so it asks for nothing
    if (!at_the_gate || is_cancelled || c.sections != 1 ||
        4 * waited_before_ >= static_cast<std::size_t>(help_))
        return;
    auto const slack = std::max(queueing_.tolerance, duration(1));
    for (auto const* r : waiting_) {
        if (r->deadline != weir::never && now >= weir::later(r->deadline, slack))
            violated(invariant::asleep, name(*r) + " blocks a call after its deadline");
    }
    if (auto const* const next = due(now))
        violated(invariant::asleep,
                 name(*next) + " blocks a call, though permits are available for it");
}

void tree_oracle::granted(request& r, ticket t, time_point now) {
    r.is = request::state::decided;
    r.got = r.n;
    r.granted = true;
    r.decided_at = now;
    tickets_[&r] = t;
    out_ += r.n;
    ++live_;
    ++counted_.granted;
    counted_.permits_granted += r.n;
}

void tree_oracle::rejected(request& r, time_point now) {
    r.is = request::state::decided;
    r.error = r.op->error;
    r.decided_at = now;
    count(r.error);
    if (r.number == 0)
        return;
    counted_.rejected_waited_total += now - r.since;
    counted_.rejected_waited_max = std::max(counted_.rejected_waited_max, now - r.since);
}

std::string tree_oracle::name(request const& r) {
    return fmt::format("request {} of caller {} for {} of key {}", r.number, r.caller, r.n, r.key);
}

bool tree_oracle::makes_way(request const& r) {
    return !in_line(r) && r.op->error == errc::shed;
}

void tree_oracle::count(error_code ec) {
    auto const found = std::ranges::find(rejections, ec, &counter::why);
    if (found == rejections.end())
        violated(invariant::verdict, "a rejection without a known reason: " + ec.message());
    ++(counted_.*found->count);
}

ticket tree_oracle::ticket_of(request const& r) const {
    auto const found = tickets_.find(&r);
    return found == tickets_.end() ? 0 : found->second;
}

tree_permits::named tree_oracle::find(int key) const {
    return permits_.find(paths_.at(static_cast<std::size_t>(key)));
}

// Returns why a request can never be granted, or nothing.
error_code tree_oracle::why_never(int key, amount n) const {
    auto const at = find(key);
    if (at.is == place::inner)
        return n == 0 ? errc::too_many_keys : errc::exceeds_capacity;
    if (at.is == place::nowhere)
        return errc::too_many_keys;
    return n > permits_.capacity(at.node) ? error_code(errc::exceeds_capacity) : error_code();
}

request* tree_oracle::waiting(std::uint64_t number) const {
    auto const found = std::ranges::find(waiting_, number, &request::number);
    return found == waiting_.end() ? nullptr : *found;
}

// Returns when a leaf could be granted `n` permits if no request waited; `unknown` if that is not soon.
time_point tree_oracle::ready_at(std::size_t leaf, amount n, time_point now) {
    if (pause_ends_ == weir::never)
        return weir::never;
    auto const ready = permits_.ready_at(leaf, n);
    return is_paused(now) && ready != weir::unknown ? std::max(ready, pause_ends_) : ready;
}

// ---- Quiet moments

time_point tree_oracle::next_event(time_point now) {
    auto next = weir::never;
    auto const consider = [&](time_point t) {
        if (t > now)
            next = std::min(next, t);
    };
    auto const slack = std::max(queueing_.tolerance, duration(1));
    for (auto const* r : waiting_) {
        if (r->deadline != weir::never)
            consider(weir::later(r->deadline, slack));
    }
    if (waiting_.empty())
        return next;
    if (is_paused(now)) {
        consider(pause_ends_);
        return next;
    }
    permits_.pass(now);
    consider(permits_.next_at(next));
    return next;
}

void tree_oracle::quiet(oracle::quiet_view const& seen) {
    auto const is_asleep = [](request const& r, std::string_view why) {
        violated(invariant::asleep, fmt::format("{} still waits, though {}", name(r), why));
    };
    oracle::quiet_view nothing{};
    nothing.now = seen.now;
    world_.judge.quiet(nothing);
    auto const slack = std::max(queueing_.tolerance, duration(1));
    for (auto const* r : waiting_) {
        if (seen.dead)
            is_asleep(*r, "the context is destroyed");
        if (r->cancelled || r->marked)
            is_asleep(*r, "it was cancelled");
        if (closed_)
            is_asleep(*r, "the limiter is closed");
        if (why_never(r->key, r->n))
            is_asleep(*r, "it can never be granted");
        if (r->deadline != weir::never && seen.now >= weir::later(r->deadline, slack))
            is_asleep(*r, "its deadline has passed");
    }
    permits_.pass(seen.now);
    if (auto const* const next = due(seen.now))
        is_asleep(*next, "it is its turn and permits are available");
    if (seen.held != (!waiting_.empty() && !seen.dead))
        violated(invariant::host, seen.held ? "the context is kept running without need"
                                            : "the context may return while a request waits");
    if (seen.timer && (seen.dead || waiting_.empty()))
        violated(invariant::host, "a timer is armed without need");
    if (!seen.stats)
        return;

    auto const same = [](std::string_view what, auto said, auto truth) {
        if (said != truth)
            violated(invariant::counts, fmt::format("{}: {} instead of {}", what, said, truth));
    };
    auto const& s = *seen.stats;
    for (auto const& each : rejections)
        same(each.why.message(), s.*each.count, counted_.*each.count);
    same("granted_immediately", s.granted_immediately, counted_.granted_immediately);
    same("permits_granted", s.permits_granted, counted_.permits_granted);
    same("waited_total", s.waited_total.count(), counted_.waited_total.count());
    same("waited_max", s.waited_max.count(), counted_.waited_max.count());
    same("rejected_waited_total", s.rejected_waited_total.count(),
         counted_.rejected_waited_total.count());
    same("rejected_waited_max", s.rejected_waited_max.count(),
         counted_.rejected_waited_max.count());
    same("waiting", s.waiting, waiting_.size());
    if (seen.waits)
        oracle::compare(*seen.waits, counted_);
}

void tree_oracle::finished() const {
    world_.judge.finished();
    if (out_ != 0 || live_ != 0)
        violated(invariant::conserved, fmt::format("{} permits are in use at the end", out_));
}

}  // namespace explorer
