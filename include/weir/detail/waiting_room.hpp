#pragma once

#include <weir/amount.hpp>
#include <weir/detail/any_queue.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/gate.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/rejected.hpp>
#include <weir/detail/room/common.hpp>
#include <weir/detail/room/drains.hpp>
#include <weir/detail/room/observers.hpp>
#include <weir/detail/room/pause.hpp>
#include <weir/detail/room/places.hpp>
#include <weir/detail/room/turns.hpp>
#include <weir/detail/room/watchers.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/detail/wakeup.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>
#include <boost/assert.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace weir::detail {

/// The rules of a limiter: they grant, queue or reject requests, and determine the order and the reasons. A pure state
/// machine: it takes the time as an argument, and uses no lock, clock, executor or handler.
///
/// This class decides on newcomers. Its parts decide on the rest, independently of each other:
///
/// - `turns`: requests that wait for permits, and chains;
/// - `places`: how many requests may wait;
/// - `drains`: operations that wait until the limiter is idle;
/// - `watchers`: operations that wait for events that the policy reports.
///
/// An operation that has left is in the outbox with its outcome, until a caller takes it from there and posts it.
/// `settle` does all work that the other calls leave: the sweep, deadlines, grants, drains, reports. Any thread may
/// call it at any time; calling it at the times that `wants` returns is often enough.
///
/// `Parts` is `shared_parts` in the room of a key. Such a room has no drains and no watchers.
template <limiting_policy Policy, class Queue = any_queue, class Parts = own_parts>
class waiting_room {
    using place = operation::place;
    using turns_type = turns<Policy, Queue, Parts>;
    using gate_type = typename turns_type::gate_type;
    using line_type = typename turns_type::line_type;
    static constexpr bool is_one_of_many = std::is_same_v<Parts, shared_parts>;

public:
    using policy_type = Policy;
    using options_type = typename Policy::options_type;

    waiting_room(permit_issuer& issuer, Policy&& policy, queue_options const& queueing)
        : turns_(queueing, issuer, std::move(policy), 0) {
        count_seats();
    }
    waiting_room(permit_issuer& issuer, options_type const& options, queue_options const& queueing)
        : waiting_room(issuer, Policy(options), queueing) {}
    /// Constructs one of several rooms. Its permits carry `key`.
    waiting_room(common_parts& common, gate_parts& of_gate, Policy&& policy, std::uint64_t key)
        : turns_(common, of_gate, std::move(policy), key) {}
    waiting_room(waiting_room const&) = delete;
    waiting_room& operator=(waiting_room const&) = delete;

    /// Throws `std::invalid_argument` that names the option, its value and the bound.
    static void check(queue_options const& queueing) {
        validate(queueing);
        Queue::check(queueing);
        if (is_fed && queueing.order == queue_order::shares)
            throw std::invalid_argument(
                "weir::queue_options: shared limiters do not support the order shares");
    }

    /// Checks a change of options. Throws `std::invalid_argument` like `check`.
    static void check_change(queue_options const& before, queue_options const& next) {
        check(next);
        Queue::check_change(before, next);
    }

    /// Checks in debug builds that the order uses the class and the flow of a request.
    static void check_standing([[maybe_unused]] queue_options const& queueing,
                               [[maybe_unused]] request const& r) noexcept {
        BOOST_ASSERT_MSG(Queue::can_use(queueing, r),
                         "the order priority ignores the flow of a request, and the orders fair "
                         "and shares ignore its class: see weir::queue_order");
    }

    void begin(time_point now) noexcept { policy().begin(now); }

    [[nodiscard]] std::uint64_t key() const noexcept { return gate().key(); }

    [[nodiscard]] Policy& policy() noexcept { return gate().policy(); }
    [[nodiscard]] Policy const& policy() const noexcept { return gate().policy(); }
    [[nodiscard]] queue_options const& queueing() const noexcept { return turns_.queueing(); }

    // Events that need the time. For other events any time will do, and no clock is read.

    [[nodiscard]] bool needs_time_to_ask() const noexcept {
        return policy().timed() || !line().empty() || gate().pause().is_set();
    }
    [[nodiscard]] bool needs_time_to_tell() const noexcept {
        return policy().timed() || gate().pause().is_set();
    }
    [[nodiscard]] bool needs_time_to_leave() const noexcept {
        return gate().needs_time_to_leave() || !line().empty();
    }

    // Requests.

    /// Grants `r` immediately, or sets `ec` to the reason of the rejection: `errc::no_permit` if waiting might help.
    [[nodiscard]] permit try_enter(request const& r, time_point now, error_code& ec) noexcept {
        check_standing(queueing(), r);
        help(now);
        return take(r, now, ec);
    }

