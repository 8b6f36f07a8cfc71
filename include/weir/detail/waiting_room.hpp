#pragma once

#include <weir/amount.hpp>
#include <weir/detail/any_queue.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/gate.hpp>
#include <weir/detail/jitter.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/wait_recorder.hpp>
#include <weir/detail/waiting_line.hpp>
#include <weir/detail/wakeup.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace weir::detail {

/// For how long a request may wait: for a length of time and until an instant, whichever ends first.
struct wait_limit {
    patience length = {};
    time_point until = never;
};

/// What a policy tells those of who watch it.
template <class Policy>
struct told_by {
    using type = overdue;
};
template <eventful_policy Policy>
struct told_by<Policy> {
    using type = typename Policy::event_type;
};
template <lending_policy Policy>  // of which permits it is to be told
struct told_by<Policy> {
    using type = ticket;
};

/// The rules of a limiter: which request is granted, which one waits and in what order, which one is
/// refused and why. A pure state machine: it is told the time, and knows no lock, clock, executor or handler.
///
/// An operation that has left is in the outbox with its outcome, until it is taken from there and
/// posted. `settle` is all that ever happens by itself: the sweep, deadlines, grants, drains, reports;
/// anybody may call it at any time, and calls it often enough if `wants` says when.
template <limiting_policy Policy, class Queue = any_queue>
class waiting_room {
    using place = operation::place;
    using gate_type = gate<Policy>;
    using doors = typename gate_type::doors;
    using watching_operation = watch_operation<typename told_by<Policy>::type>;

public:
    using policy_type = Policy;
    using options_type = typename Policy::options_type;

    waiting_room(permit_issuer& issuer, Policy&& policy, queue_options const& queueing) noexcept
        : waiting_room(issuer, std::move(policy), queueing, 0, own_waits_) {}
    waiting_room(permit_issuer& issuer, options_type const& options, queue_options const& queueing)
        : waiting_room(issuer, Policy(options), queueing) {}
    /// One of several: permits carry `key`, and waits are recorded in `waits`.
    waiting_room(permit_issuer& issuer, Policy&& policy, queue_options const& queueing,
                 std::uint64_t key, wait_recorder& waits) noexcept
        : gate_(issuer, std::move(policy), key),
          queueing_(queueing),
          waits_(&waits),
          line_(queueing) {}
    waiting_room(waiting_room const&) = delete;
    waiting_room& operator=(waiting_room const&) = delete;

    /// Throws `std::invalid_argument` that names the option, its value and the bound.
    static void check(queue_options const& queueing) {
        validate(queueing);
        Queue::check(queueing);
    }

    void begin(time_point now) noexcept { policy().begin(now); }

    [[nodiscard]] Policy& policy() noexcept { return gate_.policy(); }
    [[nodiscard]] Policy const& policy() const noexcept { return gate_.policy(); }
    [[nodiscard]] queue_options const& queueing() const noexcept { return queueing_; }

    // What needs the time. Where it is not needed any time will do, and no clock is read.

    [[nodiscard]] bool needs_time_to_ask() const noexcept {
        return policy().timed() || !line_.empty();
    }
    [[nodiscard]] bool needs_time_to_tell() const noexcept { return policy().timed(); }
    [[nodiscard]] bool needs_time_to_leave() const noexcept {
        return gate_.needs_time_to_leave() || !line_.empty();
    }

    // Requests.

    /// Grants at once what `r` asks for, or says why not: `errc::limited` if waiting might help.
    [[nodiscard]] permit try_enter(request const& r, time_point now, error_code& ec) noexcept {
        help(now);
        return take(r, now, ec);
    }

    /// Grants at once as many as there are, from 1 up to what `r` asks for, or says why not.
    [[nodiscard]] permit try_enter_up_to(request const& r, time_point now,
                                         error_code& ec) noexcept {
        help(now);
        auto const there = std::max<amount>(policy().remaining(now), 1);
        return take({std::min(r.count(), there), {.priority = r.priority(), .key = r.key()}}, now,
                    ec);
    }

