#pragma once

#include <weir/amount.hpp>
#include <weir/detail/operation.hpp>
#include <weir/error.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <cstdint>

namespace weir::detail {

/// What an event means for those in a line that were there before it: the limiter is closed, all are cancelled,
/// or their turns come at other times. The line is walked through once, from the oldest on, in portions; an
/// event that comes meanwhile has the walk begin again. It is decided here who has to leave, and why.
class sweep {
public:
    [[nodiscard]] bool is_under_way() const noexcept { return is_under_way_; }

    // Events: the walk begins at the oldest.

    void close() noexcept { begin(); }
    /// All that came before the one with this number are cancelled.
    void cancel_before(std::uint64_t number) noexcept {
        cancel_before_ = number;
        begin();
    }
    /// All are looked at again.
    void reprice() noexcept {
        reprices_ = true;
        begin();
    }
    /// The walk has come to its end.
    void end() noexcept { is_under_way_ = reprices_ = false; }

    /// One more is in the line: its turn is not known before the walk comes to it.
    void joins() noexcept { reprices_ = reprices_ || is_under_way_; }
    /// It leaves the line for whatever reason.
    void leaves(operation const& op) noexcept {
        if (is_under_way_ && op.seen_by_sweep == number_)
            kept_ -= op.count;
    }

    [[nodiscard]] bool cancels(std::uint64_t number) const noexcept {
        return number < cancel_before_;
    }

    /// Why the next one of the walk has to leave; no error if it stays. `in_order`: those that came first are
    /// always served first.
    template <class Policy>
    [[nodiscard]] error_code look_at(operation& op, Policy const& policy, bool is_shut,
                                     bool in_order, time_point now) noexcept {
        if (is_shut)
            return errc::closed;
        if (cancels(op.number))
            return boost::asio::error::operation_aborted;
        if (!reprices_)
            return {};
        if (auto const ec = look_again_at(op, policy, in_order ? kept_ : 0, now))
            return ec;
        op.seen_by_sweep = number_;
        kept_ += op.count;
        return {};
    }

private:
    void begin() noexcept {
        is_under_way_ = true;
        ++number_;
        kept_ = 0;
    }

    // Whether its turn can still come, and in time.
    template <class Policy>
    [[nodiscard]] static error_code look_again_at(operation const& op, Policy const& policy,
                                                  amount ahead, time_point now) noexcept {
        bool const fits = op.count <= policy.capacity();
        auto const ready = fits ? policy.ready_at(op.count, ahead, now) : unknown;
        if constexpr (fed_policy<Policy>) {
            if (ready == unknown && policy.barred(now))
                return errc::unavailable;
        }
        if (!fits)
            return errc::exceeds_capacity;
        if (ready != unknown && ready > op.deadline)
            return errc::deadline_unreachable;
        return {};
    }

    std::uint64_t cancel_before_ = 0;
    amount kept_ = 0;  // what those ask for that this walk has left in the line
    std::uint32_t number_ = 0;
    bool is_under_way_ = false;
    bool reprices_ = false;
};

}  // namespace weir::detail
