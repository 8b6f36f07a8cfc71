#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/line.hpp>
#include <weir/detail/chain/member.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/rejected.hpp>
#include <weir/detail/room/line_service.hpp>
#include <weir/detail/uncounted_permit.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>
#include <boost/assert.hpp>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

namespace weir::inline v0_2::detail {

/// The fourth layer of a room: the requests of chains, with the contract of `chain_member`. The chain decides; a room
/// tells whether it allows the chain, and holds the chain's position in a line.
template <class Slots>
class chains : public line_service<Slots> {
    using base = line_service<Slots>;

protected:
    using base::parts;
    using base::slots;
    using typename base::line_change;

public:
    /// Checks in debug builds that the order uses the standing of a request.
    static void check_standing([[maybe_unused]] queue_options const& queueing,
                               [[maybe_unused]] request const& r) noexcept {
        BOOST_ASSERT_MSG(Slots::queue_type::can_use(queueing, r),
                         "the order priority ignores the flow and the weight of a request, and the "
                         "order shares ignores its class and weight: see weir::queue_order");
    }

    /// Returns the core that decides on a newcomer which ended here with `ec`, and left no trace; null if there is none.
    /// Only a limiter by key has one, for new keys without a place.
    [[nodiscard]] chain_core* sends_on(error_code ec) const noexcept {
        if constexpr (requires { slots().next(); })
            return ec == errc::too_many_keys ? slots().next() : nullptr;
        else
            return nullptr;
    }

    /// For a newcomer, the result assumes that the requests before it have left. For a waiting chain, it gives only
    /// results that hold even if they leave. A dry run allows every chain.
    template <class... Who>
    [[nodiscard]] chain_reply consider(chain_entry const& e, time_point now,
                                       Who const&... who) noexcept {
        if (this->queueing().dry_run) [[unlikely]]
            return consider_in_dry_run(e, now, who...);
        return decide_on(e, now, who...);
    }
    template <class... Who>
    [[nodiscard]] bool admit(chain_entry& e, time_point now, Who const&... who) noexcept {
        if (this->queueing().dry_run && pass(e, now, who...)) [[unlikely]]
            return true;
        auto s = slot_of(e, who...);
        // Another key of the chain may have evicted this one.
        if (!slots().has_place(s, now, who...))
            return false;
        line_change const here(*this, s.line(), now);
        this->drop_forecast();
        auto* const accounts = this->accounts();
        auto const account = accounts ? accounts->take(e.asked_for(), e.count) : std::uint8_t();
        if (e.number != 0) {
            line_of(e).grant(e, now);
            auto const waited = e.queued + (e.in_queue ? now - e.queued_at : duration::zero());
            e.granted = this->grant_to_chain(s, e.count, waited, now, account);
        } else {
            slots().count(s, false, who...);
            BOOST_ASSERT(!e.granted);
            // Constructed in its place: a copy would have to wait for its stores.
            ::new (static_cast<void*>(&e.granted))
                permit(this->grant_at_once(s, e.count, now, account));
        }
        return true;
    }
    template <class... Who>
    rejected reject(chain_entry const& e, error_code ec, duration ready_in, time_point now,
                    Who const&... who) noexcept {
        auto const s = slot_of(e, who...);
        if (e.number == 0) {
            slots().count(s, true, who...);
            this->counters().reject(ec);
        } else {
            slots().count_rejection(*s.line(), ec);
            this->counters().reject(ec, std::max(now - e.since, duration::zero()));
        }
        auto what = this->rejection(s, ec, e.count, unknown, now);
        what.retry_after = parts().jitter.of(ready_in, this->queueing().jitter, now);
        return what;
    }