    /// As `try_enter`, but an empty permit without an error if waiting might help.
    [[nodiscard]] permit enter_at_once(request const& r, time_point now, error_code& ec) noexcept {
        ec = {};
        help(now);
        auto const asked = ask(r, now);
        if (asked.granted) [[likely]]
            return gate_.grant_at_once(r.count(), now);
        if (asked.refused) {
            ec = *asked.refused;
            gate_.counters().refuse(ec);
            return refusal(asked.ready, now);
        }
        return {};
    }

    /// The same for `op`: whether it is over, with the outcome in it.
    [[nodiscard]] bool decide(operation& op, time_point now) {
        if (op.cancelled)
            return refuse(op, boost::asio::error::operation_aborted, unknown, now);
        help(now);
        auto const asked = ask(op.asked_for(), now);
        if (asked.granted) {
            op.granted = gate_.grant_at_once(op.count, now);
            detach(op);
            return true;
        }
        return asked.refused && refuse(op, *asked.refused, asked.ready, now);
    }

    /// After `decide` has not: whether `op` cannot wait, with the outcome in it. Otherwise it has its
    /// deadline, and `join` must follow. May throw `std::bad_alloc`; then nothing has happened.
    [[nodiscard]] bool cannot_wait(operation& op, wait_limit const& limit, time_point now) {
        auto const length = limit.length.length_or(queueing_.patience.length_or(forever));
        auto const deadline = std::min(length == forever ? never : later(now, length), limit.until);
        auto const r = op.asked_for();
        auto const evicted = find_place(r);
        auto const ready = turn_of(r, evicted.value_or(0), now);

        if (ready != unknown && ready > deadline)
            return refuse(op, errc::deadline_unreachable, ready, now);
        if (deadline <= now)
            return refuse(op, errc::timed_out, ready, now);
        if (!evicted || is_too_long(ready, now))
            return refuse(op, errc::queue_full, ready, now);
        waits_->prepare();
        line_.prepare(op);
        if (deadline != never)
            line_.prepare_deadlines(now, queueing_.tolerance);
        op.deadline = deadline;
        return false;
    }

    void join(operation& op, time_point now) noexcept {
        op.since = now;
        op.number = next_number_++;
        op.at = place::queue;
        line_.push(op);
        reprices_ = reprices_ || sweeping_;  // its turn is not known before the sweep comes to it
    }

    /// Undoes `join`.
    void withdraw(operation& op) noexcept {
        line_.erase(op);
        op.number = 0;
        op.at = place::nowhere;
    }

    /// After `join`: drops those for which `op` waits. Whether there were any.
    bool evict(operation const& op, time_point now) noexcept {
        return evict_for({op.count, {.priority = op.priority}}, now);
    }

    /// Whether a wait for all permits to come home is over, with the outcome in `op`.
    [[nodiscard]] bool decide_drain(operation& op) noexcept {
        return is_over_at_once(op) || (is_idle() && end(op, {}));
    }
    void join_drain(operation& op) noexcept { join(op, draining_, place::draining); }

    /// Whether a wait for what the policy tells of is over, with the outcome in `op`.
    template <class Found>
    [[nodiscard]] bool decide_watch(watch_operation<Found>& op, time_point now) noexcept {
        bool const is_next = lending_policy<Policy> || watching_.empty();
        return is_over_at_once(op) || (is_next && tell(op, now) && end(op, op.error));
    }
    template <class Found>
    void join_watch(watch_operation<Found>& op) noexcept {
        join(op, watching_, place::watching);
    }

    /// Undoes `join_drain` or `join_watch`.
    static void withdraw_other(operation& op) noexcept {
        unlink(op);
        op.number = 0;
        op.at = place::nowhere;
    }

    /// Takes `n` whatever the state of the policy; an empty permit if the doors are not open.
    [[nodiscard]] permit charge(amount n, time_point now) {
        if (!gate_.is_open())
            return gate_type::refuse(unknown, now);
        return gate_.grant_at_once(n, now);
    }

    // Chains, as `chain_member` has them.

