#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/room/common.hpp>
#include <weir/detail/room/lines.hpp>
#include <weir/detail/room/wake_time.hpp>
#include <weir/error.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstdint>

namespace weir::inline v0_2::detail {

/// The third layer of a room: the service of its lines. It decides when a waiting request is granted, or leaves without
/// permits, and why: its patience ended, the order drops it, or a sweep finds that it cannot stay. It does not decide
/// whether a newcomer may join.
template <class Slots>
class line_service : public lines<Slots> {
    using base = lines<Slots>;

protected:
    using base::parts;
    using base::ready_at;
    using base::slots;
    using typename base::line_type;
    using typename base::slot;

    using base::base;
    ~line_service() = default;

    // Slots and lines.

    /// Returns the slot of a request or permit, in which all events for all lines were applied.
    template <class... Who>
    [[nodiscard]] slot find(Who const&... who) noexcept {
        auto const s = slots().find(who...);
        if constexpr (!base::is_one) {
            if (auto* const l = s.line()) [[unlikely]]
                apply_events(*l);
        }
        return s;
    }

    /// A change of the line of a slot, if there is one. At its end the line is given up if it is not needed, or is
    /// scheduled again. Nothing in the line may be used after that.
    class line_change {
    public:
        line_change(line_service& all, line_type* l, time_point now) noexcept
            : all_(all), line_(l), now_(now) {}
        line_change(line_change const&) = delete;
        line_change& operator=(line_change const&) = delete;
        [[gnu::always_inline]] ~line_change() {
            if constexpr (!base::is_one) {
                if (line_) [[unlikely]]
                    all_.rest(*line_, now_);
            }
        }
        /// Leaves the end of this change to a later change of the line, which must follow.
        void goes_on() noexcept { line_ = nullptr; }

    private:
        line_service& all_;
        line_type* line_;
        time_point now_;
    };
    void rest(line_type& l, time_point now) noexcept {
        auto commands_at = never;
        if constexpr (base::is_fed && !base::is_one)
            commands_at = feed(l, now);
        slots().rest(l, now, [&](line_type& one) {
            if (one.sweep().holds_grants())
                return time_point::min();  // before any other line
            return one.is_sweeping() ? now : std::min(next_event(one, now), commands_at);
        });
    }

    /// Cancels all requests that wait in a line, if there is one.
    void cancel_line(line_type* l, time_point now) noexcept {
        if (!l)
            return;
        line_change const here(*this, l, now);
        line_events::cancel_all(*l, parts());
    }

    // Commands of a policy that is fed from outside.

    /// Returns the demand of the requests in the line. During a pause permits from elsewhere are of no use.
    [[nodiscard]] demand demand_of(line_type& l, time_point now) noexcept {
        // No chain has a limiter that is fed.
        auto const* const head =
            this->pause().is_on(now) ? nullptr : static_cast<operation const*>(l.next(now));
        return head ? demand{.head = head->count,
                             .all = l.asked(),
                             .until = std::max(head->deadline, l.newest()->deadline)}
                    : demand();
    }
    /// Makes the commands of a line. Returns when to do so again. The sweep comes first: it rejects the requests that
    /// need no permits any more.
    [[nodiscard]] time_point feed(line_type& l, time_point now) noexcept {
        if (l.is_sweeping())
            return never;
        auto const at = slots().feed(slots().slot_of(l), demand_of(l, now), now);
        bool const is_held_up = this->pause().is_on(now) && !l.is_idle();
        return is_held_up ? std::min(at, this->pause().from(now)) : at;
    }
    /// Makes a line due now if its first request can be granted. It may be scheduled for later (see `wake_time`), and
    /// the caller must not wait for that.
    void expedite(line_type& l, time_point now) noexcept {
        if constexpr (!base::is_one) {
            auto const first = l.first(now);
            if (is_granted_here(first) && ready_at(slots().slot_of(l), first.count, 0, now) <= now)
                slots().make_due(l);
        }
    }

    // Events for all lines. A limiter without keys has one line, which they reach at once.

    template <class Event>
    void apply_to_all(Event what) noexcept {
        what(events_);
        if constexpr (base::is_one)
            apply_events(slots().line());
    }
    void apply_events(line_type& l) noexcept {
        if (l.last_event == last_event())
            return;
        events_.apply(l, parts());
        slots().mark_current(l, last_event());
    }
    [[nodiscard]] std::uint64_t last_event() const noexcept { return events_.last_event(); }

    // Requests in a line.

    /// Ends the wait of `op`, whose deadline has passed. Calls a chain, which examines itself.
    void expire(operation& op, time_point now) noexcept {
        auto& l = waiting_line_of(op);
        apply_events(l);
        line_change const here(*this, &l, now);
        if (op.at == operation::place::chained)
            l.chains()->call(static_cast<chain_operation&>(op));
        else
            this->drop(l, op, why_too_late(l, op, now), now);
    }
    /// Returns the line of a request, or the line of a chain at its home.
    [[nodiscard]] line_type& waiting_line_of(operation& op) noexcept {
        return op.at == operation::place::chained
                   ? line_of(*static_cast<chain_operation&>(op).at_home)
                   : slots().line_of(op);
    }
    [[nodiscard]] static line_type& line_of(chain_entry const& e) noexcept {
        return *static_cast<line_type*>(e.line);
    }

