#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/rejected.hpp>
#include <weir/detail/room/common.hpp>
#include <weir/detail/room/deadlines.hpp>
#include <weir/detail/room/grants.hpp>
#include <weir/detail/room/line_forecast.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2::detail {

/// The second layer of a room: the requests that wait in lines. They enter a line and leave it with an outcome. It does
/// not decide when.
///
/// An operation that has left its line is in the outbox, with its outcome.
template <class Slots>
class lines : public grants<Slots> {
    using base = grants<Slots>;

    template <class Policy>
    struct forecast_for {
        using type = no_line_forecast;
    };
    template <class Policy>
        requires(schedule_of<Policy>() == schedule::by_turns)
    struct forecast_for<Policy> {
        using type = line_forecast<Policy>;
    };
    using forecast_type = typename forecast_for<typename Slots::policy_type>::type;
    static constexpr bool is_by_turns = !std::is_same_v<forecast_type, no_line_forecast>;

public:
    [[nodiscard]] queue_options const& queueing() const noexcept { return parts_.queueing; }
    [[nodiscard]] std::uint64_t waiting() const noexcept { return parts_.waiting(); }
    /// Returns whether a request waits that a newcomer may have to wait for, as seen without the lock: perhaps out of
    /// date.
    [[nodiscard]] bool perhaps_waiting() const noexcept {
        return base::is_one && parts_.perhaps_waiting();
    }

    // Events that need the time. For other events any time will do, and no clock is read.

    [[nodiscard]] bool needs_time_to_ask() const noexcept {
        return slots().timed() || waiting() != 0 || this->pause().is_set();
    }
    [[nodiscard]] bool needs_time_to_leave() const noexcept {
        return slots().times_leave() || waiting() != 0;
    }

    /// Operations that have left the room and must be posted.
    [[nodiscard]] operation_list& outbox() noexcept { return parts_.outbox; }
    [[nodiscard]] operation_list const& outbox() const noexcept { return parts_.outbox; }
    /// Returns whether no operation has left, and no chain was called.
    [[nodiscard]] bool has_nothing_to_send() const noexcept {
        return parts_.outbox.empty() && parts_.calls.empty();
    }
    /// Moves the chains that were called here to `to`.
    void take_calls(call_list& to) noexcept { to.append(parts_.calls); }

protected:
    using typename base::answer;
    using typename base::slot;
    using line_type = typename Slots::line_type;
    using place = operation::place;
    using base::ready_at;
    using base::slots;

    template <class Options>
    lines(permit_issuer& issuer, Options&& options, queue_options const& queueing)
        : base(issuer, std::forward<Options>(options), queueing), parts_(queueing) {}
    ~lines() = default;

    [[nodiscard]] common_parts& parts() noexcept { return parts_; }
    [[nodiscard]] common_parts const& parts() const noexcept { return parts_; }

    /// Returns whether no request and no chain waits, in any line.
    [[nodiscard]] bool are_lines_idle() const noexcept {
        return parts_.waiting() == 0 && parts_.chains == 0;
    }
    [[nodiscard]] bool is_idle() const noexcept { return this->live() == 0 && are_lines_idle(); }

    // Newcomers.

    /// Returns when `r` could be granted if requests for `evicted` permits leave.
    [[nodiscard]] time_point grant_time_of(line_type& l, request const& r, amount evicted,
                                           time_point now) const noexcept {
        auto const s = slots().slot_of(l);
        if (!l.bars(r, now))
            return ready_at(s, r.count(), 0, now);
        if (l.is_sweeping())
            return unknown;
        auto const ahead = l.ahead_of_new(r, now);
        return ready_at(s, r.count(), std::max<amount>(ahead - evicted, 0), now);
    }
    /// Returns the grant time of a reservation for `r`. Unlike `grant_time_of` it is exact if the amounts of the requests
    /// ahead count. May throw `std::bad_alloc`.
    [[nodiscard]] time_point reserved_time_of(line_type& l, request const& r, amount evicted,
                                              time_point now) {
        if constexpr (is_by_turns) {
            if (foresees(l) && !l.empty())
                return forecast_.of_new(
                    l, slots().slot_of(l).policy(), r.count(), evicted, this->pause().from(now));
        }
        return grant_time_of(l, r, evicted, now);
    }
    /// Returns the grant time of `op`, which is the last in its line; `unknown` if it cannot be predicted.
    [[nodiscard]] time_point grant_time_of_last(line_type& l, operation const& op,
                                                time_point now) noexcept {
        if (!foresees(l))
            return unknown;
        auto const s = slots().slot_of(l);
        if constexpr (is_by_turns) {
            try {
                return forecast_.of_last(l, s.policy(), this->pause().from(now));
            } catch (std::bad_alloc const&) {
                return unknown;
            }
        } else {
            return ready_at(s, op.count, l.asked() - op.count, now);
        }
    }
    /// Records that the state of a policy has changed, otherwise than by a grant to a request in a line.
    void drop_forecast() noexcept { forecast_.drop(); }

