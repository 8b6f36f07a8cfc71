#include "oracle.hpp"

#include <boost/asio/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace explorer {
namespace {

using place = weir::detail::operation::place;

auto const aborted = error_code(boost::asio::error::operation_aborted);

std::string name(request const& r) {
    auto const what = r.wants == request::wish::permits    ? "request"
                      : r.wants == request::wish::idleness ? "drain"
                                                           : "watch";
    return fmt::format("{} {} of caller {}", what, r.number, r.caller);
}

std::string text(time_point t) {
    return t == weir::never ? "never" : fmt::format("{} ns", t.time_since_epoch().count());
}

// The calls that may serve or remove waiting requests: all that ask for permits, release permits, or concern all.
bool may_serve(call const& c) {
    switch (c.what) {
        case call::kind::enter:
        case call::kind::try_enter:
        case call::kind::enter_at_once:
        case call::kind::hand_over:
        case call::kind::take_up:
        case call::kind::give_up:
        case call::kind::leave:
        case call::kind::leave_unused:
        case call::kind::refund:
        case call::kind::cancel:
        case call::kind::cancel_all:
        case call::kind::close:
        case call::kind::configure:
        case call::kind::state:
        case call::kind::pause:
        case call::kind::resume:
        case call::kind::abandon:
        case call::kind::step:
            return true;
        default:
            return false;
    }
}

// The calls that always examine the first waiting request.
bool looks_at_the_line(call const& c) {
    using enum call::kind;
    return c.what == enter || c.what == try_enter || c.what == enter_at_once ||
           c.what == configure || c.what == step;
}

// The number of permits of a request that are granted.
amount share(amount n, amount more, amount room) {
    return more == 0 ? n : std::clamp(room, n, n + more);
}

bool is_caller(request const& r) {
    return r.wants == request::wish::permits;
}

bool in_line(request const& r) {
    return r.op->at != place::nowhere;
}

}  // namespace

oracle::oracle(scenario const& s, time_point now)
    : queueing_(s.queueing),
      order_(s.queueing),
      policy_(s.which),
      foresees_turns_(!s.in_any &&
                      (policy_ == policy::sliding_log || policy_ == policy::sliding_window ||
                       policy_ == policy::fixed_window)),
      book_(ledger::of(s.which, s.at_first, now)),
      promise_(ledger::promise_of(s.which, s.at_first)) {
    order_.has_seats(book_->capacity());
}

void oracle::locked(call& c) {
    c.target = nullptr;
    c.takes.clear();
    c.room.clear();
    c.home = c.refunded = 0;
    c.configured = false;
    if (c.what == call::kind::pause && c.sections == 0)
        pause_ends_ = std::max(pause_ends_, c.pause_ends);
    if (c.what == call::kind::resume && c.sections == 0)
        pause_ends_ = time_point::min();
    if ((c.what == call::kind::hand_over || c.what == call::kind::give_up) && c.sections == 0)
        c.target = c.who->op && in_line(*c.who) ? c.who : nullptr;
    if (c.what != call::kind::cancel || !c.link->target)
        return;
    c.target = find(c.link->target);
    if (c.target && c.target->heir == c.link->target)
        // It asks for its position later, and gets the notification then.
        c.target = nullptr;
    else if (!c.target || c.target->is == request::state::decided)
        violated(invariant::verdict, "a cancellation finds a request that has left the queue");
}

request* oracle::find(weir::detail::operation const* op) const {
    auto const it = std::ranges::find_if(all_, [&](auto const& r) {
        return r->op == op || (op && r->heir == op);
    });
    return it == all_.end() ? nullptr : it->get();
}

void oracle::unlocked(call& c, time_point now) {
    if (++c.sections == 1)
        c.at = now;
    gave_up_.clear();
    used_takes_ = 0;
    takes_for_the_line_ = false;
    line_moved_ = replaced_ = false;
    using enum call::kind;
    if (!c.takes.empty() && !may_serve(c) && c.what != charge && c.what != overdraw)
        violated(invariant::room, "a grant in a call that grants nothing");

    judge_before(c);
    waited_at_first_ = callers_waiting();
    look_at_the_line(c, now);
    idle_for_newcomer_ = idle();
    switch (c.what) {
        case enter:
            judge_enter(c, now);
            break;
        case try_enter:
        case enter_at_once:
        case charge:
            if (c.sections == 1)
                judge_try(c, now);
            break;
        case drain:
            judge_drain(c);
            break;
        case watch:
            judge_watch(c, now);
            break;
        case take_up:
            judge_take_up(c);
            break;
        case overdraw:
            for (auto const n : c.takes)
                out_ += n;
            used_takes_ = c.takes.size();
            break;
        default:
            break;
    }
    judge_help(c, now);
    if (looks_at_the_line(c) && !step_is_unread_)
        step_is_unknown_ = false;
    if (used_takes_ != c.takes.size())
        violated(invariant::conserved, "permits were taken without a request");
    if (auto const told = book_->in_use(); told && *told != out_)
        violated(
            invariant::conserved,
            fmt::format("{} permits are in use, and the policy was notified of {}", out_, *told));
    locked(c);
}