    /// Grants or rejects `r` like `try_enter`, but returns an empty permit without an error if waiting might help.
    [[nodiscard]] permit enter_at_once(request const& r, time_point now, error_code& ec) noexcept {
        ec = {};
        check_standing(queueing(), r);
        help(now);
        auto const asked = turns_.ask(r, now);
        if (asked.granted) [[likely]]
            return turns_.grant_at_once(r, now);
        if (asked.rejected) {
            ec = *asked.rejected;
            gate().counters().reject(ec);
            return rejection(ec, r.count(), asked.ready, now);
        }
        return {};
    }

    /// Decides on `op` like `enter_at_once`. Returns whether `op` has ended, with the outcome in it.
    [[nodiscard]] bool decide(operation& op, time_point now) {
        if (op.cancelled)
            return reject(op, boost::asio::error::operation_aborted, unknown, now);
        check_standing(queueing(), op.asked_for());
        help(now);
        auto const asked = turns_.ask(op.asked_for(), now);
        if (asked.granted) {
            op.granted = turns_.grant_at_once(
                op.asked_for(), gate().share(op.count, op.count + op.more, now), now);
            op.detach();
            return true;
        }
        return asked.rejected && reject(op, *asked.rejected, asked.ready, now);
    }

    /// Prepares a wait after `decide` has returned false. Returns whether `op` cannot wait, with the outcome in it.
    /// Otherwise `op` has its deadline, and `join` must follow. May throw `std::bad_alloc`, without an effect.
    [[nodiscard]] bool cannot_wait(operation& op, wait_limit const& limit, time_point now) {
        auto const length = limit.length.length_or(queueing().patience.length_or(forever));
        auto const deadline = std::min(length == forever ? never : later(now, length), limit.until);
        auto const r = op.asked_for();
        auto const evicted = places().find(r, line(), queueing());
        auto const ready = turns_.turn_of(r, evicted.value_or(0), now);

        if (ready != unknown && ready > deadline)
            return reject(op, errc::deadline_unreachable, ready, now);
        if (deadline <= now)
            return reject(op, errc::timed_out, ready, now);
        if (!evicted || is_too_long(ready, now))
            return reject(op, errc::queue_full, ready, now);
        turns_.prepare(op, deadline, now);
        op.deadline = deadline;
        return false;
    }

    void join(operation& op, time_point now) noexcept { turns_.join(op, now); }

    /// Returns the grant time of `op`, which is the last in the queue, if all before it are granted at theirs;
    /// `unknown` if it cannot be predicted.
    [[nodiscard]] time_point turn_of_last(operation const& op, time_point now) const noexcept {
        return turns_.turn_of_last(op, now);
    }
    /// Puts `by` in the position of `op`. No event affects `op` from then on.
    void replace(operation& op, operation& by) noexcept { turns_.replace(op, by); }

    /// Undoes `join`.
    void withdraw(operation& op) noexcept { turns_.withdraw(op); }

    /// Drops the requests that make way for `op`. Call it after `join`. Returns whether any of them asked for
    /// permits.
    bool evict(operation const& op, time_point now) noexcept {
        return evict_for({op.count, {.priority = op.priority}}, now);
    }

    /// Returns whether a wait for the release of all permits is over, with the outcome in `op`.
    [[nodiscard]] bool decide_drain(operation& op) noexcept {
        return drains_.decide(op, is_idle());
    }
    void join_drain(operation& op) noexcept { drains_.join(op, turns_.parts().take_number()); }

    /// Returns whether a wait for an event of the policy is over, with the outcome in `op`.
    template <class Found>
    [[nodiscard]] bool decide_watch(watch_operation<Found>& op, time_point now) noexcept {
        return watchers_.decide(op, gate(), now);
    }
    template <class Found>
    void join_watch(watch_operation<Found>& op) noexcept {
        watchers_.join(op, turns_.parts().take_number());
    }

    /// Undoes `join_drain` or `join_watch`.
    static void withdraw_other(operation& op) noexcept { observers::withdraw(op); }

    /// Takes `n` permits in any state of the policy. Returns an empty permit if the gate is not open.
    [[nodiscard]] permit charge(amount n, time_point now) {
        if (!gate().is_open())
            return rejection(errc::closed, n, unknown, now);
        auto charged = gate().grant_at_once(n, now);
        turns_.fall_into_debt(now);
        return charged;
    }

    // Chains, with the contract of `chain_member`.

