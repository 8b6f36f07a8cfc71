#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/gate.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/rejected.hpp>
#include <weir/detail/room/common.hpp>
#include <weir/detail/room/deadlines.hpp>
#include <weir/detail/room/sweep.hpp>
#include <weir/detail/room/wake_time.hpp>
#include <weir/detail/waiting_line.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace weir::detail {

/// A gate, and the queue before it. It decides when a waiting request is granted, or leaves without permits, and why:
/// its patience ended, it was cancelled, the order drops it, or a sweep finds that it cannot stay. It does not decide
/// whether a newcomer may join, but it predicts the newcomer's wait.
///
/// An operation that has left the queue is in the outbox, with its outcome. `Parts` is `own_parts` or `shared_parts`.
template <limiting_policy Policy, class Queue, class Parts = own_parts>
class turns {
public:
    using gate_type = gate<Policy, typename Parts::of_gate>;
    using line_type = waiting_line<Queue>;

    /// Constructs a gate, from `of_gate` and `key`, and an empty queue. `of_gate` is as for a gate; `common` is the
    /// common parts, or the options from which to make them.
    template <class Common, class GateSource>
    turns(Common& common, GateSource& of_gate, Policy&& policy, std::uint64_t key)
        : gate_(of_gate, std::move(policy), key), common_{common}, line_(common_.queueing) {}
    turns(turns const&) = delete;
    turns& operator=(turns const&) = delete;

    [[nodiscard]] gate_type& at_gate() noexcept { return gate_; }
    [[nodiscard]] gate_type const& at_gate() const noexcept { return gate_; }
    [[nodiscard]] line_type& in_line() noexcept { return line_; }
    [[nodiscard]] line_type const& in_line() const noexcept { return line_; }
    [[nodiscard]] common_parts& parts() noexcept { return common_; }
    [[nodiscard]] common_parts const& parts() const noexcept { return common_; }

    [[nodiscard]] queue_options const& queueing() const noexcept { return common_.queueing; }
    /// Adopts the options, which have changed. Waiting requests stay.
    void adopt_queueing() noexcept { line_.configure(common_.queueing); }

    // Newcomers.

    /// Returns whether `r` can be granted immediately, why it is rejected, or when it could be granted. Forced inline,
    /// like the other steps of a grant.
    [[nodiscard, gnu::always_inline]] typename gate_type::answer ask(
        request const& r, time_point now) const noexcept {
        if (line_.bars(r, now)) [[unlikely]]
            return ask_behind_others(r, now);
        return gate_.ask(r.count(), 0, false, now);
    }
    /// Returns when `r` could be granted if requests for `evicted` permits leave.
    [[nodiscard]] time_point turn_of(request const& r, amount evicted,
                                     time_point now) const noexcept {
        if (!line_.bars(r, now))
            return gate_.ready_at(r.count(), 0, now);
        if (sweep_.is_under_way())
            return unknown;
        auto const ahead = line_.ahead_of_new(r, now);
        return gate_.ready_at(r.count(), std::max<amount>(ahead - evicted, 0), now);
    }
    /// Returns what to report about the rejection of a request for `n` permits that could be granted at `ready`.
    [[nodiscard]] rejected rejection(error_code ec, amount n, time_point ready,
                                     time_point now) noexcept {
        if (ec.value() == static_cast<int>(errc::exceeds_capacity)) [[unlikely]]
            return {.by = queueing().name, .requested = n, .capacity = policy().capacity()};
        return {.retry_after = gate_type::retry_after(
                    common_.jitter.after(ready, queueing().jitter, now), now),
                .by = queueing().name};
    }

    [[nodiscard]] permit grant_at_once(request const& r, time_point now) {
        return grant_at_once(r, gate_.share(r.count(), r.max(), now), now);
    }
    /// Grants `n` of the permits that `r` asks for.
    [[nodiscard]] permit grant_at_once(request const& r, amount n, time_point now) {
        auto* const accounts = line_.accounts();
        return gate_.grant_at_once(n, now, accounts ? accounts->take(r, n) : 0);
    }