// The changes of a call before any request is examined.
void oracle::judge_before(call& c) {
    using enum call::kind;
    switch (c.what) {
        case leave:
        case leave_unused:
        case refund:
        case split:
        case merge:
            if (c.sections == 1)
                judge_return(c);
            break;
        case cancel:
        case give_up:
            if (c.target)
                c.target->cancelled = true;
            break;
        case hand_over:
            if (c.sections != 1)
                break;
            if (c.target) {
                c.who->cancelled = c.who->heir->cancelled;
                c.who->op = c.who->heir;
            }
            c.who->heir = nullptr;
            break;
        case cancel_all:
            if (c.sections == 1) {
                for (auto* r : waiting_)
                    r->marked = true;
            }
            break;
        case shut_down:
            rejects_newcomers_ = true;
            break;
        case abandon:
            rejects_newcomers_ = closed_ = gone_ = true;
            break;
        case close:
            rejects_newcomers_ = closed_ = true;
            break;
        case configure:
            if (c.configured && book_->in_force() != c.change)
                violated(invariant::verdict, "other options are in force than were given");
            break;
        case context_ends:
            rejects_newcomers_ = closed_ = gone_ = dead_ = true;
            for (auto* r : std::exchange(waiting_, {})) {
                r->is = request::state::decided;
                r->doomed = true;
            }
            break;
        default:
            break;
    }
}

// A request that is due blocks no other, even while the limiter's context does not run: a call that asks for a permit
// serves and removes due requests first.
void oracle::judge_help(call const& c, time_point now) const {
    using enum call::kind;
    bool const uses_place = c.what == take_up || c.what == hand_over;
    bool const at_the_gate = c.what == enter || c.what == try_enter || c.what == enter_at_once ||
                             (uses_place && c.who->is == request::state::waiting);
    bool const is_cancelled = c.who && c.who->cancelled;  // and so it asks for nothing
    if (!at_the_gate || is_cancelled || c.sections != 1 ||
        4 * waited_at_first_ >= static_cast<std::uint64_t>(help_))
        return;
    auto const slack = std::max(queueing_.tolerance, duration(1));
    for (auto const* r : waiting_) {
        if (is_caller(*r) && r->op && in_line(*r) && r->deadline != weir::never &&
            now >= weir::later(r->deadline, slack))
            violated(invariant::asleep, name(*r) + " blocks a call after its deadline");
    }
    // The request of this call may change which one is next. If another one was evicted for it, the queue is served
    // with it.
    auto const* const newcomer = c.what == enter && in_line(*c.who) && !replaced_ ? c.who : nullptr;
    if (auto const* const next = next_caller(now, newcomer); next && fits(next->n, now))
        violated(invariant::asleep,
                 name(*next) + " blocks a call, though permits are available for it");
}

// The decision that `enter` must make, in the order of its checks. The requests in the queue were examined before it
// and, if one was evicted for it, once more after it: then it may even be granted already.
void oracle::judge_enter(call& c, time_point now) {
    auto& r = *c.who;
    if (r.is != request::state::entering)
        return;
    auto& op = *r.op;
    bool const queued = op.number != 0;
    auto const rejection = queued ? error_code() : op.error;
    bool const nobody_waits = callers_waiting() == 0;
    auto const expect = [&](bool reason, error_code ec, bool exactly) {
        if (rejection == ec && !reason)
            violated(invariant::verdict,
                     fmt::format("{} for {} is rejected without that reason: {}", name(r), r.n,
                                 ec.message()));
        if (rejection != ec && reason && exactly)
            violated(invariant::verdict, fmt::format("{} for {} should have been rejected: {}",
                                                     name(r), r.n, ec.message()));
    };

    if (op.granted && !queued) {
        if (r.n != 0 && !nobody_waits && !might_pass_)
            violated(invariant::barging, fmt::format("{} while another request waits", name(r)));
        if (rejects_newcomers_)
            violated(invariant::closed, name(r) + " is granted at once");
        if (r.cancelled)
            violated(invariant::cancelled, name(r) + " is granted at once");
        if (r.n != 0 && (c.takes.size() != used_takes_ + 1 ||
                         c.takes.back() != share(r.n, r.more, c.room.back())))
            violated(invariant::conserved, "the grant differs from the request");
        used_takes_ = c.takes.size();
        grant(r, r.n == 0 ? 0 : c.takes.back(), now);
        r.turn = now;
        ++counted_.granted_immediately;
        return;
    }
    if (!rejection && !queued)
        return;  // it throws, or has not decided yet

    auto const length = r.patience ? *r.patience : queueing_.patience.length_or(weir::forever);
    auto const deadline = length == weir::forever ? weir::never : weir::later(now, length);
    bool const full = callers_waiting() >= static_cast<std::uint64_t>(queueing_.max_waiting);
    bool const evicts = queueing_.full == weir::when_full::evict_oldest && !nobody_waits &&
                        (!order_.groups() || order_.somebody_makes_way(r.asks_for()));
    auto const ahead = ahead_of_new(r, full && evicts, now);
    auto const ready = earliest(r.n, ahead, now);
    bool const said_so = rejection == errc::deadline_unreachable;
    // A seat that rests is not free before the end of its rest, even if the requests ahead have no predictable end.
    auto const at_best = earliest(r.n, {}, now);
    bool const too_late =
        (ready != weir::unknown && ready > deadline) ||
        (said_so && at_best != weir::unknown && at_best > deadline) ||
        (said_so && no_earlier(r.n, ahead, now) > deadline) ||
        (said_so && is_paused(now) && pause_ends_ > deadline) ||
        (said_so && r.kept && foresees_turns_ && foreseen(r, now) > deadline);

    bool undecided = true;
    auto const ask = [&](bool reason, error_code ec, bool exactly = true) {
        expect(undecided && reason, ec, exactly);
        undecided = undecided && !reason;
    };
    ask(r.cancelled, aborted);
    ask(rejects_newcomers_, errc::closed);
    if (undecided && r.n == 0)
        violated(invariant::verdict, name(r) + " asks for 0 permits, and does not get them");
    ask(r.n > book_->capacity(), errc::exceeds_capacity);
    bool const may_go = nobody_waits || may_pass(r.asks_for(), now);
    if (undecided && may_go && !line_moved_ && fits(r.n, now))
        violated(
            invariant::verdict,
            fmt::format("{} for {} is not granted immediately, though no request is before it and "
                        "permits are available: {}",
                        name(r), r.n, queued ? "waits" : op.error.message()));
    // Behind other requests the policy may predict less than is possible.
    ask(too_late && ((nobody_waits && !line_moved_) || said_so), errc::deadline_unreachable);
    ask(deadline <= now, errc::timed_out);
    ask(full && !evicts, errc::queue_full);

    if (!queued) {
        check_retry(r, full && evicts, now);
        reject(r, op.error, now);
        return;
    }
    if (begins_anew_ && callers_waiting() == 0)
        last_number_ = last_served_ = 0;
    if (op.number <= last_number_)
        violated(invariant::order,
                 fmt::format("{} joins the queue behind number {}", op.number, last_number_));
    r.deadline = deadline;
    waits(r, now);
    look_at_the_line(c, now);
    if (callers_waiting() > static_cast<std::uint64_t>(queueing_.max_waiting))
        violated(invariant::verdict, "more requests wait than allowed");
    r.turn = r.is != request::state::waiting ? now
             : foresees_turns_               ? foreseen(r, now)
                                             : earliest(r.n, ahead_of(&r), now);
}

