#pragma once

#include <weir/detail/operation.hpp>
#include <weir/detail/room/common.hpp>
#include <weir/detail/room/event_waits.hpp>
#include <weir/detail/room/returns.hpp>
#include <weir/detail/wakeup.hpp>
#include <weir/policy/policy.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>

namespace weir::inline v0_2::detail {

/// The sixth layer of a room: the events that concern all waiting operations, and the work that is due without a call.
template <class Slots>
class events : public returns<Slots> {
    using base = returns<Slots>;

protected:
    using base::of_drains;
    using base::of_watchers;
    using base::parts;
    using base::slots;
    using typename base::admission;
    using typename base::line_change;
    using typename base::line_type;
    using typename base::place;

public:
    // Events that concern all waiting operations: `do_due_work` carries them out.

    /// Rejects newcomers from now on.
    void shut_down() noexcept { this->admit_only(admission::waiting); }

    /// Rejects newcomers and all requests in the lines.
    void close() noexcept {
        this->admit_only(admission::none);
        this->apply_to_all([](line_events& e) { e.close(); });
    }

    /// Cancels all operations that are waiting now.
    void cancel_all() noexcept {
        of_drains().cancel_before(parts().next_number);
        of_watchers().cancel_before(parts().next_number);
        this->apply_to_all([](line_events& e) { e.cancel_all(); });
    }

    /// Records that the limiter object was destroyed: all waiting operations are rejected.
    void abandon() noexcept {
        of_drains().abandon();
        of_watchers().abandon();
        close();
    }

    /// Records that grant times have changed: all requests in the lines are examined again.
    void reprice() noexcept {
        this->count_seats();
        this->apply_to_all([](line_events& e) { e.reprice(); });
    }

    /// Grants nothing until `end`, or until a later time that was set before.
    void pause_until(time_point end) noexcept {
        this->pause().extend(end);
        reprice();
    }
    void resume() noexcept {
        this->pause().stop();
        reprice();
    }

    /// Adopts other queue options; waiting requests stay.
    void set_queueing(queue_options const& next) noexcept {
        parts().queueing = next;
        this->apply_to_all([](line_events& e) { e.queueing_changes(); });
    }

    /// Cancels one operation, or records the cancellation before it waits.
    void cancel(operation& op, time_point now) noexcept {
        if (op.at == place::queue || op.at == place::chained) {
            auto& l = this->waiting_line_of(op);
            this->apply_events(l);
            line_change const here(*this, &l, now);
            if (op.at == place::queue)
                return this->drop(l, op, boost::asio::error::operation_aborted, now);
            op.cancelled = true;
            l.chains()->call(static_cast<chain_operation&>(op));
        } else if (op.at == place::nowhere) {
            op.cancelled = true;
        } else {
            event_waits::cancel(op, this->outbox());
        }
    }

    // Commands of a policy that is fed from outside.

    /// Returns whether no request will follow.
    [[nodiscard]] bool is_gone() const noexcept { return of_drains().is_gone(); }

    [[nodiscard]] bool has_command(time_point now) noexcept {
        if constexpr (base::is_one)
            return this->policy().next_command(what_waits(now), now) <= now;
        else
            return slots().has_command();
    }
    [[nodiscard]] auto pop_command(time_point now) noexcept {
        if constexpr (base::is_one)
            return this->policy().pop_command(what_waits(now), now);
        else
            return slots().pop_command();
    }

    /// Makes the line of a waiting operation due now if its first request can be granted.
    void expedite_line_of(operation const& op, time_point now) noexcept {
        if (op.at == place::queue)
            this->expedite(slots().line_of(op), now);
    }

    // Events without a call.

    /// Does all work that is due, until `budget` operations were touched.
    void do_due_work(time_point now, int& budget) noexcept {
        this->pause().elapse(now);
        if constexpr (base::is_fed) {
            if (slots().elapse(now))
                reprice();
        }
        of_drains().sweep(budget, this->outbox());
        of_watchers().sweep(budget, this->outbox());
        auto const examine_line = [&](line_type& l) {
            line_change const here(*this, &l, now);
            this->examine(l, now, budget);
        };
        slots().each_outdated(this->last_event(), budget, [&](line_type& l) {
            this->apply_events(l);
            examine_line(l);
        });
        parts().deadlines.expire(now, budget, [&](operation& op) { this->expire(op, now); });
        auto const serve_line = [&](line_type& l) {
            line_change const here(*this, &l, now);
            this->serve(l, now, budget);
        };
        if constexpr (Slots::has_turns) {
            // A cancelled request has no turn.
            slots().each_due(time_point::min(), budget, examine_line);
            if (!this->pause().is_on(now))
                slots().each_turn(now, budget, serve_line);
        }
        slots().each_due(now, budget, serve_line);
        of_drains().serve(this->is_idle(), budget, this->outbox());
        of_watchers().serve(this->seen_by_watchers(), now, budget, this->outbox());
    }