    /// Newcomers are told when those before them have gone; those that wait, what is true even if they went.
    [[nodiscard]] chain_turn consider(chain_entry const& e, time_point now) noexcept {
        bool const waits = e.number != 0;
        if (waits ? gate_.is_shut() : !gate_.is_open())
            return {.refused = errc::closed};
        if (waits && e.number < cancel_before_)
            return {.refused = boost::asio::error::operation_aborted};
        if (e.count == 0)
            return {.lets = true, .ready_in = duration::zero()};
        if (e.count > policy().capacity())
            return {.refused = errc::exceeds_capacity};
        bool const barred = waits ? !line_.is_first(e, now) : !line_.empty();
        auto const ahead = waits || !barred ? 0 : line_.ahead_of_new(e.count, now);
        auto const ready = policy().ready_at(e.count, ahead, now);
        if (barred && (sweeping_ || ready <= now))
            return {};
        return turn(!barred && ready <= now, ready, now);
    }
    [[nodiscard]] static chain_turn turn(bool lets, time_point ready, time_point now) noexcept {
        if (ready == unknown)
            return {};
        return {.lets = lets,
                .ready_in = ready == never ? forever - duration(1)
                                           : std::max(ready - now, duration::zero())};
    }
    [[nodiscard]] bool admit(chain_entry& e, time_point now) noexcept {
        e.granted = e.number == 0 ? gate_.grant_at_once(e.count, now)
                                  : grant_after_wait(e.count, e.since, now);
        return true;
    }
    duration refuse(chain_entry const& e, error_code ec, duration ready_in,
                    time_point now) noexcept {
        if (e.number == 0)
            gate_.counters().refuse(ec);
        else
            gate_.counters().refuse(ec, std::max(now - e.since, duration::zero()));
        return jitter_.of(ready_in, queueing_.jitter, now);
    }

    [[nodiscard]] bool prepare(chain_entry&, time_point now) {
        waits_->prepare();
        line_.prepare_chains();
        line_.prepare_deadlines(now, queueing_.tolerance);
        return true;
    }
    [[nodiscard]] bool has_place(chain_entry const& e, time_point now) noexcept {
        request const r(e.count);
        auto const evicted = find_place(r);
        return evicted && !is_too_long(turn_of(r, *evicted, now), now);
    }
    void evict(chain_entry const& e, time_point now) noexcept { evict_for(e.count, now); }
    void enroll(chain_entry& e, time_point now) noexcept {
        e.number = next_number_++;
        e.since = now;
        line_.chains()->enroll(e);
    }
    void strike(chain_entry& e) noexcept {
        if (e.number == 0)
            return;
        if (e.stands)
            line_.step_out(e);
        line_.chains()->strike(e);
        e.number = 0;
    }
    void stand(chain_entry& e) noexcept { line_.stand(e); }
    void step_out(chain_entry& e) noexcept { line_.step_out(e); }
    [[nodiscard]] chain_line& chains(chain_entry const&) noexcept { return *line_.chains(); }
    void set_alarm(chain_operation& op, time_point at) noexcept { line_.move_deadline(op, at); }
    void complete(chain_operation& op) noexcept {
        line_.move_deadline(op, never);
        detach(op);
        op.at = place::nowhere;
        outbox_.push_back(op);
    }

    /// Hands over those that have been called here.
    void take_calls(call_list& to) noexcept {
        if (line_.chains())
            to.append(line_.chains()->calls());
    }

    // Permits that come home: whether somebody here may have to be told.