    template <class... Who>
    [[nodiscard]] bool prepare(chain_entry& e, time_point now, Who const&... who) {
        auto s = this->find(who...);
        if (!slots().has_place(s, now, who...))
            return false;
        slots().count(s, false, who...);
        auto& l = slots().open(s, this->queueing(), this->last_event());
        e.line = &l;
        parts().waits.prepare();
        l.prepare(e, parts().calls);
        if (&e == e.op->at_home)  // which keeps its deadline
            this->prepare_deadlines(now);
        return true;
    }
    [[nodiscard]] bool fits_in_queue(chain_entry const& e, time_point now) noexcept {
        auto& l = line_of(e);
        auto const r = e.asked_for();
        auto const evicted = parts().places.find(r, l, this->queueing());
        return evicted && !this->is_too_long(this->grant_time_of(l, r, *evicted, now), now);
    }
    void evict(chain_entry const& e, time_point now) noexcept {
        line_change const here(*this, &line_of(e), now);
        this->evict_for(line_of(e), e.asked_for(), now);
    }
    void register_entry(chain_entry& e, time_point now) noexcept {
        line_change const here(*this, &line_of(e), now);
        e.number = parts().take_number();
        e.since = now;
        e.queued = {};
        ++parts().chains;
        chains_of(e).register_entry(e);
    }
    void unregister_entry(chain_entry& e, time_point now) noexcept {
        if (!e.line)
            return;
        line_change const here(*this, &line_of(e), now);
        if (e.in_queue)
            leave_line(e, now);
        if (std::exchange(e.number, 0) != 0) {
            chains_of(e).unregister_entry(e);
            --parts().chains;
        }
        line_of(e).forget(e);
        e.line = nullptr;
    }
    void enter_queue(chain_entry& e, time_point now) noexcept {
        line_change const here(*this, &line_of(e), now);
        line_of(e).enter_queue(e);
        e.queued_at = now;
        parts().count_arrival(e.count);
    }
    void leave_queue(chain_entry& e, time_point now) noexcept {
        line_change const here(*this, &line_of(e), now);
        leave_line(e, now);
    }
    void reschedule(chain_entry const& e, time_point now) noexcept { this->rest(line_of(e), now); }
    [[nodiscard]] static chain_line& chains_of(chain_entry const& e) noexcept {
        return *line_of(e).chains();
    }
    void set_alarm(chain_operation& op, time_point at) noexcept { parts().deadlines.move(op, at); }
    void complete(chain_operation& op) noexcept {
        parts().deadlines.move(op, never);
        this->to_outbox(op);
    }

protected:
    using base::base;
    using base::line_of;
    ~chains() = default;

private:
    template <class... Who>
    [[nodiscard, gnu::always_inline]] chain_reply decide_on(chain_entry const& e, time_point now,
                                                            Who const&... who) noexcept {
        auto const r = e.asked_for();
        check_standing(this->queueing(), r);
        auto s = slot_of(e, who...);
        auto* const l = s.line();
        bool const waits = e.number != 0;
        if (waits ? this->is_shut() : !this->is_open())
            return {.rejected = errc::closed};
        if (waits && l->sweep().cancels(e.number))
            return {.rejected = boost::asio::error::operation_aborted};
        if (e.count != 0 && e.count > s.policy().capacity())
            return {.rejected = errc::exceeds_capacity};
        if (!slots().has_place(s, now, who...))
            return {.rejected = errc::too_many_keys};
        if (e.count == 0)
            return {.lets = true, .ready_in = duration::zero()};
        bool const barred = l && (waits ? !l->is_first(e, now) : l->bars_chain(r, now));
        auto const ahead = waits || !barred ? 0 : l->ahead_of_new(r, now);
        auto const ready = this->ready_at(s, e.count, ahead, now);
        if (barred && !waits)
            this->expedite(*l, now);
        if (barred && (l->is_sweeping() || ready <= now))
            return {};
        return chain_reply::at(!barred && ready <= now, ready, now);
    }
    template <class... Who>
    [[nodiscard]] auto slot_of(chain_entry const& e, Who const&... who) noexcept {
        if (!e.line)
            return this->find(who...);
        this->apply_events(line_of(e));
        return slots().slot_of(line_of(e));
    }
    template <class... Who>
    [[nodiscard, gnu::noinline, gnu::cold]] chain_reply consider_in_dry_run(
        chain_entry const& e, time_point now, Who const&... who) noexcept {
        auto const reply = decide_on(e, now, who...);
        return reply.lets || sends_on(reply.rejected) || !this->dry_run_lets(reply.rejected)
                   ? reply
                   : chain_reply{.lets = true, .ready_in = duration::zero()};
    }
    // In a dry run: lets a chain pass that would not be granted here now. Returns whether it does.
    template <class... Who>
    [[nodiscard, gnu::noinline, gnu::cold]] bool pass(chain_entry& e, time_point now,
                                                      Who const&... who) noexcept {
        auto const reply = decide_on(e, now, who...);
        if (reply.lets || sends_on(reply.rejected))
            return false;
        if (reply.rejected)
            this->counters().would_reject();
        else
            this->counters().would_wait();
        if (e.number == 0)
            slots().count(slot_of(e, who...), true, who...);
        e.granted = uncounted_permit(e.count);
        return true;
    }
    void leave_line(chain_entry& e, time_point now) noexcept {
        line_of(e).leave_queue(e);
        e.queued += now - e.queued_at;
        parts().count_departure(e.count);
    }
};

}  // namespace weir::inline v0_2::detail