    /// Reserves the memory that `join` needs. May throw.
    void prepare(operation const& op, time_point deadline, time_point now) {
        common_.waits.prepare();
        line_.prepare(op);
        if (deadline != never)
            prepare_deadlines(now);
    }
    void join(operation& op, time_point now) noexcept {
        op.since = now;
        op.number = common_.take_number();
        op.at = operation::place::queue;
        line_.push(op);
        common_.deadlines.insert(op, op.deadline);
        common_.count_arrival(op.count);
        sweep_.joins();
    }
    /// Undoes `join`.
    void withdraw(operation& op) noexcept {
        erase(op);
        op.number = 0;
        op.at = operation::place::nowhere;
    }

    /// Returns the grant time of `op`, which is the last in the queue; `unknown` if it cannot be predicted.
    [[nodiscard]] time_point turn_of_last(operation const& op, time_point now) const noexcept {
        if (!line_.foresees() || sweep_.is_under_way())
            return unknown;
        return gate_.ready_at(op.count, line_.asked() - op.count, now);
    }
    /// Puts `by` in the position of `op`. No event affects `op` from then on.
    void replace(operation& op, operation& by) noexcept {
        by.come_as(op);
        line_.replace(op, by);
        deadlines::replace(op, by);
        op.at = operation::place::nowhere;
    }

    // Chains.

    /// For a newcomer, the result assumes that the requests before it have left. For a waiting chain, it gives only
    /// results that hold even if they leave.
    [[nodiscard]] chain_turn consider(chain_entry const& e, time_point now) noexcept {
        bool const waits = e.number != 0;
        if (waits ? gate_.is_shut() : !gate_.is_open())
            return {.rejected = errc::closed};
        if (waits && sweep_.cancels(e.number))
            return {.rejected = boost::asio::error::operation_aborted};
        if (e.count == 0)
            return {.lets = true, .ready_in = duration::zero()};
        if (e.count > policy().capacity())
            return {.rejected = errc::exceeds_capacity};
        bool const barred = waits ? !line_.is_first(e, now) : !line_.empty();
        auto const ahead = waits || !barred ? 0 : line_.ahead_of_new(e.count, now);
        auto const ready = gate_.ready_at(e.count, ahead, now);
        if (barred && (sweep_.is_under_way() || ready <= now))
            return {};
        return chain_turn::at(!barred && ready <= now, ready, now);
    }
    [[nodiscard]] rejected reject(chain_entry const& e, error_code ec, duration ready_in,
                                  time_point now) noexcept {
        if (e.number == 0)
            gate_.counters().reject(ec);
        else
            gate_.counters().reject(ec, std::max(now - e.since, duration::zero()));
        auto what = rejection(ec, e.count, unknown, now);
        what.retry_after = common_.jitter.of(ready_in, queueing().jitter, now);
        return what;
    }
    /// Reserves the memory that `enroll` and the later functions need. May throw.
    void prepare(chain_entry const& e, time_point now) {
        common_.waits.prepare();
        line_.prepare_chains(common_.calls);
        if (&e == e.op->at_home)  // which keeps its deadline
            prepare_deadlines(now);
    }
    void enroll(chain_entry& e, time_point now) noexcept {
        e.number = common_.take_number();
        e.since = now;
        line_.chains()->enroll(e);
    }
    void strike(chain_entry& e) noexcept {
        if (e.number == 0)
            return;
        if (e.stands)
            step_out(e);
        line_.chains()->strike(e);
        e.number = 0;
    }
    void stand(chain_entry& e) noexcept {
        line_.stand(e);
        common_.count_arrival(e.count);
    }
    void step_out(chain_entry& e) noexcept {
        line_.step_out(e);
        common_.count_departure(e.count);
    }

    // Events that concern all waiting requests: `serve` carries them out.

    void close() noexcept {
        gate_.close(gate_type::doors::shut);
        sweep_.close();
        line_.begin_sweep();
    }
    void cancel_all() noexcept {
        sweep_.cancel_before(common_.next_number);
        line_.begin_sweep();
    }
    /// Records that the grant times have changed: the policy has other options, or the pause has another end.
    void reprice() noexcept {
        if (line_.empty() && !line_.has_chains())
            return;
        sweep_.reprice();
        line_.begin_sweep();
    }
    /// Records that a debt delays the waiting requests: some of them can no longer be granted in time.
    void fall_into_debt(time_point now) noexcept {
        if (line_.empty() && !line_.has_chains()) [[likely]]
            return;
        bool const has_deadlines = line_.has_chains() || common_.deadlines.next() != never;
        auto const* const first = line_.oldest();
        bool const is_predictable = !first || gate_.ready_at(first->count, 0, now) != unknown;
        if (has_deadlines && is_predictable && sweep_.fall_into_debt())
            line_.begin_sweep();
    }