void oracle::waits(request& r, time_point now) {
    last_number_ = r.number = r.op->number;
    r.has_waited = true;
    r.since = now;
    if (is_caller(r) && callers_waiting() == 0 && !replaced_)
        order_.begins(now);
    r.is = request::state::waiting;
    waiting_.push_back(&r);
}

void oracle::check_retry(request const& r, bool evicts, time_point now) const {
    auto const ec = r.op->error;
    if (ec != errc::timed_out && ec != errc::deadline_unreachable && ec != errc::queue_full)
        return;
    auto const said = r.op->granted.retry_after();
    auto const ahead = ahead_of_new(r, evicts, now);
    auto ready = earliest(r.n, ahead, now);
    if (r.kept && foresees_turns_)
        ready = std::max(ready, foreseen(r, now));
    auto const wait = ready >= weir::never ? weir::forever : ready - now;
    auto const told = said.value_or(weir::forever);
    // Behind other requests it may be too early, and it may be unknown if only the policy could predict it.
    if (callers_waiting() == 0 ? told != wait : said && told > wait)
        violated(invariant::verdict,
                 fmt::format("{} has the retry time {} ns, and it should be {} ns", name(r),
                             told.count(), wait.count()));
}

void oracle::judge_try(call& c, time_point now) {
    using enum call::kind;
    bool const nobody_waits = callers_waiting() == 0;
    bool const took = c.takes.size() > used_takes_;
    if (c.what == charge)
        c.expected = rejects_newcomers_ ? error_code(errc::closed) : error_code();
    else if (rejects_newcomers_)
        c.expected = errc::closed;
    else if (c.n == 0)
        c.expected = error_code();
    else if (c.n > book_->capacity())
        c.expected = errc::exceeds_capacity;
    else if (took || ((nobody_waits || may_pass({c.n, c.how}, now)) && fits(c.n, now)))
        c.expected = error_code();
    else
        c.expected = errc::no_permit;
    if (c.what == try_enter && c.expected == errc::no_permit && nobody_waits && !line_moved_) {
        auto const ready = earliest(c.n, {}, now);
        c.retry_in = ready >= weir::never ? weir::forever : ready - now;
    }

    if (took && c.what != charge && !nobody_waits && !might_pass_)
        violated(invariant::barging, "granted immediately while another request waits");
    if (took && c.expected == errc::closed)
        violated(invariant::closed, "granted immediately after close");
    c.got = took ? c.takes[used_takes_] : 0;
    if (took && c.got != share(c.n, c.more, c.room[used_takes_]))
        violated(invariant::conserved,
                 fmt::format("{} are granted immediately, of {} and {} more", c.got, c.n, c.more));
    if (took)
        ++used_takes_;
    if (!*c.expected && (c.n == 0 || took)) {
        c.granted = true;
        out_ += c.got;
        ++live_;
        ++counted_.granted;
        ++counted_.granted_immediately;
        counted_.permits_granted += c.got;
    } else if (*c.expected && c.what != charge &&
               (c.what == try_enter || *c.expected != errc::no_permit)) {
        count(*c.expected);
    }
}

