#pragma once

#include <weir/detail/counters.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/room/event_waits.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <optional>

namespace weir::inline v0_2::detail {

/// The type of the events that a policy reports to its watchers.
template <class Policy>
struct reported_by {
    using type = overdue;
};
template <eventful_policy Policy>
struct reported_by<Policy> {
    using type = typename Policy::event_type;
};
template <lending_policy Policy>
struct reported_by<Policy> {
    using type = ticket;  // of the permits whose loss the operation awaits
};

/// The parts of a limiter that watchers use.
template <class Policy>
struct watched {
    Policy& policy;
    counters& counts;
};

/// The operations that wait for events of a policy: a permit that is overdue, an event, or the loss of permits. It
/// decides which operation gets which report. An overdue permit, or an event, is reported to one operation; the loss
/// of permits, to all operations that ask for them.
template <class Policy>
class watchers : public event_waits {
public:
    using reported = typename reported_by<Policy>::type;

    watchers() noexcept : event_waits(operation::place::watching) {}

    /// Returns whether a wait is over, with the outcome in `op`.
    template <class Found>
    [[nodiscard]] bool decide(watch_operation<Found>& op, watched<Policy> g,
                              time_point now) noexcept {
        if (event_waits::decide(op))
            return true;
        bool const is_next = lending_policy<Policy> || empty();
        if (!is_next || !report(op, g, now))
            return false;
        op.detach();
        return true;
    }

    /// Completes operations for which there is a report, until `budget` operations were touched.
    void serve(watched<Policy> g, time_point now, int& budget, operation_list& outbox) noexcept {
        for (; budget > 0 && !empty() && report(first(), g, now); --budget)
            complete_first(outbox);
    }

    [[nodiscard]] bool is_due([[maybe_unused]] watched<Policy> g,
                              [[maybe_unused]] time_point now) const noexcept {
        if (empty())
            return false;
        if (!is_swept())
            return true;
        if constexpr (eventful_policy<Policy>)
            return g.policy.has_event();
        else if constexpr (lending_policy<Policy>)
            return report(first(), g, now);
        else
            return false;
    }
    /// Returns when the next report is due, as far as it depends on time alone.
    [[nodiscard]] time_point next_event(watched<Policy> g) const noexcept {
        if constexpr (watchful_policy<Policy>) {
            if (!empty())
                return g.policy.next_overdue();
        }
        return never;
    }

private:
    using watching_operation = watch_operation<reported>;

    [[nodiscard]] watching_operation& first() const noexcept {
        return static_cast<watching_operation&>(front());
    }

    static bool report(overdue_operation& op, watched<Policy> g, time_point now) noexcept {
        if constexpr (watchful_policy<Policy>) {
            if (auto const found = g.policy.pop_overdue(now)) {
                op.found = *found;
                g.counts.overdue();
                return true;
            }
        }
        return false;
    }
    static bool report(watching_operation& op, watched<Policy> g, time_point) noexcept
        requires eventful_policy<Policy>
    {
        auto const found = g.policy.pop_event();
        if (found)
            op.found = *found;
        return found.has_value();
    }
    // A wait for the loss of permits ends with `operation_aborted` when they are released.
    static bool report(watching_operation& op, watched<Policy> g, time_point now) noexcept
        requires lending_policy<Policy>
    {
        if (g.policy.is_lost(op.found, now))
            return true;
        if (g.policy.is_held(op.found))
            return false;
        op.error = boost::asio::error::operation_aborted;
        return true;
    }
};

/// The watchers of a limiter whose policy reports no event.
class no_watchers {
public:
    /// Stands for the parts that watchers use.
    struct nothing {};

    static void cancel_before(std::uint64_t) noexcept {}
    static void abandon() noexcept {}
    static void sweep(int&, operation_list&) noexcept {}
    static void serve(nothing, time_point, int&, operation_list&) noexcept {}
    static void clear_out(operation_list&) noexcept {}
    [[nodiscard]] static bool empty() noexcept { return true; }
    [[nodiscard]] static bool is_due(nothing, time_point) noexcept { return false; }
    [[nodiscard]] static time_point next_event(nothing) noexcept { return never; }
};

}  // namespace weir::inline v0_2::detail