    [[nodiscard]] bool leave(amount n, permit_origin from, time_point now) noexcept {
        static_cast<void>(gate_.leave(n, from.ticket, now));
        return !line_.empty() || concerns_others();
    }
    [[nodiscard]] bool refund(amount n, permit_origin from, time_point now) noexcept {
        return gate_.refund(n, from.ticket, now) && !line_.empty();
    }
    [[nodiscard]] bool leave_unused(amount n, permit_origin from, time_point now) noexcept {
        static_cast<void>(gate_.leave_unused(n, from.ticket, now));
        return !line_.empty() || concerns_others();
    }
    [[nodiscard]] ticket overdraw(amount n, amount held, permit_origin from, time_point now) {
        return gate_.overdraw(n, held, from.ticket, now);
    }
    void split(permit_origin) noexcept { gate_.split(); }
    [[nodiscard]] ticket merge(permit_origin into, permit_origin from, amount n) noexcept {
        return gate_.merge(into.ticket, from.ticket, n);
    }
    /// Nobody else is concerned.
    [[nodiscard]] ticket report(permit_origin from, outcome o) noexcept
        requires hears_reports<Policy>
    {
        return gate_.policy().report(from.ticket, o);
    }
    [[nodiscard]] amount remaining(permit_origin, time_point now) const noexcept {
        return policy().remaining(now);
    }
    [[nodiscard]] bool is_lost(permit_origin from, time_point now) const noexcept
        requires lending_policy<Policy>
    {
        return policy().is_lost(from.ticket, now);
    }

    // Events that concern all that wait: `settle` carries them out.

    /// Newcomers are refused from now on.
    void shut_down() noexcept { gate_.close(doors::no_newcomers); }

    /// Newcomers and those in the line are refused.
    void close() noexcept {
        gate_.close(doors::shut);
        begin_sweep();
    }

    /// All that wait now are cancelled.
    void cancel_all() noexcept {
        cancel_before_ = next_number_;
        begin_sweep();
    }

    /// The limiter object has gone: all that wait are refused.
    void abandon() noexcept {
        gone_ = true;
        close();
    }

    /// The policy has other options: all in the line are looked at again.
    void reprice() noexcept {
        if (line_.empty() && !line_.has_chains())
            return;
        reprices_ = true;
        begin_sweep();
    }

    /// Goes on with other queue options; those that wait stay.
    void set_queueing(queue_options const& next) noexcept {
        queueing_ = next;
        line_.configure(next);
    }

    /// Cancels one operation, or notes that it is cancelled before it waits.
    void cancel(operation& op, time_point now) noexcept {
        if (op.at != place::nowhere && op.at != place::chained)
            return remove(op, boost::asio::error::operation_aborted, now);
        op.cancelled = true;
        if (op.at == place::chained)
            call(op);
    }

    static void detach(operation& op) noexcept {
        if (op.canceller)
            std::exchange(op.canceller, nullptr)->target = nullptr;
    }

    // Orders, where the policy is fed from elsewhere.

    static constexpr bool is_fed = fed_policy<Policy>;

    /// Whether nobody will ask any more.
    [[nodiscard]] bool is_gone() const noexcept { return gone_; }

    [[nodiscard]] bool has_order(time_point now) noexcept {
        return policy().next_order(what_waits(now), now) <= now;
    }
    [[nodiscard]] auto pop_order(time_point now) noexcept {
        return policy().pop_order(what_waits(now), now);
    }

    // What happens by itself.

    /// Does what there is to do, until `budget` operations were touched.
    void settle(time_point now, int& budget) noexcept {
        if constexpr (is_fed) {
            if (policy().elapse(now))
                reprice();
        }
        if (sweeping_)
            sweep(now, budget);
        line_.expire(now, budget, [&](operation& op) {
            if (op.at == place::chained)
                call(op);
            else
                remove(op, errc::timed_out, now);
        });
        if (!sweeping_) {
            do
                serve(now, budget);
            while (shed(now, budget));
        }
        for (; budget > 0 && !draining_.empty() && is_idle(); --budget)
            take_out(draining_.front());
        for (; budget > 0 && !watching_.empty(); --budget) {
            if (!tell(static_cast<watching_operation&>(watching_.front()), now))
                break;
            take_out(watching_.front());
        }
    }