    [[nodiscard]] bool is_too_long(time_point ready, time_point now) const noexcept {
        return ready != unknown &&
               ready > later(now, queueing().max_expected_wait.length_or(forever));
    }
    /// Returns what to report about the rejection of a request for `n` permits that could be granted at `ready`.
    [[nodiscard]] rejected rejection(slot const& s, error_code ec, amount n, time_point ready,
                                     time_point now) noexcept {
        if (ec.value() == static_cast<int>(errc::exceeds_capacity)) [[unlikely]]
            return {.by = queueing().name, .requested = n, .capacity = s.policy().capacity()};
        return {.retry_after =
                    base::retry_after(parts_.jitter.after(ready, queueing().jitter, now), now),
                .by = queueing().name};
    }

    /// Reserves the memory that `enter_line` needs. May throw.
    void prepare_wait(line_type& l, operation const& op, time_point deadline, time_point now) {
        parts_.waits.prepare();
        l.prepare(op);
        if (deadline != never)
            prepare_deadlines(now);
    }
    void prepare_deadlines(time_point now) { parts_.deadlines.prepare(now, queueing().tolerance); }
    void enter_line(line_type& l, operation& op, time_point now) noexcept {
        op.since = now;
        op.number = parts_.take_number();
        op.at = place::queue;
        l.push(op);
        parts_.deadlines.insert(op, op.deadline);
        parts_.count_arrival(op.count);
        l.sweep().joins();
    }
    /// Drops the requests that make way for `r`, which has joined. Returns whether any of them asked for permits.
    bool evict_for(line_type& l, request const& r, time_point now) noexcept {
        return parts_.places.evict(r, l, queueing(), [&](operation& one) {
            drop(l, one, errc::shed, now);
        });
    }
    /// Records that a debt delays the waiting requests: some of them can no longer be granted in time.
    void fall_into_debt(slot const& s, time_point now) noexcept {
        drop_forecast();
        auto* const l = s.line();
        if (!l || l->is_idle()) [[likely]]
            return;
        bool const has_deadlines = l->has_chains() || parts_.deadlines.next() != never;
        auto const* const first = l->oldest();
        bool const is_predictable = !first || ready_at(s, first->count, 0, now) != unknown;
        if (has_deadlines && is_predictable && l->sweep().fall_into_debt())
            l->begin_sweep();
    }

    // Dry runs.

    /// Returns whether a request that would end with `ec` passes.
    [[nodiscard]] bool dry_run_lets(error_code ec) const noexcept {
        return queueing().dry_run && can_pass(ec);
    }

    // Requests in a line.

    void erase(line_type& l, operation& op) noexcept {
        drop_forecast();
        l.erase(op);
        deadlines::erase(op);
        parts_.count_departure(op.count);
    }
    void replace(line_type& l, operation& op, operation& by) noexcept {
        forecast_.replace(op, by);
        l.replace(op, by);
        deadlines::replace(op, by);
    }
    void take_out(line_type& l, operation& op) noexcept {
        l.sweep().leaves(op);
        erase(l, op);
        to_outbox(op);
    }
    void to_outbox(operation& op) noexcept {
        op.detach();
        op.at = place::nowhere;
        parts_.outbox.push_back(op);
    }
    /// Removes `op` from its line without permits.
    void drop(line_type& l, operation& op, error_code ec, time_point now) noexcept {
        take_out(l, op);
        op.error = ec;
        this->counters().reject(ec, std::max(now - op.since, duration::zero()));
        slots().count_rejection(l, ec);
        auto const s = slots().slot_of(l);
        op.granted =
            permit_issuer::reject(rejection(s, ec, op.count, comes_back(l, op, ec, now), now));
    }
    /// Grants `n` permits to a request that has waited since `since`.
    [[nodiscard]] permit grant_after_wait(slot const& s, amount n, time_point since, time_point now,
                                          std::uint8_t account = 0) {
        auto const waited = now - since;
        parts_.waits.add(waited);
        return base::grant(s, n, now, waited, account);
    }
    /// Grants `n` permits to a chain that has waited in a line here for `waited`, and perhaps elsewhere.
    [[nodiscard]] permit grant_to_chain(slot const& s, amount n, duration waited, time_point now,
                                        std::uint8_t account) {
        return waited == duration::zero() ? base::grant_at_once(s, n, now, account)
                                          : grant_after_wait(s, n, now - waited, now, account);
    }

private:
    [[nodiscard, gnu::noinline, gnu::cold]] static bool can_pass(error_code ec) noexcept {
        return ec != errc::closed && ec != boost::asio::error::operation_aborted;
    }
    // Returns when a request that leaves for this reason could be granted if it were made again.
    [[nodiscard]] time_point comes_back(line_type& l, operation const& op, error_code ec,
                                        time_point now) const noexcept {
        if constexpr (base::is_fed) {
            if (ec == errc::unavailable || ec == errc::misconfigured)
                return slots().slot_of(l).policy().unavailable_until(now).value_or(unknown);
        }
        bool const may_return =
            ec == errc::timed_out || ec == errc::shed || ec == errc::deadline_unreachable;
        return may_return ? ready_at(slots().slot_of(l), op.count,
                                     l.ahead_of_new(op.asked_for(), now), now)
                          : unknown;
    }

    // Returns whether the future of the line is known. A chain also waits for other limiters, so its turn is not.
    [[nodiscard]] static bool foresees(line_type const& l) noexcept {
        return l.foresees() && !l.is_sweeping() && !(is_by_turns && l.has_queued_chain());
    }

    common_parts parts_;
    [[no_unique_address]] forecast_type forecast_;
};

}  // namespace weir::inline v0_2::detail
