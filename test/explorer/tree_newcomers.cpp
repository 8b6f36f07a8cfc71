#include "tree_oracle.hpp"

#include <boost/asio/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

// The part of the oracle of trees that judges newcomers.

namespace explorer {

using enum call::kind;

// The decision that `enter` must make, in the order of its checks.
void tree_oracle::judge_enter(call& c, time_point now, bool took) {
    auto& r = *c.who;
    if (r.is != request::state::entering)
        return;
    auto& op = *r.op;
    bool const queued = op.number != 0;
    if (!queued && !op.granted && !op.error)
        return;  // it throws, or has not decided yet
    auto const rejection = queued ? error_code() : op.error;
    auto const must_be = [&](error_code ec) {
        if (rejection != ec)
            violated(invariant::verdict,
                     fmt::format("{} should have been rejected: {}, and it is: {}", name(r),
                                 ec.message(), rejection.message()));
    };
    auto const why = r.cancelled          ? error_code(boost::asio::error::operation_aborted)
                     : rejects_newcomers_ ? error_code(errc::closed)
                                          : why_never(r.key, r.n);
    if (why) {
        must_be(why);
        return rejected(r, now);
    }
    auto const leaf = find(r.key).node;
    bool const goes = r.n == 0 || (!is_paused(now) && permits_.for_newcomer(leaf, r.n));
    if (goes != (op.granted && !queued))
        violated(goes ? invariant::verdict : invariant::barging,
                 name(r) + (goes ? " is not granted immediately, though it should be"
                                 : " is granted immediately, though it should wait"));
    if (goes) {
        granted(r, take_for_newcomer(leaf, r.n, took), now);
        ++counted_.granted_immediately;
        return;
    }

    auto const length = r.patience ? *r.patience : queueing_.patience.length_or(weir::forever);
    auto const deadline = length == weir::forever ? weir::never : weir::later(now, length);
    bool const is_first = !permits_.waits(leaf);
    bool const knows_time = is_first && !permits_.waits_elsewhere(leaf);
    auto const ready = ready_at(leaf, r.n, now);
    bool const too_late = ready != weir::unknown && ready > deadline;
    if (rejection == errc::deadline_unreachable &&
        (!too_late || (knows_turns_ && permits_.waits_elsewhere(leaf) && !is_paused(now))))
        violated(invariant::verdict,
                 name(r) + " is rejected, though it could be granted before its deadline");
    if (too_late && knows_time)
        must_be(errc::deadline_unreachable);
    else if (rejection != errc::deadline_unreachable) {
        bool const full =
            permits_.number_waiting(leaf) >= static_cast<std::size_t>(queueing_.max_waiting);
        bool const evicts = queueing_.full == weir::when_full::evict_oldest && !is_first;
        must_be(deadline <= now   ? error_code(errc::timed_out)
                : full && !evicts ? error_code(errc::queue_full)
                                  : error_code());
    }
    if (rejection) {
        check_retry(r, ready, now);
        return rejected(r, now);
    }

    r.number = ++last_number_;
    r.has_waited = true;
    r.since = now;
    r.deadline = deadline;
    r.is = request::state::waiting;
    waiting_.push_back(&r);
    permits_.push(leaf, {r.n, r.number});
    evict_for(r, c, now);
    grant_in_turn(now);
}

// The oldest requests of a full line make way for a newcomer. After that, others may be found to be too late.
void tree_oracle::evict_for(request const& newcomer, call& c, time_point now) {
    auto const leaf = find(newcomer.key).node;
    auto const too_late = static_cast<std::size_t>(std::ranges::count(left_late_, leaf));
    for (auto* r : waiting_) {
        if (!makes_way(*r))
            continue;
        if (c.what != enter || r == &newcomer || find(r->key).node != leaf ||
            permits_.first(leaf) != r->number || queueing_.full != weir::when_full::evict_oldest ||
            permits_.number_waiting(leaf) + too_late <=
                static_cast<std::size_t>(queueing_.max_waiting))
            violated(invariant::verdict, name(*r) + " is dropped without a reason");
        rejected(*r, now);
        permits_.erase(leaf, r->number);
    }
    std::erase_if(waiting_, [](request const* r) { return r->is != request::state::waiting; });
    if (permits_.number_waiting(leaf) >
        std::max<std::size_t>(static_cast<std::size_t>(queueing_.max_waiting), 1))
        violated(invariant::verdict, "more requests wait than allowed");
}

void tree_oracle::check_retry(request const& r, time_point ready, time_point now) const {
    auto const ec = r.op->error;
    if (ec != errc::timed_out && ec != errc::deadline_unreachable && ec != errc::queue_full)
        return;
    auto const told = r.op->granted.retry_after();
    auto const leaf = find(r.key).node;
    bool const is_alone = !permits_.waits(leaf) && !permits_.waits_elsewhere(leaf);
    // Of requests in one leaf, the time of a newcomer that replaces another one is known if it is now.
    bool const is_now = told == duration(0) && ready == now;
    if (knows_turns_ && permits_.waits_elsewhere(leaf) && told && !is_now && !is_paused(now))
        violated(invariant::verdict,
                 name(r) + " has a retry time, which depends on requests of other leaves");
    if (ready == weir::unknown)
        return;
    auto const wait = ready >= weir::never ? weir::forever : ready - now;
    if (is_alone ? told.value_or(weir::forever) != wait
                 : told && *told > wait && !permits_.waits(leaf))
        violated(invariant::verdict,
                 fmt::format("{} has the retry time {} ns, and it should be {} ns", name(r),
                             told.value_or(weir::forever).count(), wait.count()));
}

void tree_oracle::judge_try(call& c, time_point now, bool took) {
    auto const leaf = find(c.key).node;
    auto const never = why_never(c.key, c.what == charge ? 0 : c.n);
    if (rejects_newcomers_ || (c.what == charge && never))
        c.expected = errc::closed;
    else if (never)
        c.expected = never;
    else if (c.n == 0 || c.what == charge || (!is_paused(now) && permits_.for_newcomer(leaf, c.n)))
        c.expected = error_code();
    else
        c.expected = errc::no_permit;
    if (took && *c.expected)
        violated(invariant::barging, fmt::format("{} of key {} are granted immediately: {}", c.n,
                                                 c.key, c.expected->message()));
    if (!*c.expected) {
        if (c.what == charge)
            c.taken = c.n == 0 ? 0 : permits_.levels(leaf, permits_.charge(leaf, c.n));
        else
            c.taken = take_for_newcomer(leaf, c.n, took);
        c.granted = true;
        c.got = c.n;
        out_ += c.n;
        ++live_;
        ++counted_.granted;
        ++counted_.granted_immediately;
        counted_.permits_granted += c.n;
        return;
    }
    if (c.what == charge || (c.what == enter_at_once && *c.expected == errc::no_permit))
        return;
    count(*c.expected);
    if (*c.expected != errc::no_permit || is_paused(now) || !knows_turns_)
        return;
    if (permits_.waits_elsewhere(leaf)) {
        c.retry_in = weir::forever;
    } else if (!permits_.waits(leaf)) {
        auto const ready = ready_at(leaf, c.n, now);
        if (ready != weir::unknown)
            c.retry_in = ready >= weir::never ? weir::forever : ready - now;
    }
}

// Returns the ticket of the permits.
ticket tree_oracle::take_for_newcomer(std::size_t leaf, amount n, bool took) {
    if (!took)
        violated(invariant::verdict, fmt::format("a request for {} is not granted at once", n));
    if (n == 0)
        return 0;
    auto const from = permits_.for_newcomer(leaf, n).value();
    permits_.take(leaf, n, from);
    return permits_.levels(leaf, from);
}

}  // namespace explorer
