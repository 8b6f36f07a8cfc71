#pragma once

#include <weir/amount.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/room/events.hpp>
#include <weir/detail/room/one_slot.hpp>
#include <weir/detail/uncounted_permit.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// The rules of a limiter: they grant, queue or reject requests, and determine the order and the reasons. A pure state
/// machine: it takes the time as an argument, and uses no lock, clock, executor or handler.
///
/// `Slots` tells where the state of a policy lies, and the line of the requests that wait for it: a limiter without
/// keys has `one_slot`; a limiter by key has `key_slots`. Everything else is the same for both. A room consists of
/// layers, of which each uses only those below it:
///
/// | layer          | decides                                                                                |
/// |----------------|----------------------------------------------------------------------------------------|
/// | `room`         | on newcomers: granted, rejected, or to wait                                             |
/// | `events`       | what happens without a request: the limiter is closed, paused or changed; time passes   |
/// | `returns`      | what released permits change, for the limiter and for `drains` and `watchers`           |
/// | `chains`       | whether a chain of limiters may go ahead here                                           |
/// | `line_service` | when a waiting request is granted, or leaves without permits, and why                   |
/// | `lines`        | nothing: it keeps the waiting requests, and their outcomes                              |
/// | `grants`       | nothing: it takes permits from the policy, and counts them                              |
///
/// An operation that has left is in the outbox with its outcome, until a caller takes it from there and posts it.
/// `do_due_work` does all work that the other calls leave: the sweep, deadlines, grants, drains, reports. Any thread may
/// call it at any time; calling it at the times that `wants` returns is often enough.
template <class Slots>
class room : public events<Slots> {
    using base = events<Slots>;
    using queue_type = typename Slots::queue_type;
    using typename base::answer;
    using typename base::place;
    using typename base::slot;

protected:
    using base::parts;
    using base::slots;
    using typename base::line_change;
    using typename base::line_type;

public:
    /// `options` is a policy or its options, or what the slots need instead of it.
    template <class Options>
    room(permit_issuer& issuer, Options&& options, queue_options const& queueing)
        : base(issuer, std::forward<Options>(options), queueing) {}

    /// Throws `std::invalid_argument` that names the option, its value and the bound.
    static void check(queue_options const& queueing) {
        validate(queueing);
        queue_type::check(queueing);
        Slots::check(queueing);
    }
    /// Checks a change of options. Throws `std::invalid_argument` like `check`.
    static void check_change(queue_options const& before, queue_options const& next) {
        check(next);
        Slots::check_change(before, next);
    }

    // Requests. `who` is the key, for a limiter by key.

    /// Grants `r` immediately, or sets `ec` to the reason of the rejection: `errc::no_permit` if waiting might help.
    template <class... Who>
    [[nodiscard, gnu::always_inline]] permit try_enter(request const& r, time_point now,
                                                       error_code& ec, Who const&... who) noexcept {
        base::check_standing(this->queueing(), r);
        auto s = this->help(now, who...);
        auto const asked = ask(s, r, now, who...);
        if (is_sent_on(asked)) [[unlikely]] {
            ec = *asked.rejected;
            return {};
        }
        line_change const here(*this, s.line(), now);
        slots().count(s, !asked.granted, who...);
        if (asked.granted) [[likely]] {
            ec = {};
            return take(s, r, base::amount_to_grant(s, r.count(), r.max(), now), now);
        }
        ec = asked.rejected.value_or(errc::no_permit);
        return this->dry_run_lets(ec) ? pass(ec, r.max())
                                      : reject_request(s, ec, r.count(), asked.ready, now);
    }

    /// Grants or rejects `r` like `try_enter`, but returns an empty permit without an error if waiting might help.
    template <class... Who>
    [[nodiscard]] permit enter_at_once(request const& r, time_point now, error_code& ec,
                                       Who const&... who) noexcept {
        ec = {};
        base::check_standing(this->queueing(), r);
        auto s = this->help(now, who...);
        auto const asked = ask(s, r, now, who...);
        if (is_sent_on(asked)) [[unlikely]] {
            ec = *asked.rejected;
            return {};
        }
        line_change const here(*this, s.line(), now);
        if (!asked.granted && !asked.rejected)
            return {};  // `decide` counts it
        slots().count(s, !asked.granted, who...);
        if (asked.granted) [[likely]]
            return take(s, r, base::amount_to_grant(s, r.count(), r.max(), now), now);
        ec = *asked.rejected;
        return this->dry_run_lets(ec) ? pass(ec, r.max())
                                      : reject_request(s, ec, r.count(), asked.ready, now);
    }

