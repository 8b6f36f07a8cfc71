#pragma once

#include <weir/amount.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/room/chains.hpp>
#include <weir/detail/room/drains.hpp>
#include <weir/detail/room/watchers.hpp>
#include <weir/outcome.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <stdexcept>

namespace weir::inline v0_2::detail {

/// The fifth layer of a room: the permits in use, and the operations that wait for events of permits and not for the
/// permits themselves: `drains` and `watchers`.
template <class Slots>
class returns : public chains<Slots> {
    using base = chains<Slots>;

protected:
    using base::slots;
    using typename base::line_change;

public:
    // Released permits. Each function returns whether this may concern other requests here.

    [[nodiscard]] bool leave(amount n, permit_origin from, time_point now) noexcept {
        if constexpr (!Slots::ignores_leave) {
            if (n != 0) {
                auto const s = this->find(from);
                line_change const here(*this, s.line(), now);
                if (s) {
                    auto&& policy = s.policy();
                    static_cast<void>(weir::leave(policy, n, from.ticket, now));
                }
            }
        }
        this->count_back(n);
        this->settle_account(n, from);
        this->permit_ends(from.key);
        return this->waiting() != 0 || concerns_event_waits();
    }
    [[nodiscard]] bool refund(amount n, permit_origin from, time_point now) noexcept {
        bool const made_space = take_back_unused(n, from, now);
        return made_space && this->waiting() != 0;
    }
    [[nodiscard]] bool leave_unused(amount n, permit_origin from, time_point now) noexcept {
        static_cast<void>(take_back_unused(n, from, now));
        this->permit_ends(from.key);
        return this->waiting() != 0 || concerns_event_waits();
    }

    /// Throws `std::length_error` if there is no longer space for the key of the permit.
    [[nodiscard]] ticket overdraw(amount n, amount held, permit_origin from, time_point now) {
        auto s = this->find(from);
        if (!slots().has_place(s, now, from))
            throw std::length_error(
                "weir::keyed: the limiter has reached its maximum number of keys");
        line_change const here(*this, s.line(), now);
        auto const extra = s.policy().take(n, now);
        if constexpr (base::is_fed && !base::is_one)
            slots().took(s, now);
        this->count_out(n);
        if (auto* const accounts = this->accounts())
            accounts->take_more(from.key, n);
        auto const whole = held == 0 ? extra : s.policy().merge(from.ticket, extra, n);
        this->fall_into_debt(s, now);
        return whole;
    }
    void split(permit_origin from) noexcept { this->permit_begins(from.key); }
    [[nodiscard]] ticket merge(permit_origin into, permit_origin from, amount n) noexcept {
        auto result = into.ticket;
        if (n != 0) {
            if (auto const s = slots().find(into))
                result = s.policy().merge(into.ticket, from.ticket, n);
        }
        this->permit_ends(from.key);
        return result;
    }
    /// A report concerns no other request.
    [[nodiscard]] ticket report(permit_origin from, outcome o) noexcept
        requires requires(typename Slots::slot s) { s.policy().report(from.ticket, o); }
    {
        auto const s = slots().find(from);
        return s ? s.policy().report(from.ticket, o) : from.ticket;
    }
    [[nodiscard]] amount remaining(permit_origin from, time_point now) const noexcept {
        return base::remaining(slots().find(from), now);
    }
    [[nodiscard]] duration reset_after(permit_origin from, time_point now) const noexcept {
        return base::reset_after(slots().find(from), now);
    }
    [[nodiscard]] bool is_lost(permit_origin from, time_point now) const noexcept
        requires lending_policy<typename Slots::policy_type>
    {
        return this->policy().is_lost(from.ticket, now);
    }

    // Operations that wait for events.

    /// Returns whether a wait for the release of all permits is over, with the outcome in `op`.
    [[nodiscard]] bool decide_drain(operation& op) noexcept {
        return drains_.decide(op, this->is_idle());
    }
    void join_drain(operation& op) noexcept { drains_.join(op, this->parts().take_number()); }

    /// Returns whether a wait for an event of the policy is over, with the outcome in `op`.
    template <class Found>
    [[nodiscard]] bool decide_watch(watch_operation<Found>& op, time_point now) noexcept {
        return watchers_.decide(op, seen_by_watchers(), now);
    }
    template <class Found>
    void join_watch(watch_operation<Found>& op) noexcept {
        watchers_.join(op, this->parts().take_number());
    }

    /// Undoes `join_drain` or `join_watch`.
    static void withdraw_other(operation& op) noexcept { event_waits::withdraw(op); }

protected:
    using base::base;
    ~returns() = default;

    [[nodiscard]] drains& of_drains() noexcept { return drains_; }
    [[nodiscard]] drains const& of_drains() const noexcept { return drains_; }
    [[nodiscard]] auto& of_watchers() noexcept { return watchers_; }
    [[nodiscard]] auto const& of_watchers() const noexcept { return watchers_; }
    [[nodiscard]] auto seen_by_watchers() noexcept {
        if constexpr (base::is_one)
            return watched<typename Slots::policy_type>{this->policy(), this->counters()};
        else if constexpr (base::is_fed)
            return watched<typename Slots::feed_type::events_type>{
                slots().events(), this->counters()};
        else
            return no_watchers::nothing();
    }

private:
    // Returns whether this may have made permits available.
    bool take_back_unused(amount n, permit_origin from, time_point now) noexcept {
        if (n == 0)
            return false;
        auto s = this->find(from);
        bool const is_stored = slots().has_place(s, now, from);
        line_change const here(*this, s.line(), now);
        this->drop_forecast();
        bool const made_space = is_stored && s.policy().refund(n, from.ticket, now);
        if constexpr (base::is_fed && !base::is_one)
            slots().give_back(from, n, now);
        this->count_back(n);
        this->settle_account(n, from);
        return made_space;
    }
    [[nodiscard]] bool concerns_event_waits() const noexcept {
        return !watchers_.empty() || (!drains_.empty() && this->is_idle());
    }

    drains drains_;
    [[no_unique_address]] typename Slots::watchers_type watchers_;
};

}  // namespace weir::inline v0_2::detail