    /// What the actor is needed for. `last_alarm`: when it last came for the timer.
    [[nodiscard]] needs wants(time_point now, time_point last_alarm) noexcept {
        needs n;
        n.waiting = !is_done();
        if (!n.waiting)
            return n;
        n.next = next_event(now, last_alarm);
        if constexpr (is_fed)
            n.next = std::min(n.next, policy().next_order(what_waits(now), now));
        n.due = sweeping_ || !outbox_.empty() || n.next <= now || has_event(now) ||
                (!draining_.empty() && is_idle());
        return n;
    }

    [[nodiscard]] std::uint64_t waiting() const noexcept { return line_.size(); }
    [[nodiscard]] amount waiting_for() const noexcept { return line_.asked(); }
    [[nodiscard]] typename gate_type::books take_books() noexcept { return gate_.take_books(); }
    [[nodiscard]] bool perhaps_waiting() const noexcept { return line_.perhaps_waiting(); }
    [[nodiscard]] bool nobody_waits() const noexcept {
        return line_.empty() && draining_.empty() && watching_.empty() && !line_.has_chains();
    }
    [[nodiscard]] bool is_empty() const noexcept { return nobody_waits() && outbox_.empty(); }
    /// Whether the policy does not need the time, either.
    [[nodiscard]] bool is_done() const noexcept {
        if constexpr (is_fed)
            return is_empty() && !policy().must_go_on();
        else
            return is_empty();
    }
    [[nodiscard]] std::uint64_t live() const noexcept { return gate_.live(); }

    /// Operations that have left the room and are to be posted.
    [[nodiscard]] operation_list& outbox() noexcept { return outbox_; }

    /// Takes all operations out, with no outcome, and calls the chains. From now on nobody enters.
    void clear_out() noexcept {
        gone_ = true;
        gate_.close(doors::shut);
        if (auto* const chains = line_.chains()) {
            chains->begin_sweep();
            while (chain_entry* const e = chains->step_sweep())
                chains->call(*e->op);
        }
        while (operation* const op = line_.oldest())
            take_out(*op);
        for (auto* const list : {&draining_, &watching_}) {
            while (!list->empty())
                take_out(list->front());
        }
        sweeping_ = false;
    }

    /// Memory that is needed only while somebody waits.
    [[nodiscard]] auto take_spare_memory() noexcept {
        return line_.empty() && !line_.has_chains() ? line_.take_deadlines() : nullptr;
    }

    [[nodiscard]] limiter_stats stats(time_point now) const noexcept {
        auto result = gate_.stats(now);
        result.waiting = line_.size();
        result.waiting_for = line_.asked();
        auto const* const oldest = line_.oldest();
        if (auto const* const chain = line_.chain_before(oldest))
            result.oldest_wait = now - chain->since;
        else if (oldest)
            result.oldest_wait = now - oldest->since;
        return result;
    }

    [[nodiscard]] wait_histogram waits() const noexcept { return waits_->recorded(); }

    /// How many operations a caller at the gate touches for others, before its own request.
    static constexpr int help_budget = 16;

    /// How many are dropped, at the most, for one newcomer.
    static constexpr int most_evictions = 16;

private:
    // Nobody is turned away on account of somebody whose time has come but whose actor has not.
    void help(time_point now) noexcept {
        if (line_.empty()) [[likely]]
            return;
        int budget = help_budget;
        settle(now, budget);
    }

    [[nodiscard]] permit take(request const& r, time_point now, error_code& ec) noexcept {
        auto const asked = ask(r, now);
        if (asked.granted) [[likely]] {
            ec = {};
            return gate_.grant_at_once(r.count(), now);
        }
        ec = asked.refused.value_or(errc::limited);
        gate_.counters().refuse(ec);
        return refusal(asked.ready, now);
    }

    [[nodiscard]] typename gate_type::answer ask(request const& r, time_point now) const noexcept {
        bool const barred = line_.bars(r, now);
        if (!barred) [[likely]]
            return gate_.ask(r.count(), 0, false, now);
        auto asked = gate_.ask(r.count(), line_.ahead_of_new(r, now), true, now);
        if (sweeping_)  // some of those ahead will have to go
            asked.ready = unknown;
        return asked;
    }