    // Requests in the queue.

    /// Grants `n` permits to a request that has waited since `since`.
    [[nodiscard]] permit grant(amount n, time_point since, time_point now,
                               std::uint8_t account = 0) {
        auto const waited = now - since;
        common_.waits.add(waited);
        return gate_.grant(n, now, waited, account);
    }
    /// Removes `op` from the queue without permits.
    void remove(operation& op, error_code ec, time_point now) noexcept {
        take_out(op);
        op.error = ec;
        gate_.counters().reject(ec, std::max(now - op.since, duration::zero()));
        op.granted = permit_issuer::reject(rejection(ec, op.count, comes_back(op, ec, now), now));
    }
    /// Completes a chain whose home this is; it holds its outcome.
    void complete(chain_operation& op) noexcept {
        common_.deadlines.move(op, never);
        to_outbox(op);
    }
    /// Calls a chain whose home this is, since an event concerns it.
    void call(operation& op) noexcept { line_.chains()->call(static_cast<chain_operation&>(op)); }
    /// Ends the wait of `op`, whose deadline has passed. If its home is here, calls a chain, which examines itself.
    void expire(operation& op, time_point now) noexcept {
        if (op.at == operation::place::chained)
            call(op);
        else
            remove(op, why_too_late(op, now), now);
    }

    /// Continues a sweep that holds the grants, until `budget` operations were touched.
    void examine(time_point now, int& budget) noexcept {
        if (sweep_.holds_grants())
            static_cast<void>(walk(now, budget));
    }
    /// Does all work that is due, except deadlines, until `budget` operations were touched.
    void serve(time_point now, int& budget) noexcept {
        examine(now, budget);
        if (sweep_.holds_grants())
            return;
        do
            grant_turns(now, budget);
        while (shed(now, budget) || (sweep_.is_under_way() && walk(now, budget)));
    }
    [[nodiscard]] bool is_sweeping() const noexcept { return sweep_.is_under_way(); }
    /// Returns when work is due here, except deadlines. `last_alarm`: as in `wakeup`.
    [[nodiscard]] time_point next_event(time_point now, time_point last_alarm) noexcept {
        auto const at = line_.next_event(now);
        auto const turn = [&](amount n) {
            return std::min(at, wake_time(policy(), gate_.pause(), n, common_.deadlines.next(),
                                          queueing().tolerance, now, last_alarm));
        };
        auto const* const head = line_.next(now);
        if (auto const* const chain = line_.chain_before(head)) {
            bool const is_called = chain->op->called.load(std::memory_order_relaxed);
            return chain->ready || is_called ? at : turn(chain->count);
        }
        return head ? turn(head->count) : at;
    }

    /// Removes all operations without an outcome, and calls the chains. Admits no request from now on.
    void clear_out() noexcept {
        gate_.close(gate_type::doors::shut);
        if (auto* const chains = line_.chains()) {
            chains->begin_sweep();
            while (chain_entry* const e = chains->step_sweep())
                chains->call(*e->op);
        }
        while (operation* const op = line_.oldest())
            take_out(*op);
        sweep_.end();
    }

    [[nodiscard]] limiter_stats stats(time_point now) const noexcept {
        auto result = gate_.stats(now);
        result.name = queueing().name;
        result.waiting = line_.size();
        result.waiting_for = line_.asked();
        auto const* const oldest = line_.oldest();
        if (auto const* const chain = line_.chain_before(oldest))
            result.oldest_wait = now - chain->since;
        else if (oldest)
            result.oldest_wait = now - oldest->since;
        return result;
    }

private:
    [[nodiscard]] Policy const& policy() const noexcept { return gate_.policy(); }