void oracle::judge_take_up(call& c) const {
    auto const& r = *c.who;
    if (c.sections == 1)
        c.expected = r.is == request::state::waiting ? error_code(errc::no_permit)
                     : r.granted || r.error          ? r.error
                                                     : error_code(errc::closed);
}

void oracle::judge_drain(call& c) {
    auto& r = *c.who;
    if (r.is != request::state::entering)
        return;
    if (r.op->at == place::draining) {
        if (idle() || gone_ || r.cancelled)
            violated(invariant::verdict, "a drain waits for nothing");
        if (r.op->number <= last_number_)
            violated(invariant::order, name(r) + " has no unique number");
        waits(r, c.at);
    } else if (r.op->error) {
        if (r.op->error != (r.cancelled ? aborted : error_code(errc::closed)) ||
            !(gone_ || r.cancelled))
            violated(invariant::verdict, "a drain is rejected without a reason");
        r.is = request::state::decided;
        r.error = r.op->error;
    } else if (idle() && !gone_ && !r.cancelled) {
        r.is = request::state::decided;
    }  // else it throws
}

void oracle::judge_watch(call& c, time_point now) {
    auto& r = *c.who;
    if (r.is != request::state::entering)
        return;
    if (r.op->at == place::watching) {
        if (gone_ || r.cancelled)
            violated(invariant::verdict, "a watch waits for nothing");
        waits(r, now);
    } else if (r.op->error) {
        if (r.op->error != (r.cancelled ? aborted : error_code(errc::closed)) ||
            !(gone_ || r.cancelled))
            violated(invariant::verdict, "a watch is rejected without a reason");
        r.is = request::state::decided;
        r.error = r.op->error;
    } else if (static_cast<weir::detail::overdue_operation&>(*r.op).found.count != 0) {
        r.is = request::state::decided;
        overdue(r, now);
    }  // else it throws
}

void oracle::judge_return(call& c) {
    using enum call::kind;
    if (c.what == split)
        ++live_;
    if (c.what == leave || c.what == leave_unused || c.what == merge)
        --live_;
    if (c.what == leave) {
        if (c.home != c.n)
            violated(invariant::conserved,
                     fmt::format("{} permits were released, and the policy was notified of {}", c.n,
                                 c.home));
        out_ -= c.n;
    }
    if (c.what == refund || c.what == leave_unused) {
        if (c.refunded != c.n)
            violated(invariant::conserved,
                     fmt::format("{} permits were not used, and the policy was notified of {}", c.n,
                                 c.refunded));
        out_ -= c.n;
    }
}

// Checks which requests have left the queue in this section, and why.
void oracle::look_at_the_line(call& c, time_point now) {
    waited_before_ = callers_waiting();
    request* passed = nullptr;
    auto in_turn = waiting_;
    if (waited_before_ != 0 && order_.newest_first(now))
        std::ranges::reverse(in_turn);
    for (auto* r : in_turn) {
        if (in_line(*r)) {
            passed = passed || !is_caller(*r) ? passed : r;
        } else if (r->op->granted ||
                   (c.what == call::kind::take_up && c.who == r && !r->op->error)) {
            if (passed && !order_.groups())
                violated(invariant::order,
                         fmt::format("{} is served before {}", name(*r), name(*passed)));
            granted_in_line(*r, c, order_.groups() ? r->take : used_takes_, now);
            ++used_takes_;
        } else if (r->op->error == errc::timed_out ||
                   (r->op->error == errc::shed && order_.may_drop(r->since, now))) {
            gave_up_.push_back(r);
        }
        line_moved_ = line_moved_ || (is_caller(*r) && !in_line(*r));
    }
    for (auto* r : waiting_) {
        if (!in_line(*r) && !r->granted)
            removed(*r, c, now);
    }
    std::erase_if(waiting_, [](request const* r) { return r->is != request::state::waiting; });
}

void oracle::granted_in_line(request& r, call& c, std::size_t take, time_point now) {
    if (!may_serve(c) || take >= c.takes.size() ||
        c.takes[take] != share(r.n, r.more, c.room[take]))
        violated(invariant::conserved, name(r) + " is granted permits that were not taken");
    if (r.cancelled || r.marked)
        violated(invariant::cancelled, name(r) + " is granted after it was cancelled");
    if (order_.foresees() && r.number <= last_served_)
        violated(invariant::order, name(r) + " is served after a later one");
    if (now > r.deadline)
        violated(invariant::deadline, fmt::format("{} is granted at {}, its deadline was {}",
                                                  name(r), text(now), text(r.deadline)));
    last_served_ = r.number;
    order_.granted(now - r.since, now);
    grant(r, c.takes[take], now);
}