    // When it would be the turn of a newcomer for which those are evicted that ask for `evicted`.
    [[nodiscard]] time_point turn_of(request const& r, amount evicted, time_point now) noexcept {
        if (!line_.bars(r, now))
            return policy().ready_at(r.count(), 0, now);
        if (sweeping_)
            return unknown;
        auto const ahead = line_.ahead_of_new(r, now);
        return policy().ready_at(r.count(), std::max<amount>(ahead - evicted, 0), now);
    }

    [[nodiscard]] demand what_waits(time_point now) noexcept {
        auto const* const head = line_.next(now);
        return head ? demand{head->count, line_.asked(), head->deadline} : demand();
    }

    // Hands those to `drop`, from `first_to_go_` on, that a newcomer who asks for `r` takes the place of, while
    // `size` others wait for `asked` permits. How many permits they ask for, or nothing if the newcomer may
    // not wait.
    template <class F>
    [[nodiscard]] std::optional<amount> make_room(request const& r, std::uint64_t size,
                                                  amount asked, F drop) const {
        auto const n = r.count();
        auto places = size;
        auto permits = asked;
        auto* next = first_to_go_;
        for (int more = most_evictions;; --more) {
            bool const is_place =
                places < static_cast<std::uint64_t>(queueing_.limit) || places < size;
            bool const is_room = n <= queueing_.limit_permits - permits || n <= asked - permits;
            if (is_place && is_room)
                return asked - permits;
            if (queueing_.full == when_full::reject_newest || !next || more == 0)
                return std::nullopt;
            auto& one = *std::exchange(next, line_.makes_way(r, next));
            --places;
            permits -= one.count;
            drop(one);
        }
    }

    // The same before a newcomer joins, with whom the line goes on from then on.
    [[nodiscard]] std::optional<amount> find_place(request const& r) noexcept {
        first_to_go_ =
            queueing_.full == when_full::evict_oldest ? line_.makes_way(r, nullptr) : nullptr;
        return make_room(r, line_.size(), line_.asked(), [](operation const&) {});
    }
    // And after it has joined.
    bool evict_for(request const& r, time_point now) noexcept {
        auto const evicted = make_room(r, line_.size() - 1, line_.asked() - r.count(),
                                       [&](operation& one) { remove(one, errc::shed, now); });
        return evicted.value_or(0) != 0;
    }
    [[nodiscard]] bool is_too_long(time_point ready, time_point now) const noexcept {
        return ready != unknown && ready > later(now, queueing_.max_wait.length_or(forever));
    }

    // A chain of which this is the home.
    void call(operation& op) noexcept { line_.chains()->call(static_cast<chain_operation&>(op)); }

    // The permit of a refusal, which says when to come back.
    [[nodiscard]] permit refusal(time_point ready, time_point now) noexcept {
        return gate_type::refuse(jitter_.after(ready, queueing_.jitter, now), now);
    }

    // Both return true: it is over.
    static bool end(operation& op, error_code ec) noexcept {
        op.error = ec;
        detach(op);
        return true;
    }
    bool refuse(operation& op, error_code ec, time_point ready, time_point now) noexcept {
        gate_.counters().refuse(ec);
        op.granted = refusal(ready, now);
        return end(op, ec);
    }

    [[nodiscard]] bool is_over_at_once(operation& op) const noexcept {
        if (op.cancelled)
            return end(op, boost::asio::error::operation_aborted);
        return gone_ && end(op, errc::closed);
    }

    void join(operation& op, operation_list& list, place at) noexcept {
        op.number = next_number_++;
        op.at = at;
        list.push_back(op);
    }

    [[nodiscard]] bool is_idle() const noexcept {
        return gate_.live() == 0 && line_.empty() && !line_.has_chains();
    }

    [[nodiscard]] bool concerns_others() const noexcept {
        return !watching_.empty() || (!draining_.empty() && is_idle());
    }

    static void unlink(operation& op) noexcept { static_cast<list_hook<in_line>&>(op).unlink(); }