    [[nodiscard]] chain_turn consider(chain_entry const& e, time_point now) noexcept {
        check_standing(queueing(), e.asked_for());
        return turns_.consider(e, now);
    }
    [[nodiscard]] bool admit(chain_entry& e, time_point now) noexcept {
        auto* const accounts = line().accounts();
        auto const account = accounts ? accounts->take(e.asked_for(), e.count) : std::uint8_t();
        e.granted = e.number == 0 ? gate().grant_at_once(e.count, now, account)
                                  : turns_.grant(e.count, e.since, now, account);
        return true;
    }
    rejected reject(chain_entry const& e, error_code ec, duration ready_in,
                    time_point now) noexcept {
        return turns_.reject(e, ec, ready_in, now);
    }
    [[nodiscard]] bool prepare(chain_entry& e, time_point now) {
        turns_.prepare(e, now);
        return true;
    }
    [[nodiscard]] bool has_place(chain_entry const& e, time_point now) noexcept {
        auto const r = e.asked_for();
        auto const evicted = places().find(r, line(), queueing());
        return evicted && !is_too_long(turns_.turn_of(r, *evicted, now), now);
    }
    void evict(chain_entry const& e, time_point now) noexcept { evict_for(e.asked_for(), now); }
    void enroll(chain_entry& e, time_point now) noexcept { turns_.enroll(e, now); }
    void strike(chain_entry& e) noexcept { turns_.strike(e); }
    void stand(chain_entry& e) noexcept { turns_.stand(e); }
    void step_out(chain_entry& e) noexcept { turns_.step_out(e); }
    static void look_again(chain_entry const&) noexcept {}  // `wants` always does
    [[nodiscard]] chain_line& chains(chain_entry const&) noexcept { return *line().chains(); }
    void set_alarm(chain_operation& op, time_point at) noexcept {
        turns_.parts().deadlines.move(op, at);
    }
    void complete(chain_operation& op) noexcept { turns_.complete(op); }

    /// Moves the chains that were called here to `to`.
    void take_calls(call_list& to) noexcept { to.append(turns_.parts().calls); }

    // Released permits. Each function returns whether this may concern other requests here.

    [[nodiscard]] bool leave(amount n, permit_origin from, time_point now) noexcept {
        static_cast<void>(gate().leave(n, from.ticket, now));
        settle_account(n, from);
        return !line().empty() || concerns_others();
    }
    [[nodiscard]] bool refund(amount n, permit_origin from, time_point now) noexcept {
        bool const made_room = gate().refund(n, from.ticket, now);
        settle_account(n, from);
        return made_room && !line().empty();
    }
    [[nodiscard]] bool leave_unused(amount n, permit_origin from, time_point now) noexcept {
        static_cast<void>(gate().leave_unused(n, from.ticket, now));
        settle_account(n, from);
        return !line().empty() || concerns_others();
    }
    [[nodiscard]] ticket overdraw(amount n, amount held, permit_origin from, time_point now) {
        auto const whole = gate().overdraw(n, held, from.ticket, now);
        if (auto* const accounts = line().accounts())
            accounts->take_more(from.key, n);
        turns_.fall_into_debt(now);
        return whole;
    }
    void split(permit_origin) noexcept { gate().split(); }
    [[nodiscard]] ticket merge(permit_origin into, permit_origin from, amount n) noexcept {
        return gate().merge(into.ticket, from.ticket, n);
    }
    /// A report concerns no other request.
    [[nodiscard]] ticket report(permit_origin from, outcome o) noexcept
        requires hears_reports<Policy>
    {
        return policy().report(from.ticket, o);
    }
    [[nodiscard]] amount remaining(permit_origin, time_point now) const noexcept {
        return gate().remaining(now);
    }
    [[nodiscard]] duration reset_after(permit_origin, time_point now) const noexcept {
        return gate().reset_after(now);
    }
    [[nodiscard]] bool is_lost(permit_origin from, time_point now) const noexcept
        requires lending_policy<Policy>
    {
        return policy().is_lost(from.ticket, now);
    }

    // Events that concern all waiting operations: `settle` carries them out.

    /// Rejects newcomers from now on.
    void shut_down() noexcept { gate().close(gate_type::doors::no_newcomers); }

    /// Rejects newcomers and all requests in the queue.
    void close() noexcept { turns_.close(); }

    /// Cancels all operations that are waiting now.
    void cancel_all() noexcept {
        drains_.cancel_before(turns_.parts().next_number);
        watchers_.cancel_before(turns_.parts().next_number);
        turns_.cancel_all();
    }