    /// Decides on `op` like `enter_at_once`. Returns whether `op` has ended, with the outcome in it. Otherwise
    /// `cannot_wait` must follow. May throw `std::bad_alloc`, without an effect.
    template <class... Who>
    [[nodiscard]] bool decide(operation& op, time_point now, Who const&... who) {
        auto const r = op.asked_for();
        if (op.cancelled)
            return reject_operation(
                slots().find(who...), op, boost::asio::error::operation_aborted, unknown, now);
        base::check_standing(this->queueing(), r);
        auto s = this->help(now, who...);
        auto const asked = ask(s, r, now, who...);
        if (is_sent_on(asked)) [[unlikely]] {
            op.error = *asked.rejected;
            return true;
        }
        if (asked.granted || asked.rejected) {
            line_change const here(*this, s.line(), now);
            slots().count(s, !asked.granted, who...);
            if (asked.rejected)
                return reject_operation(s, op, *asked.rejected, asked.ready, now);
            op.granted =
                take(s, r, base::amount_to_grant(s, op.count, op.count + op.more, now), now);
            op.detach();
            return true;
        }
        slots().bind(op, slots().open(s, this->queueing(), this->last_event()));
        slots().count(s, false, who...);
        return false;
    }

    /// Prepares a wait after `decide` has returned false. Returns whether `op` cannot wait, with the outcome in it.
    /// Otherwise `op` has its deadline, and `join` must follow. May throw `std::bad_alloc`, without an effect. The grant
    /// time of a reservation is exact; the one of a request is never too late.
    template <bool is_reservation = false>
    [[nodiscard]] bool cannot_wait(operation& op, wait_limit const& limit, time_point now) {
        auto& l = slots().line_of(op);
        line_change here(*this, &l, now);
        auto const length = limit.length.length_or(this->queueing().patience.length_or(forever));
        auto const deadline = std::min(length == forever ? never : later(now, length), limit.until);
        auto const r = op.asked_for();
        auto const evicted = parts().places.find(r, l, this->queueing());
        auto const ready = is_reservation ? this->reserved_time_of(l, r, evicted.value_or(0), now)
                                          : this->grant_time_of(l, r, evicted.value_or(0), now);

        if (ready != unknown && ready > deadline)
            return reject_in(l, op, errc::deadline_unreachable, ready, now);
        if (deadline <= now)
            return reject_in(l, op, errc::timed_out, ready, now);
        if (!evicted || this->is_too_long(ready, now))
            return reject_in(l, op, errc::queue_full, ready, now);
        if (this->dry_run_lets({})) [[unlikely]] {
            this->counters().would_wait();
            op.granted = uncounted_permit(op.count + op.more);
            op.detach();
            return true;
        }
        this->prepare_wait(l, op, deadline, now);
        op.deadline = deadline;
        here.goes_on();
        return false;
    }

    void join(operation& op, time_point now) noexcept {
        auto& l = slots().line_of(op);
        line_change const here(*this, &l, now);
        this->enter_line(l, op, now);
    }

    /// Returns whether the needs may have changed since `op` has joined. An operation behind another one, in order of
    /// arrival and without a deadline, needs nothing that the other one does not need. But a timed policy may have another
    /// grant time, because a clock was set.
    [[nodiscard]] bool may_need_more(operation const& op) noexcept {
        auto const& l = slots().line_of(op);
        return base::is_fed || slots().timed() || op.deadline != never || l.oldest() == &op ||
               !l.foresees();
    }

    /// Returns the grant time of `op`, which is the last in its line, if all before it are granted at theirs;
    /// `unknown` if it cannot be predicted.
    [[nodiscard]] time_point grant_time_of_last(operation const& op, time_point now) noexcept {
        return base::grant_time_of_last(slots().line_of(op), op, now);
    }
    /// Puts `by` in the position of `op`. No event affects `op` from then on.
    void replace(operation& op, operation& by) noexcept {
        auto& l = slots().line_of(op);
        by.come_as(op);
        slots().bind(by, l);
        base::replace(l, op, by);
        op.at = place::nowhere;
    }

    /// Undoes `join`.
    void withdraw(operation& op) noexcept {
        auto& l = slots().line_of(op);
        line_change const here(*this, &l, op.since);
        this->erase(l, op);
        op.number = 0;
        op.at = place::nowhere;
    }

    using base::evict;
    /// Drops the requests that make way for `op`. Call it after `join`. Returns whether any of them asked for
    /// permits.
    bool evict(operation const& op, time_point now) noexcept {
        auto& l = slots().line_of(op);
        line_change const here(*this, &l, now);
        return this->evict_for(l, {op.count, {.priority = op.priority}}, now);
    }