    // Into the outbox.
    void take_out(operation& op) noexcept {
        if (op.at == place::queue) {
            if (sweeping_ && op.seen_by_sweep == sweep_number_)
                swept_ -= op.count;
            line_.erase(op);
        } else {
            unlink(op);
        }
        detach(op);
        op.at = place::nowhere;
        outbox_.push_back(op);
    }

    void remove(operation& op, error_code ec, time_point now) noexcept {
        bool const entering = op.at == place::queue;
        take_out(op);
        op.error = ec;
        if (!entering)
            return;
        gate_.counters().refuse(ec, std::max(now - op.since, duration::zero()));
        if constexpr (is_fed) {
            if (ec == errc::unavailable) {
                op.granted = refusal(policy().barred(now).value_or(unknown), now);
                return;
            }
        }
        bool const may_return =
            ec == errc::timed_out || ec == errc::shed || ec == errc::deadline_unreachable;
        auto const ready =
            may_return ? policy().ready_at(op.count, line_.ahead_of_new(op.asked_for(), now), now)
                       : unknown;
        op.granted = refusal(ready, now);
    }

    [[nodiscard]] permit grant_after_wait(amount n, time_point since, time_point now) {
        auto const waited = now - since;
        waits_->add(waited);
        return gate_.grant(n, now, waited);
    }

    // Grants to those whose turn it is.
    void serve(time_point now, int& budget) noexcept {
        for (; budget > 0; --budget) {
            operation* const op = line_.next(now);
            if (chain_entry* const chain = line_.chain_before(op)) [[unlikely]] {
                if (!chain->ready && policy().ready_at(chain->count, 0, now) <= now)
                    line_.chains()->call(*chain->op);
                break;  // whoever has called it goes on
            }
            if (!op)
                break;
            if (op->deadline < now) {
                remove(*op, errc::timed_out, now);
            } else if (policy().ready_at(op->count, 0, now) <= now) {
                line_.grant(*op, now);
                take_out(*op);
                op->granted = grant_after_wait(op->count, op->since, now);
            } else {
                break;
            }
        }
    }

    // After all that can be granted has been: whether the order has given up one more.
    [[nodiscard]] bool shed(time_point now, int& budget) noexcept {
        operation* const op = budget > 0 ? line_.shed(now) : nullptr;
        if (!op)
            return false;
        --budget;
        remove(*op, errc::shed, now);
        return true;
    }

    // After `close`, `cancel_all`, `reprice`: from the first in the line again.
    void begin_sweep() noexcept {
        sweeping_ = true;
        ++sweep_number_;
        swept_ = 0;
        line_.begin_sweep();
    }

    void sweep(time_point now, int& budget) noexcept {
        for (auto* const list : {&draining_, &watching_}) {
            for (; budget > 0 && !list->empty(); --budget) {
                operation& op = list->front();
                if (gone_)
                    remove(op, errc::closed, now);
                else if (op.number < cancel_before_)
                    remove(op, boost::asio::error::operation_aborted, now);
                else
                    break;
            }
        }
        if (auto* const chains = line_.chains()) {
            for (; budget > 0 && !chains->is_swept(); --budget)
                chains->call(*chains->step_sweep()->op);
        }
        bool const others_are_done = budget > 0;
        for (; budget > 0 && !line_.is_swept(); --budget) {
            operation* const op = line_.step_sweep();
            if (gate_.is_shut())
                remove(*op, errc::closed, now);
            else if (op->number < cancel_before_)
                remove(*op, boost::asio::error::operation_aborted, now);
            else if (reprices_)
                look_again_at(*op, now);
        }
        if (others_are_done && line_.is_swept())  // with the last one, or newcomers were left out
            sweeping_ = reprices_ = false;
    }

    // Whether its turn can still come, and in time.
    void look_again_at(operation& op, time_point now) noexcept {
        auto const ready = op.count > policy().capacity()
                               ? unknown
                               : policy().ready_at(op.count, line_.foresees() ? swept_ : 0, now);
        if constexpr (is_fed) {
            if (ready == unknown && policy().barred(now))
                return remove(op, errc::unavailable, now);
        }
        if (op.count > policy().capacity()) {
            remove(op, errc::exceeds_capacity, now);
        } else if (ready != unknown && ready > op.deadline) {
            remove(op, errc::deadline_unreachable, now);
        } else {
            op.seen_by_sweep = sweep_number_;
            swept_ += op.count;
        }
    }