    void take_out(operation& op) noexcept {
        sweep_.leaves(op);
        erase(op);
        to_outbox(op);
    }
    void erase(operation& op) noexcept {
        line_.erase(op);
        deadlines::erase(op);
        common_.count_departure(op.count);
    }
    void to_outbox(operation& op) noexcept {
        op.detach();
        op.at = operation::place::nowhere;
        common_.outbox.push_back(op);
    }

    [[nodiscard]] typename gate_type::answer ask_behind_others(request const& r,
                                                               time_point now) const noexcept {
        auto asked = gate_.ask(r.count(), line_.ahead_of_new(r, now), true, now);
        if (sweep_.is_under_way())  // some of the requests ahead will have to leave
            asked.ready = unknown;
        return asked;
    }

    void prepare_deadlines(time_point now) { common_.deadlines.prepare(now, queueing().tolerance); }

    // Returns the reason for which a request leaves when its deadline has passed. If a walk that holds the grants has
    // not come to it yet, that is the reason of the walk. But its grant time does not count: it could have been granted
    // in time.
    [[nodiscard]] error_code why_too_late(operation const& op, time_point now) const noexcept {
        auto const ec = sweep_.holds_grants()
                            ? sweep_.why_leave(op, policy(), gate_.pause(), gate_.is_shut(), 0, now)
                            : error_code();
        return ec && ec != errc::deadline_unreachable ? ec : make_error_code(errc::timed_out);
    }

    // Returns when a request that leaves for this reason could be granted if it were made again.
    [[nodiscard]] time_point comes_back(operation const& op, error_code ec,
                                        time_point now) const noexcept {
        if constexpr (fed_policy<Policy>) {
            if (ec == errc::unavailable)
                return policy().barred(now).value_or(unknown);
        }
        bool const may_return =
            ec == errc::timed_out || ec == errc::shed || ec == errc::deadline_unreachable;
        return may_return ? gate_.ready_at(op.count, line_.ahead_of_new(op.asked_for(), now), now)
                          : unknown;
    }

    // Grants the requests whose turn it is.
    void grant_turns(time_point now, int& budget) noexcept {
        for (; budget > 0; --budget) {
            operation* const op = line_.next(now);
            if (chain_entry* const chain = line_.chain_before(op)) [[unlikely]] {
                if (!chain->ready && gate_.ready_at(chain->count, 0, now) <= now)
                    line_.chains()->call(*chain->op);
                break;  // the thread that called it continues
            }
            if (!op)
                break;
            if (op->deadline < now) {
                remove(*op, errc::timed_out, now);
            } else if (gate_.ready_at(op->count, 0, now) <= now) {
                auto const n = gate_.share(op->count, op->count + op->more, now);
                line_.grant(*op, n, now);
                take_out(*op);
                op->granted = grant(n, op->since, now, op->account);
            } else {
                break;
            }
        }
    }

    // Drops one more request if the order requires it. Call it after all possible grants. Returns whether it dropped
    // one.
    [[nodiscard]] bool shed(time_point now, int& budget) noexcept {
        operation* const op = budget > 0 ? line_.shed(now) : nullptr;
        if (!op)
            return false;
        --budget;
        remove(*op, errc::shed, now);
        return true;
    }

    // Continues the sweep. Chains examine themselves when they are called. Returns whether it removed a request, so that
    // others may have their turn.
    bool walk(time_point now, int& budget) noexcept {
        bool removed = false;
        if (auto* const chains = line_.chains()) {
            for (; budget > 0 && !chains->is_swept(); --budget)
                chains->call(*chains->step_sweep()->op);
        }
        for (; budget > 0 && !line_.is_swept(); --budget) {
            operation& op = *line_.step_sweep();
            auto const ec =
                sweep_.look_at(op, policy(), gate_.pause(), gate_.is_shut(), line_.foresees(), now);
            if (ec)
                remove(op, ec, now);
            removed = removed || ec;
        }
        // End it in this call: a walk that has reached the end does not examine requests that join later.
        if (line_.is_swept() && sweep_.end())
            line_.begin_sweep();
        return removed;
    }

    gate_type gate_;
    typename Parts::common common_;
    line_type line_;
    sweep sweep_;
};

}  // namespace weir::detail
