#pragma once

#include <weir/amount.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/room/pause.hpp>
#include <weir/detail/room/why_unavailable.hpp>
#include <weir/error.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <cstdint>
#include <utility>

namespace weir::inline v0_2::detail {

/// The effect of an event on the requests that were in a queue before it: the limiter is closed, all are cancelled,
/// or their grant times change. The sweep walks through the queue once, from the oldest request on, in portions. It
/// decides which requests must leave, and why.
///
/// The limiter grants nothing before the end of a walk, and an event meanwhile restarts it. Debts are different, since
/// any number of them may follow each other: during their walk the limiter grants, and a debt meanwhile leads to
/// another walk after this one.
class sweep {
public:
    [[nodiscard]] bool is_under_way() const noexcept { return is_under_way_; }
    /// Returns the number of walks that were begun.
    [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
    /// Returns whether no request may be granted before the end of the walk.
    [[nodiscard]] bool holds_grants() const noexcept { return holds_grants_; }

    // Events: the walk begins at the oldest request.

    void close() noexcept { begin(true); }
    /// Cancels all requests that arrived before the one with this number.
    void cancel_before(std::uint64_t number) noexcept {
        cancel_before_ = number;
        begin(true);
    }
    /// Examines all requests again.
    void reprice() noexcept {
        reprices_ = true;
        is_owed_ = false;
        begin(true);
    }
    /// Examines all requests again, since a debt delays them. Returns whether the walk begins now.
    [[nodiscard]] bool fall_into_debt() noexcept {
        if (is_under_way_) {
            is_owed_ = true;
            return false;
        }
        reprices_ = true;
        begin(false);
        return true;
    }
    /// Records the end of the walk. Returns whether another walk begins now.
    bool end() noexcept {
        is_under_way_ = holds_grants_ = reprices_ = false;
        return std::exchange(is_owed_, false) && fall_into_debt();
    }

    /// Records a new request in the queue: its grant time is unknown before the walk reaches it.
    void joins() noexcept { reprices_ = reprices_ || is_under_way_; }
    /// Records that a request leaves the queue, for any reason.
    void leaves(operation const& op) noexcept {
        if (is_under_way_ && op.seen_by_sweep == number_)
            kept_ -= op.count;
    }

    [[nodiscard]] bool cancels(std::uint64_t number) const noexcept {
        return number < cancel_before_;
    }

    /// Returns why `op` must leave; no error if it stays. `ahead`: the permits asked for by the requests before it that
    /// stay.
    template <class Policy>
    [[nodiscard]] error_code why_leave(operation const& op, Policy const& policy, pause const& p,
                                       bool is_shut, amount ahead, time_point now) const noexcept {
        if (is_shut)
            return errc::closed;
        if (cancels(op.number))
            return boost::asio::error::operation_aborted;
        return reprices_ ? examine(op, policy, p, ahead, now) : error_code();
    }
    /// Returns why the next request of the walk must leave; no error if it stays. `in_order`: requests are always
    /// served in order of arrival.
    template <class Policy>
    [[nodiscard]] error_code look_at(operation& op, Policy const& policy, pause const& p,
                                     bool is_shut, bool in_order, time_point now) noexcept {
        auto const ec = why_leave(op, policy, p, is_shut, in_order ? kept_ : 0, now);
        if (!ec && reprices_) {
            op.seen_by_sweep = number_;
            kept_ += op.count;
        }
        return ec;
    }

private:
    void begin(bool holds_grants) noexcept {
        is_under_way_ = true;
        holds_grants_ = holds_grants;
        ++number_;
        kept_ = 0;
    }

    // Returns whether it can still be granted, and in time.
    template <class Policy>
    [[nodiscard]] static error_code examine(operation const& op, Policy const& policy,
                                            pause const& p, amount ahead, time_point now) noexcept {
        bool const fits = op.count <= policy.capacity();
        auto const ready = fits ? p.ready_at(policy, op.count, ahead, now) : unknown;
        if constexpr (may_be_unavailable<Policy>) {
            if (ready == unknown && policy.unavailable_until(now))
                return why_unavailable(policy);
        }
        if (!fits)
            return errc::exceeds_capacity;
        if (ready != unknown && ready > op.deadline)
            return errc::deadline_unreachable;
        return {};
    }

    std::uint64_t cancel_before_ = 0;
    amount kept_ = 0;  // the permits asked for by the requests that this walk has kept
    std::uint32_t number_ = 0;
    bool is_under_way_ = false;
    bool holds_grants_ = false;
    bool reprices_ = false;
    bool is_owed_ = false;  // another walk, since a debt came during this one
};

}  // namespace weir::inline v0_2::detail