void oracle::removed(request& r, call& c, time_point now) {
    using enum call::kind;
    auto const ec = r.op->error;
    auto const must = [&](bool reason) {
        if (!reason)
            violated(invariant::verdict, fmt::format("{} leaves the queue without that reason: {}",
                                                     name(r), ec ? ec.message() : "none"));
    };
    must(may_serve(c));
    must(!r.cancelled || ec == aborted);
    must(!r.marked || ec == aborted || ec == errc::closed || ec == errc::shed || !is_caller(r));
    if (!ec && r.wants == request::wish::overdue)
        overdue(r, now);
    else if (!ec)
        must(r.wants == request::wish::idleness && live_ == 0 &&
             std::ranges::none_of(waiting_, [](request const* other) {
                 return is_caller(*other) && other->op && in_line(*other);
             }));
    else if (ec == aborted)
        must(r.cancelled || r.marked);
    else if (ec == errc::closed)
        must(closed_ && (is_caller(r) || gone_));
    else if (ec == errc::timed_out)
        must(now > r.deadline);
    else if (ec == errc::shed && order_.may_drop(r.since, now))
        must(!fits(r.n, now));
    else if (ec == errc::shed) {  // the newcomer is not in the queue yet
        replaced_ = true;
        must(c.what == enter && c.who->op->number != 0 &&
             queueing_.full == weir::when_full::evict_oldest &&
             (order_.groups() ? r.may_make_way : ahead_of(&r).empty()) &&
             waited_before_ >= static_cast<std::uint64_t>(queueing_.max_waiting));
    } else if (ec == errc::exceeds_capacity)
        must(r.n > book_->capacity());
    else if (ec == errc::deadline_unreachable)
        must(earliest(r.n, order_.foresees() ? ahead_of(&r) : std::vector<amount>(), now) >
             r.deadline);
    else
        must(false);
    if (is_caller(r)) {
        counted_.rejected_waited_total += now - r.since;
        counted_.rejected_waited_max = std::max(counted_.rejected_waited_max, now - r.since);
        reject(r, ec, now);
    } else {
        r.is = request::state::decided;
        r.error = ec;
    }
}

void oracle::grant(request& r, amount n, time_point now) {
    r.is = request::state::decided;
    r.got = n;
    r.granted = true;
    r.decided_at = now;
    out_ += r.got;
    ++live_;
    ++counted_.granted;
    counted_.permits_granted += r.got;
    if (r.number != 0) {
        counted_.waited_total += now - r.since;
        counted_.waited_max = std::max(counted_.waited_max, now - r.since);
    }
}

void oracle::reject(request& r, error_code ec, time_point now) {
    r.is = request::state::decided;
    r.error = ec;
    r.decided_at = now;
    count(ec);
}

void oracle::count(error_code ec) {
    if (ec == aborted)
        ++counted_.cancelled;
    else if (ec == errc::no_permit)
        ++counted_.no_permit;
    else if (ec == errc::timed_out)
        ++counted_.timed_out;
    else if (ec == errc::deadline_unreachable)
        ++counted_.deadline_unreachable;
    else if (ec == errc::queue_full)
        ++counted_.queue_full;
    else if (ec == errc::shed)
        ++counted_.shed;
    else if (ec == errc::exceeds_capacity)
        ++counted_.exceeds_capacity;
    else if (ec == errc::closed)
        ++counted_.closed;
}

bool oracle::fits(amount n, time_point now) const {
    return !is_paused(now) && book_->fits(n, now);
}

amount oracle::remaining(time_point now) const {
    return is_paused(now) ? 0 : book_->remaining(now);
}

time_point oracle::earliest(amount n, std::vector<amount> const& ahead, time_point now) const {
    if (!is_paused(now))
        return book_->earliest(n, ahead, now);
    return pause_ends_ == weir::never
               ? weir::never
               : std::max(book_->earliest(n, ahead, pause_ends_), pause_ends_);
}

time_point oracle::no_earlier(amount n, std::vector<amount> const& ahead, time_point now) const {
    auto const from = is_paused(now) ? pause_ends_ : now;
    return from == weir::never ? weir::never : book_->no_earlier(n, ahead, from);
}

// Returns the turn of `r`, or of a newcomer: each request before it takes as many permits as it may get as soon as its
// least number fits, or leaves when its patience ends.
time_point oracle::foreseen(request const& r, time_point now) const {
    auto const then = book_->copy();
    auto at = is_paused(now) ? pause_ends_ : now;
    auto const turn = [&](amount n) {
        return at == weir::never ? weir::never : std::max(then->alone(n, at), at);
    };
    for (auto const* other : waiting_) {
        if (other == &r)
            break;
        if (!is_caller(*other) || other->is != request::state::waiting || !in_line(*other))
            continue;
        auto const next = turn(other->n);
        if (next > other->deadline) {
            at = std::max(at, weir::later(other->deadline, duration(1)));
            continue;
        }
        at = next;
        if (at < weir::never)
            then->took(share(other->n, other->more, then->remaining(at)), {}, at);
    }
    return turn(r.n);
}

// Returns the permits of the requests that wait before `r`, or of all. Requests whose patience ended in the same
// section count: it may have ended after `r` was examined.
std::vector<amount> oracle::ahead_of(request const* r) const {
    std::vector<amount> ahead;
    for (auto const* other : waiting_) {
        if (other == r)
            break;
        bool const waits = other->is == request::state::waiting && in_line(*other);
        if (is_caller(*other) && (waits || std::ranges::count(gave_up_, other) != 0))
            ahead.push_back(other->n);
    }
    return ahead;
}