    /// Returns the needs that the actor must meet. `last_alarm`: as in `wakeup`.
    [[nodiscard]] needs wants(time_point now, time_point last_alarm) noexcept {
        this->remember_alarm(last_alarm);
        needs n;
        n.waiting = !is_done();
        if (!n.waiting)
            return n;
        n.next = std::min(
            {slots().next_at([&](line_type& l) { return this->next_event(l, now); }),
             parts().deadlines.next(), of_watchers().next_event(this->seen_by_watchers()), never});
        if constexpr (Slots::has_turns)
            n.next = std::min(n.next, std::max(slots().next_turn(), this->pause().from(now)));
        if constexpr (base::is_fed && base::is_one) {
            n.next = std::min(n.next, this->policy().next_command(what_waits(now), now));
            if (this->pause().is_on(now) && this->waiting() != 0)
                n.next = std::min(n.next, this->pause().from(now));  // then requests need commands
        }
        n.due = slots().is_work_due(this->last_event()) || !this->outbox().empty() ||
                n.next <= now || of_watchers().is_due(this->seen_by_watchers(), now) ||
                of_drains().is_due(this->is_idle());
        return n;
    }

    // Forced inline, since each grant and each release asks.
    [[nodiscard, gnu::always_inline]] bool nobody_waits() const noexcept {
        return this->are_lines_idle() && of_drains().empty() && of_watchers().empty();
    }
    [[nodiscard, gnu::always_inline]] bool is_empty() const noexcept {
        return nobody_waits() && this->outbox().empty();
    }
    /// Also requires that the policy does not need the time.
    [[nodiscard, gnu::always_inline]] bool is_done() const noexcept {
        if constexpr (base::is_fed && base::is_one)
            return is_empty() && !this->policy().must_go_on();
        else
            return is_empty();
    }

    /// Removes all operations without an outcome, and calls the chains. Admits no request from now on.
    void clear_out() noexcept {
        this->admit_only(admission::none);
        this->clear_lines();
        of_drains().clear_out(this->outbox());
        of_watchers().clear_out(this->outbox());
    }

    /// Returns memory that is needed only while a request waits.
    [[nodiscard]] auto take_spare_memory() noexcept {
        return this->are_lines_idle() ? parts().deadlines.take_memory() : nullptr;
    }

    /// The maximum number of other requests' operations that a newcomer touches before its own request is decided.
    static constexpr int help_budget = 16;

protected:
    using base::base;
    ~events() = default;

    /// Returns the slot of a newcomer. Ensures that no newcomer is rejected because of an operation that is due but that
    /// the actor has not served yet.
    template <class... Who>
    [[nodiscard, gnu::always_inline]] auto help(time_point now, Who const&... who) noexcept {
        if (this->waiting() == 0) [[likely]]
            this->pause().elapse(now);
        else
            serve_before(now, who...);
        return this->find(who...);
    }

private:
    template <class... Who>
    [[gnu::noinline]] void serve_before(time_point now, Who const&... who) noexcept {
        if constexpr (base::is_one && !base::is_fed) {
            if (is_nothing_due(now)) [[likely]]
                return;
        }
        if (auto* const l = slots().find(who...).line())
            this->expedite(*l, now);
        int budget = help_budget;
        do_due_work(now, budget);
    }
    // Returns whether `do_due_work` would change nothing; false if that takes work to find out. Most newcomers find requests
    // that wait in order of arrival for a permit that is not there.
    [[nodiscard]] bool is_nothing_due(time_point now) noexcept {
        auto const& l = slots().line();
        if (!l.foresees() || l.next_event(now) <= now || l.has_chains() || l.is_sweeping() ||
            this->pause().is_set() || parts().deadlines.next() <= now || !of_drains().empty() ||
            !of_watchers().empty())
            return false;
        auto const* const next = l.oldest();
        return !next || this->ready_at(slots().find(), next->count, 0, now) > now;
    }
    [[nodiscard]] demand what_waits(time_point now) noexcept {
        return this->demand_of(slots().line(), now);
    }
};

}  // namespace weir::inline v0_2::detail