    [[nodiscard]] bool tell(overdue_operation& op, time_point now) noexcept {
        if constexpr (watchful_policy<Policy>) {
            if (auto const found = policy().pop_overdue(now)) {
                op.found = *found;
                gate_.counters().overdue();
                return true;
            }
        }
        return false;
    }
    [[nodiscard]] bool tell(watching_operation& op, time_point) noexcept
        requires eventful_policy<Policy>
    {
        auto const found = policy().pop_event();
        if (found)
            op.found = *found;
        return found.has_value();
    }
    // All that wait for the same permits are told. Of those that have come home nothing can be told any more.
    [[nodiscard]] bool tell(watching_operation& op, time_point now) noexcept
        requires lending_policy<Policy>
    {
        if (policy().is_lost(op.found, now))
            return true;
        if (policy().is_held(op.found))
            return false;
        op.error = boost::asio::error::operation_aborted;
        return true;
    }
    [[nodiscard]] bool has_event([[maybe_unused]] time_point now) noexcept {
        if (watching_.empty())
            return false;
        if constexpr (eventful_policy<Policy>)
            return policy().has_event();
        else if constexpr (lending_policy<Policy>)
            return tell(static_cast<watching_operation&>(watching_.front()), now);
        else
            return false;
    }

    [[nodiscard]] time_point next_event(time_point now, time_point last_alarm) noexcept {
        auto const expiry = line_.next_deadline();
        auto at = std::min(expiry, line_.next_event(now));
        auto const* const head = line_.next(now);
        if (auto const* const chain = line_.chain_before(head)) {
            if (!chain->ready && !chain->op->called.load(std::memory_order_relaxed))
                at = std::min(at, worth_a_wakeup(chain->count, expiry, now, last_alarm));
        } else if (head) {
            at = std::min(at, worth_a_wakeup(head->count, expiry, now, last_alarm));
        }
        if constexpr (watchful_policy<Policy>) {
            if (!watching_.empty())
                at = std::min(at, policy().next_overdue());
        }
        return std::min(at, never);
    }

    // When to come for the head: as soon as it can go; but where the policy makes up for it, at most
    // once in a tolerance. That is counted from the time for which the timer was armed, not from when
    // it fired, so that lateness does not add up. Half of the time to a full bucket is left for a
    // late timer, and a head that would expire meanwhile is not kept waiting.
    [[nodiscard]] time_point worth_a_wakeup(amount head, time_point expiry, time_point now,
                                            time_point last_alarm) noexcept {
        auto const at = policy().ready_at(head, 0, now);
        if constexpr (requires { policy().catches_up(); }) {
            if (!policy().catches_up() || at <= now || at >= never)
                return at;
            auto const full = policy().ready_at(policy().capacity(), 0, now);
            auto const spare = full >= never || full <= at ? duration::zero() : (full - at) / 2;
            auto const until = std::min(
                {later(last_alarm, queueing_.tolerance), at + spare, expiry - queueing_.tolerance});
            return std::max(at, until);
        }
        return at;
    }

    gate_type gate_;
    queue_options queueing_;
    jitter jitter_;
    wait_recorder own_waits_;
    wait_recorder* waits_;
    waiting_line<Queue> line_;
    operation_list draining_;
    operation_list watching_;
    operation_list outbox_;
    operation* first_to_go_ = nullptr;  // for the newcomer of this call
    std::uint64_t next_number_ = 1;

    std::uint64_t cancel_before_ = 0;
    amount swept_ = 0;  // what those ask for that this sweep has left in the line
    std::uint32_t sweep_number_ = 0;
    bool sweeping_ = false;
    bool reprices_ = false;
    bool gone_ = false;  // the limiter object, or the execution context
};

}  // namespace weir::detail