// Returns the permits before a newcomer, for which the oldest request may be evicted.
std::vector<amount> oracle::ahead_of_new(request const& newcomer, bool evicts,
                                         time_point now) const {
    if (order_.groups()) {  // at most: includes requests that time out or make way
        std::vector<amount> own;
        std::map<std::uint64_t, amount> others;
        for (auto const* other : waiting_) {
            bool const waits = other->is == request::state::waiting && in_line(*other);
            if (!is_caller(*other) || (!waits && std::ranges::count(gave_up_, other) == 0))
                continue;
            if (order_.by_key() && other->how.priority != newcomer.how.priority)
                continue;
            bool const before =
                order_.by_key()
                    ? other->how.flow == newcomer.how.flow
                    : order_.goes_before(other->asks_for(), other->since, newcomer.asks_for(), now);
            if (before)
                own.push_back(other->n);
            else if (order_.by_key())
                others[other->how.flow] = std::max(others[other->how.flow], other->n);
        }
        if (own.empty() || !gave_up_.empty()) {
            for (auto const& [key, n] : others)
                own.push_back(n);
        }
        return own;
    }
    if (!order_.foresees())
        return {};
    auto ahead = ahead_of(nullptr);
    if (evicts && gave_up_.empty() && !ahead.empty())
        ahead.erase(ahead.begin());
    return ahead;
}

std::uint64_t oracle::callers_waiting() const {
    return static_cast<std::uint64_t>(std::ranges::count_if(waiting_, [](request const* r) {
        return r->is == request::state::waiting && is_caller(*r);
    }));
}

// Returns the request to be granted next, in the order of the queue, as if `newcomer` had not joined it.
request* oracle::next_caller(time_point now, request const* newcomer) const {
    std::vector<request*> callers;
    std::ranges::copy_if(waiting_, std::back_inserter(callers), [&](request const* r) {
        return r != newcomer && r->is == request::state::waiting && is_caller(*r) && r->op &&
               in_line(*r);
    });
    if (callers.empty())
        return nullptr;
    if (order_.groups()) {
        auto const next = newcomer ? order_.next_without(newcomer->number) : order_.next();
        auto const it = std::ranges::find(callers, next, &request::number);
        return it == callers.end() ? nullptr : *it;
    }
    return order_.newest_first(now) ? callers.back() : callers.front();
}

bool oracle::idle() const {
    return live_ == 0 && callers_waiting() == 0;
}

// Returns whether a newcomer may be granted while other requests wait.
bool oracle::may_pass(weir::request const& newcomer, time_point now) const {
    return order_.groups() ? order_.lets_pass(newcomer, now) : order_.newest_first(now);
}

void oracle::joined(request& r) {
    if (!order_.groups())
        return;
    order_.joined(r.op->number, r.op->since, r.asks_for());
    r.in_queue = true;
}

void oracle::left(request& r, call const& c) {
    if (!std::exchange(r.in_queue, false))
        return;
    auto const newcomer = c.what == call::kind::enter ? c.who->op->number : 0;
    r.may_make_way = newcomer != 0 && newcomer != r.op->number &&
                     order_.may_make_way(r.op->number, newcomer, c.who->asks_for());
    order_.left(r.op->number);
}

void oracle::served(request& r, call const& c) {
    if (!order_.groups())
        return;
    if (order_.next() != r.op->number)
        violated(invariant::order,
                 fmt::format("number {} is served before number {}", r.op->number, order_.next()));
    order_.served(r.op->number);
    r.in_queue = false;
    r.take = c.takes.size();
    order_.took(r.how.flow, r.n);
    takes_for_the_line_ = true;
}

void oracle::took(call& c, amount n, ticket t, time_point now) {
    using enum call::kind;
    if (c.what != charge && c.what != overdraw) {
        if (is_paused(now))
            violated(invariant::room, fmt::format("{} are granted in a pause", n));
        if (closed_ && may_serve(c))
            violated(invariant::closed, "a waiting request is granted a permit after close");
        for (auto const* one : {book_.get(), promise_.get()}) {
            if (one && !one->fits(n, now))
                violated(invariant::room, fmt::format("{} are granted, and {} are available", n,
                                                      one->remaining(now)));
        }
    }
    if (!std::exchange(takes_for_the_line_, false)) {
        auto const asked = c.what == enter ? c.who->asks_for() : weir::request(c.n, c.how);
        might_pass_ = may_pass(asked, now);
        order_.took(asked.flow(), n);
    }
    c.takes.push_back(n);
    c.room.push_back(book_->remaining(now));
    book_->took(n, t, now);
    if (promise_)
        promise_->took(n, t, now);
    if (policy_ == policy::seats && book_->in_force().time != weir::forever)
        watched_[t] = {.since = now};
}

void oracle::came_home(call& c, amount n, ticket t, time_point now) {
    c.home += n;
    order_.came_home(c.how.flow, n);
    book_->came_home(n, t, now);
}

void oracle::refunded(call& c, amount n, ticket t, time_point now) {
    c.refunded += n;
    if (promise_)
        promise_->unused(c.unused);
    order_.came_home(c.how.flow, n);
    book_->refunded(n, t, now);
}

void oracle::merged(ticket a, ticket b, ticket both, amount n) {
    book_->merged(a, b, both, n);
}

void oracle::configured(call& c, rule next, time_point now) {
    c.configured = true;
    book_->configured(next, now);
    order_.has_seats(book_->capacity());
    if (promise_)
        promise_->configured(next, now);
}

void oracle::stated(statement const& said, time_point now) {
    book_->stated(said, now);
}