    /// Takes `n` permits in any state of the policy. Returns an empty permit if the limiter does not admit newcomers,
    /// or if there is no space for a new key.
    template <class... Who>
    [[nodiscard]] permit charge(amount n, time_point now, Who const&... who) {
        auto s = this->find(who...);
        if (!this->is_open() || !slots().has_place(s, now, who...))
            return permit_issuer::reject(this->rejection(s, errc::closed, n, unknown, now));
        line_change const here(*this, s.line(), now);
        auto charged = this->grant_at_once(s, n, now);
        this->fall_into_debt(s, now);
        return charged;
    }

    /// Returns the past of the whole limiter and the present of its slot; without one slot, only sums.
    [[nodiscard]] limiter_stats stats(time_point now) const noexcept {
        auto result = this->past();
        result.name = this->queueing().name;
        result.paused_for = this->pause().rest(now);
        if constexpr (base::is_one)
            add_slot(slots().find(), now, result);
        result.waiting = parts().waiting();
        result.waiting_for = parts().waiting_for();
        return result;
    }
    [[nodiscard]] wait_histogram waits() const noexcept { return parts().waits.recorded(); }
    /// Calls `f(share_stats)` for each partition.
    template <class F>
    void each_share(F f) const {
        if (auto const* const accounts = this->accounts())
            accounts->each_share(f);
    }

protected:
    void add_slot(slot const& s, time_point now, limiter_stats& to) const noexcept {
        this->add_present(s, now, to);
        auto const* const l = s.line();
        if (!l)
            return;
        to.waiting = l->size();
        to.waiting_for = l->asked();
        if (auto const since = l->waits_since())
            to.oldest_wait = now - *since;
    }

private:
    // Returns whether `r` can be granted immediately, why it is rejected, or when it could be granted. Unless it is
    // rejected, its slot is stored. Forced inline, like the other steps of a grant.
    template <class... Who>
    [[nodiscard, gnu::always_inline]] answer ask(slot& s, request const& r, time_point now,
                                                 Who const&... who) noexcept {
        auto const n = r.count();
        if (!this->is_open()) [[unlikely]]
            return {.rejected = errc::closed};
        if (n != 0 && n > s.policy().capacity()) [[unlikely]]
            return {.rejected = errc::exceeds_capacity};
        if (!slots().has_place(s, now, who...)) [[unlikely]]
            return {.rejected = errc::too_many_keys};
        if (n == 0)
            return {.granted = true, .ready = now};
        if (auto const* const l = s.line(); l && l->bars(r, now)) [[unlikely]]
            return ask_behind_others(s, *l, r, now);
        return this->answer_at(s, this->ready_at(s, n, 0, now), now);
    }
    [[nodiscard]] answer ask_behind_others(slot const& s, line_type const& l, request const& r,
                                           time_point now) const noexcept {
        auto asked =
            this->answer_at(s, this->ready_at(s, r.count(), l.ahead_of_new(r, now), now), now);
        asked.granted = false;
        if (l.is_sweeping())  // some of the requests ahead will have to leave
            asked.ready = unknown;
        return asked;
    }

    // Returns whether another core decides: then the request leaves no trace here.
    [[nodiscard, gnu::always_inline]] bool is_sent_on(answer const& asked) const noexcept {
        return asked.rejected && this->sends_on(*asked.rejected);
    }

    // Grants `n` of the permits that `r` asks for.
    [[nodiscard]] permit take(slot const& s, request const& r, amount n, time_point now) {
        auto* const accounts = this->accounts();
        return this->grant_at_once(s, n, now, accounts ? accounts->take(r, n) : std::uint8_t());
    }

    // Lets a request pass that would be rejected with `ec`.
    [[nodiscard, gnu::noinline, gnu::cold]] permit pass(error_code& ec, amount n) noexcept {
        this->counters().would_reject();
        ec = {};
        return uncounted_permit(n);
    }
    [[nodiscard]] permit reject_request(slot const& s, error_code ec, amount n, time_point ready,
                                        time_point now) noexcept {
        this->counters().reject(ec);
        return permit_issuer::reject(this->rejection(s, ec, n, ready, now));
    }
    // These return true, since the operation is over.
    bool reject_operation(slot const& s, operation& op, error_code ec, time_point ready,
                          time_point now) noexcept {
        op.granted = this->dry_run_lets(ec) ? pass(ec, op.count + op.more)
                                            : reject_request(s, ec, op.count, ready, now);
        op.end(ec);
        return true;
    }
    bool reject_in(line_type& l, operation& op, error_code ec, time_point ready,
                   time_point now) noexcept {
        slots().count_rejection(l, ec);
        return reject_operation(slots().slot_of(l), op, ec, ready, now);
    }
};

}  // namespace weir::inline v0_2::detail