    /// Records that the limiter object was destroyed: all waiting operations are rejected.
    void abandon() noexcept {
        drains_.abandon();
        watchers_.abandon();
        close();
    }

    /// Records that the policy has other options: all requests in the queue are examined again.
    void reprice() noexcept {
        count_seats();
        turns_.reprice();
    }

    /// Grants nothing until `end`, or until a later time that was set before.
    void pause_until(time_point end) noexcept {
        gate().pause().extend(end);
        reprice();
    }
    void resume() noexcept { gate().pause().stop(); }

    /// Adopts other queue options; waiting requests stay.
    void set_queueing(queue_options const& next) noexcept {
        turns_.parts().queueing = next;
        turns_.adopt_queueing();
    }
    /// Adopts the queue options that all rooms share, after a change.
    void adopt_queueing() noexcept { turns_.adopt_queueing(); }

    /// Cancels one operation, or records the cancellation before it waits.
    void cancel(operation& op, time_point now) noexcept {
        switch (op.at) {
            case place::queue:
                return turns_.remove(op, boost::asio::error::operation_aborted, now);
            case place::draining:
            case place::watching:
                return observers::cancel(op, outbox());
            case place::chained:
                op.cancelled = true;
                return turns_.call(op);
            case place::nowhere:
                op.cancelled = true;
        }
    }

    // Orders, for a policy that is fed from outside.

    static constexpr bool is_fed = fed_policy<Policy>;

    /// Returns whether no request will follow.
    [[nodiscard]] bool is_gone() const noexcept { return drains_.is_gone(); }

    [[nodiscard]] bool has_order(time_point now) noexcept {
        return policy().next_order(what_waits(now), now) <= now;
    }
    [[nodiscard]] auto pop_order(time_point now) noexcept {
        return policy().pop_order(what_waits(now), now);
    }

    // Events without a call.

    /// Does all work that is due, until `budget` operations were touched.
    void settle(time_point now, int& budget) noexcept {
        gate().pause().elapse(now);
        if constexpr (is_fed) {
            if (policy().elapse(now))
                reprice();
        }
        drains_.sweep(budget, outbox());
        watchers_.sweep(budget, outbox());
        if constexpr (!is_one_of_many) {
            turns_.examine(now, budget);
            turns_.parts().deadlines.expire(now, budget, [&](operation& op) { expire(op, now); });
        }
        turns_.serve(now, budget);
        drains_.serve(is_idle(), budget, outbox());
        watchers_.serve(gate(), now, budget, outbox());
    }

    /// Ends the wait of `op`, whose deadline has passed; a chain is called. `settle` of one of several rooms leaves this
    /// to their owner.
    void expire(operation& op, time_point now) noexcept { turns_.expire(op, now); }

    /// Returns when `settle` has work. `last_alarm`: as in `wakeup`. For one of several rooms.
    [[nodiscard]] time_point next_event(time_point now, time_point last_alarm) noexcept {
        if (nobody_waits())
            return never;
        return turns_.is_sweeping() ? now : turns_.next_event(now, last_alarm);
    }
    /// Returns the needs that the actor must meet. `last_alarm`: as in `wakeup`.
    [[nodiscard]] needs wants(time_point now, time_point last_alarm) noexcept {
        needs n;
        n.waiting = !is_done();
        if (!n.waiting)
            return n;
        n.next = std::min({turns_.next_event(now, last_alarm), turns_.parts().deadlines.next(),
                           watchers_.next_event(gate()), never});
        if constexpr (is_fed) {
            n.next = std::min(n.next, policy().next_order(what_waits(now), now));
            if (gate().pause().is_on(now) && !line().empty())
                n.next = std::min(n.next, gate().pause().from(now));  // then requests need orders
        }
        n.due = turns_.is_sweeping() || !outbox().empty() || n.next <= now ||
                watchers_.is_due(gate(), now) || drains_.is_due(is_idle());
        return n;
    }

    [[nodiscard]] std::uint64_t waiting() const noexcept { return turns_.parts().waiting(); }
    [[nodiscard]] bool perhaps_waiting() const noexcept { return turns_.parts().perhaps_waiting(); }
    [[nodiscard]] bool nobody_waits() const noexcept {
        return line().empty() && drains_.empty() && watchers_.empty() && !line().has_chains();
    }
    [[nodiscard]] bool is_empty() const noexcept { return nobody_waits() && outbox().empty(); }
    /// Also requires that the policy does not need the time.
    [[nodiscard]] bool is_done() const noexcept {
        if constexpr (is_fed)
            return is_empty() && !policy().must_go_on();
        else
            return is_empty();
    }
    [[nodiscard]] std::uint64_t live() const noexcept { return gate().live(); }