void oracle::reported(ticket t, ticket after, weir::outcome o) {
    book_->reported(t, after, o);
}

void oracle::follows(bool has_rate, double per_second, time_point now) {
    book_->follows(has_rate, per_second, now);
}

void oracle::read_clock(time_point now) {
    step_is_unread_ = false;
    book_->read_clock(now);
}

request& oracle::asks(int caller, request::wish wants, amount n, std::optional<duration> patience) {
    all_.push_back(std::make_unique<request>());
    auto& r = *all_.back();
    r.caller = caller;
    r.wants = wants;
    r.n = n;
    r.patience = patience;
    return r;
}

void oracle::throws(request& r) {
    if (r.is != request::state::entering || in_line(r))
        violated(invariant::verdict, "an initiating function throws after its decision");
    r.is = request::state::over;
    r.op = nullptr;
}

void oracle::reserved(request const& r, time_point told) const {
    bool const exact =
        policy_ == policy::token_bucket || policy_ == policy::leaky_bucket ||
        policy_ == policy::smooth_bursty || policy_ == policy::smooth_warming_up || foresees_turns_;
    if (told != weir::unknown && (exact ? told != r.turn : told > r.turn))
        violated(invariant::verdict,
                 fmt::format("{} has the predicted grant time {}, and it should be {}", name(r),
                             text(told), text(r.turn)));
}

void oracle::completed(request& r, error_code ec, weir::permit const& granted,
                       weir::overdue const& found) {
    if (r.is != request::state::decided || r.doomed)
        violated(invariant::completion, name(r) + " is completed when it should not be");
    if (ec != r.error || static_cast<bool>(granted) != r.granted ||
        granted.count() != (r.granted ? r.got : 0))
        violated(invariant::completion, name(r) + " is completed with something else");
    if (r.wants == request::wish::overdue && !ec && found.id != r.found.id)
        violated(invariant::completion, name(r) + " gets a report of another permit");
    auto const waited = r.number != 0 && r.granted ? r.decided_at - r.since : duration(0);
    if (granted.waited() != waited)
        violated(invariant::completion, name(r) + " gets a report of another wait");
    r.is = request::state::over;
    r.op = nullptr;
}

void oracle::destroyed(request& r) {
    if (r.is != request::state::decided)
        violated(invariant::completion, name(r) + " is destroyed when it should not be");
    r.is = request::state::over;
    r.op = nullptr;
}

void oracle::overdue(request& r, time_point now) {
    r.found = static_cast<weir::detail::overdue_operation&>(*r.op).found;
    auto const it = watched_.find(r.found.id);
    if (it == watched_.end() || it->second.reported ||
        weir::later(it->second.since, book_->in_force().time) > now)
        violated(invariant::verdict, "a permit is reported as overdue when it should not be");
    it->second.reported = true;
    ++counted_.overdue;
}

void oracle::holds(ticket id, amount n) {
    if (n == 0 || policy_ != policy::seats || book_->in_force().time == weir::forever)
        return;
    auto const it = watched_.find(id);
    if (it == watched_.end())
        violated(invariant::conserved, "a permit without a watch is held");
    it->second.held = true;
}