    // Work without a call, until `budget` operations were touched.

    /// Continues a sweep that holds the grants.
    void examine(line_type& l, time_point now, int& budget) noexcept {
        if (l.sweep().holds_grants())
            static_cast<void>(walk(l, now, budget));
    }
    /// Does all work that is due in a line, except deadlines.
    void serve(line_type& l, time_point now, int& budget) noexcept {
        examine(l, now, budget);
        if (l.sweep().holds_grants())
            return;
        do
            grant_turns(l, now, budget);
        while (shed(l, now, budget) || (l.is_sweeping() && walk(l, now, budget)));
    }
    /// Returns when work is due in a line, except deadlines.
    [[nodiscard]] time_point next_event(line_type& l, time_point now) noexcept {
        auto const at = l.next_event(now);
        auto const first = l.first(now);
        if (!is_granted_here(first))
            return at;
        return std::min(
            at, wake_time(slots().slot_of(l).policy(), this->pause(), first.count,
                          parts().deadlines.next(), this->queueing().tolerance, now, last_alarm_));
    }
    /// `last_alarm`: as in `wakeup`.
    void remember_alarm(time_point last_alarm) noexcept { last_alarm_ = last_alarm; }

    /// Removes all operations without an outcome, and calls the chains.
    void clear_lines() noexcept {
        slots().each_line([&](line_type& l) {
            if (auto* const chains = l.chains()) {
                chains->begin_sweep();
                while (chain_entry* const e = chains->step_sweep())
                    chains->call(*e->op);
            }
            while (operation* const op = l.oldest())
                this->take_out(l, *op);
            l.sweep().end();
        });
    }

private:
    [[nodiscard]] static bool is_granted_here(
        typename line_type::first_request const& first) noexcept {
        return first.count != 0 && !first.held;
    }
    // Returns the reason for which a request leaves when its deadline has passed. If a walk that holds the grants has
    // not come to it yet, that is the reason of the walk. But its grant time does not count: it could have been granted
    // in time.
    [[nodiscard]] error_code why_too_late(line_type& l, operation const& op,
                                          time_point now) noexcept {
        auto const ec = l.sweep().holds_grants()
                            ? l.sweep().why_leave(op, slots().slot_of(l).policy(), this->pause(),
                                                  this->is_shut(), 0, now)
                            : error_code();
        return ec && ec != errc::deadline_unreachable ? ec : make_error_code(errc::timed_out);
    }

    // Grants the requests whose turn it is.
    void grant_turns(line_type& l, time_point now, int& budget) noexcept {
        auto const s = slots().slot_of(l);
        for (; budget > 0; --budget) {
            queued_request* const next = l.next(now);
            if (!next)
                break;
            if (next->is_chain()) [[unlikely]] {
                auto const* const chain = static_cast<chain_entry*>(next);
                if (!chain->ready && ready_at(s, chain->count, 0, now) <= now)
                    l.chains()->call(*chain->op);
                break;  // the thread that called it continues
            }
            auto* const op = static_cast<operation*>(next);
            if (op->deadline < now) {
                this->drop(l, *op, errc::timed_out, now);
            } else if (ready_at(s, op->count, 0, now) <= now) {
                auto const n = base::amount_to_grant(s, op->count, op->count + op->more, now);
                l.grant(*op, n, now);
                this->take_out(l, *op);
                op->granted = this->grant_after_wait(s, n, op->since, now, op->account);
            } else {
                break;
            }
        }
    }

    // Drops one more request if the order requires it. Call it after all possible grants. Returns whether it dropped
    // one.
    [[nodiscard]] bool shed(line_type& l, time_point now, int& budget) noexcept {
        operation* const op = budget > 0 ? l.shed(now) : nullptr;
        if (!op)
            return false;
        --budget;
        this->drop(l, *op, errc::shed, now);
        return true;
    }

    // Continues the sweep. Chains examine themselves when they are called. Returns whether it removed one, so that
    // others may have their turn.
    bool walk(line_type& l, time_point now, int& budget) noexcept {
        bool removed = false;
        if (auto* const chains = l.chains()) {
            for (; budget > 0 && !chains->is_swept(); --budget)
                chains->call(*chains->step_sweep()->op);
        }
        auto const s = slots().slot_of(l);
        for (; budget > 0 && !l.is_swept(); --budget) {
            operation& op = *l.step_sweep();
            auto const ec = l.sweep().look_at(
                op, s.policy(), this->pause(), this->is_shut(), l.foresees(), now);
            if (ec)
                this->drop(l, op, ec, now);
            removed = removed || ec;
        }
        // End it in this call: a walk that has reached the end does not examine requests that join later.
        if (l.is_swept() && l.sweep().end())
            l.begin_sweep();
        return removed;
    }

    line_events events_;
    time_point last_alarm_ = time_point::min();
};

}  // namespace weir::inline v0_2::detail