    /// Operations that have left the room and must be posted.
    [[nodiscard]] operation_list& outbox() noexcept { return turns_.parts().outbox; }
    [[nodiscard]] operation_list const& outbox() const noexcept { return turns_.parts().outbox; }

    /// Removes all operations without an outcome, and calls the chains. Admits no request from now on.
    void clear_out() noexcept {
        turns_.clear_out();
        drains_.clear_out(outbox());
        watchers_.clear_out(outbox());
    }

    /// Returns memory that is needed only while a request waits.
    [[nodiscard]] auto take_spare_memory() noexcept {
        return line().empty() && !line().has_chains()
                   ? turns_.parts().deadlines.take_memory()
                   : nullptr;
    }

    [[nodiscard]] limiter_stats stats(time_point now) const noexcept { return turns_.stats(now); }
    [[nodiscard]] wait_histogram waits() const noexcept { return turns_.parts().waits.recorded(); }
    /// Calls `f(share_stats)` for each partition.
    template <class F>
    void each_share(F f) const {
        if (auto const* const accounts = line().accounts())
            accounts->each_share(f);
    }

    /// The maximum number of other requests' operations that a caller at the gate touches before its own request.
    static constexpr int help_budget = 16;

private:
    [[nodiscard]] detail::places& places() noexcept { return turns_.parts().places; }
    [[nodiscard]] gate_type& gate() noexcept { return turns_.at_gate(); }
    [[nodiscard]] gate_type const& gate() const noexcept { return turns_.at_gate(); }
    [[nodiscard]] line_type& line() noexcept { return turns_.in_line(); }
    [[nodiscard]] line_type const& line() const noexcept { return turns_.in_line(); }

    void count_seats() noexcept {
        if (auto* const accounts = line().accounts())
            accounts->count_seats(capacity_now_of(policy()));
    }
    void settle_account(amount n, permit_origin from) noexcept {
        if (auto* const accounts = line().accounts()) [[unlikely]] {
            accounts->give_back(from.key, n);
            count_seats();
        }
    }

    // Ensures that no request is rejected because of an operation that is due but that the actor has not served yet.
    void help(time_point now) noexcept {
        if (line().empty()) [[likely]]
            return gate().pause().elapse(now);
        int budget = help_budget;
        settle(now, budget);
    }

    [[nodiscard]] permit take(request const& r, time_point now, error_code& ec) noexcept {
        auto const asked = turns_.ask(r, now);
        if (asked.granted) [[likely]] {
            ec = {};
            return turns_.grant_at_once(r, now);
        }
        ec = asked.rejected.value_or(errc::no_permit);
        gate().counters().reject(ec);
        return rejection(ec, r.count(), asked.ready, now);
    }

    [[nodiscard]] permit rejection(error_code ec, amount n, time_point ready,
                                   time_point now) noexcept {
        return permit_issuer::reject(turns_.rejection(ec, n, ready, now));
    }

    // Returns true, since the operation is over.
    bool reject(operation& op, error_code ec, time_point ready, time_point now) noexcept {
        gate().counters().reject(ec);
        op.granted = rejection(ec, op.count, ready, now);
        op.end(ec);
        return true;
    }

    bool evict_for(request const& r, time_point now) noexcept {
        return places().evict(r, line(), queueing(), [&](operation& one) {
            turns_.remove(one, errc::shed, now);
        });
    }
    [[nodiscard]] bool is_too_long(time_point ready, time_point now) const noexcept {
        return ready != unknown &&
               ready > later(now, queueing().max_expected_wait.length_or(forever));
    }

    // During a pause permits from elsewhere are of no use.
    [[nodiscard]] demand what_waits(time_point now) noexcept {
        auto const* const head = gate().pause().is_on(now) ? nullptr : line().next(now);
        return head ? demand{head->count, line().asked(), head->deadline} : demand();
    }

    [[nodiscard]] bool is_idle() const noexcept {
        return gate().live() == 0 && line().empty() && !line().has_chains();
    }
    [[nodiscard]] bool concerns_others() const noexcept {
        return !watchers_.empty() || (!drains_.empty() && is_idle());
    }

    turns_type turns_;
    [[no_unique_address]] std::conditional_t<is_one_of_many, no_observers<0>, drains> drains_;
    [[no_unique_address]] std::conditional_t<is_one_of_many, no_observers<1>, watchers<Policy>>
        watchers_;
};

}  // namespace weir::detail