void oracle::quiet(quiet_view const& seen) {
    auto const is_asleep = [](request const& r, std::string_view why) {
        violated(invariant::asleep, fmt::format("{} still waits, though {}", name(r), why));
    };
    for (auto const& r : all_) {
        if (r->is == request::state::decided && !(r->kept && r->released))
            violated(invariant::completion, name(*r) + " is decided, and never completed");
    }
    auto const slack = std::max(queueing_.tolerance, duration(1));
    bool watches = false;
    for (auto* r : waiting_) {
        if (seen.dead)
            is_asleep(*r, "the context is destroyed");
        if (r->cancelled || r->marked)
            is_asleep(*r, "it was cancelled");
        if (!is_caller(*r)) {
            if (gone_)
                is_asleep(*r, "the limiter is destroyed");
            if (r->wants == request::wish::idleness && idle())
                is_asleep(*r, "all is idle");
            watches = watches || r->wants == request::wish::overdue;
            continue;
        }
        if (closed_)
            is_asleep(*r, "the limiter is closed");
        if (r->n > book_->capacity())
            is_asleep(*r, "it can never be granted");
        if (seen.now >= weir::later(r->deadline, slack) && r->deadline != weir::never)
            is_asleep(*r, "its deadline was " + text(r->deadline));
        if (seen.now >= order_.must_drop(r->since))
            is_asleep(*r, "it should have been dropped");
        // Permits that are freed by releases are not predictable, and so may become so later.
        if (is_paused(seen.now) && r->deadline < pause_ends_ && policy_ != policy::seats &&
            policy_ != policy::resting_seats && policy_ != policy::server_quota)
            is_asleep(*r, "its patience ends in a pause");
    }

    auto* const next = next_caller(seen.now);
    if (!next || !fits(next->n, seen.now))
        fits_ = nullptr;
    else if (std::exchange(fits_, next) != next)
        fits_since_ = seen.now;
    // The limiter notices a step of the wall clock only when it reads it: until then it waits for the end as it was.
    bool const is_unaware = step_is_unknown_ && seen.timer;
    if (fits_ && !is_unaware && seen.now >= weir::later(fits_since_, lateness()))
        is_asleep(*next, "it is next and permits are available");

    for (auto& [id, w] : watched_) {
        if (std::exchange(w.held, false) && watches && !w.reported && !seen.dead &&
            weir::later(w.since, book_->in_force().time) <= seen.now)
            violated(invariant::asleep, "a permit is overdue, and it was not reported");
    }
    if (seen.held != (!waiting_.empty() && !seen.dead))
        violated(invariant::host, seen.held ? "the context is kept running without need"
                                            : "the context may return while a request waits");
    if (seen.timer && (seen.dead || (callers_waiting() == 0 && !(watches && live_ != 0))))
        violated(invariant::host, "a timer is armed without need");

    if (!seen.stats)
        return;
    auto const same = [](std::string_view what, auto said, auto truth) {
        if (said != truth)
            violated(invariant::counts, fmt::format("{}: {} instead of {}", what, said, truth));
    };
    auto const& s = *seen.stats;
    same("granted", s.granted, counted_.granted);
    same("granted_immediately", s.granted_immediately, counted_.granted_immediately);
    same("no_permit", s.no_permit, counted_.no_permit);
    same("timed_out", s.timed_out, counted_.timed_out);
    same("deadline_unreachable", s.deadline_unreachable, counted_.deadline_unreachable);
    same("queue_full", s.queue_full, counted_.queue_full);
    same("shed", s.shed, counted_.shed);
    same("exceeds_capacity", s.exceeds_capacity, counted_.exceeds_capacity);
    same("closed", s.closed, counted_.closed);
    same("cancelled", s.cancelled, counted_.cancelled);
    same("overdue", s.overdue, counted_.overdue);
    same("permits_granted", s.permits_granted, counted_.permits_granted);
    same("waited_total", s.waited_total.count(), counted_.waited_total.count());
    same("waited_max", s.waited_max.count(), counted_.waited_max.count());
    same("rejected_waited_total", s.rejected_waited_total.count(),
         counted_.rejected_waited_total.count());
    same("rejected_waited_max", s.rejected_waited_max.count(),
         counted_.rejected_waited_max.count());
    same("live", s.live, live_);
    same("in_use", s.in_use, out_);
    same("capacity", s.capacity, book_->capacity());
    same("waiting", s.waiting, callers_waiting());
    same("remaining", s.remaining, remaining(seen.now));
    same("paused_for", s.paused_for.count(),
         is_paused(seen.now) ? (pause_ends_ - seen.now).count() : 0);
    amount waiting_for = 0;
    for (auto const n : ahead_of(nullptr))
        waiting_for += n;
    same("waiting_for", s.waiting_for, waiting_for);
    if (seen.waits)
        compare(*seen.waits, counted_);
    auto const oldest =
        std::ranges::find_if(waiting_, [](request const* r) { return is_caller(*r); });
    same("oldest_wait", s.oldest_wait.count(),
         oldest == waiting_.end() ? 0 : (seen.now - (*oldest)->since).count());
}

void oracle::compare(weir::wait_histogram const& waits, weir::limiter_stats const& counted) {
    if (waits.count() != counted.granted - counted.granted_immediately)
        violated(invariant::counts, "the histogram has a wrong number of waits");
    constexpr duration most_recorded = std::chrono::hours(39);  // longer waits count as this
    auto const longest = waits.quantile(1);
    auto const most =
        counted.waited_max + std::max<duration>(counted.waited_max / 8, duration(128));
    auto const least = std::min(counted.waited_max, most_recorded);
    if (waits.count() != 0 && (longest < least || longest > most))
        violated(invariant::counts, "the longest wait of the histogram is not the longest");
}

// Returns how much too late the first request in the queue may be granted: a bucket makes up for it.
duration oracle::lateness() const {
    bool const catches_up = policy_ == policy::token_bucket || policy_ == policy::leaky_bucket ||
                            policy_ == policy::adaptive_rate;
    return catches_up ? queueing_.tolerance : duration(0);
}

time_point oracle::next_event(time_point now) const {
    auto next = weir::never;
    auto const consider = [&](time_point t) {
        if (t > now)
            next = std::min(next, t);
    };
    auto const slack = std::max(queueing_.tolerance, duration(1));
    bool watches = false;
    for (auto const* r : waiting_) {
        watches = watches || r->wants == request::wish::overdue;
        if (!is_caller(*r))
            continue;
        if (r->deadline != weir::never)
            consider(weir::later(r->deadline, slack));
        consider(order_.must_drop(r->since));
    }
    if (auto const* const first = next_caller(now)) {
        consider(earliest(first->n, {}, now));
        consider(order_.turns());
    }
    if (fits_)
        consider(weir::later(fits_since_, lateness()));
    if (watches) {
        for (auto const& [id, w] : watched_) {
            if (!w.reported)
                consider(weir::later(w.since, book_->in_force().time));
        }
    }
    return next;
}

void oracle::finished() const {
    for (auto const& r : all_) {
        if (r->is != request::state::over)
            violated(invariant::completion, name(*r) + " is not over at the end");
    }
    if (out_ != 0 || live_ != 0)
        violated(invariant::conserved, fmt::format("{} permits are in use at the end", out_));
}

}  // namespace explorer
