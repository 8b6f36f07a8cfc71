#pragma once

#include <weir/detail/list.hpp>
#include <weir/detail/operation.hpp>
#include <weir/error.hpp>

#include <boost/asio/error.hpp>

#include <cstdint>

namespace weir::inline v0_2::detail {

/// Operations that wait for an event of a limiter, and not for permits. They complete in order of arrival. A derived
/// class decides when the event has occurred. This class decides on the other ends of a wait: the operation is
/// cancelled, alone or with all others, or the limiter is destroyed.
class event_waits {
public:
    /// Returns whether `op`, which does not wait yet, is over, with the outcome in it.
    [[nodiscard]] bool decide(operation& op) const noexcept {
        if (op.cancelled)
            op.end(boost::asio::error::operation_aborted);
        else if (gone_)
            op.end(errc::closed);
        return op.cancelled || gone_;
    }
    /// Adds `op`; `number` gives its order of arrival.
    void join(operation& op, std::uint64_t number) noexcept {
        op.number = number;
        op.at = what_;
        line_.push_back(op);
    }
    /// Undoes `join`.
    static void withdraw(operation& op) noexcept {
        static_cast<list_hook<in_line>&>(op).unlink();
        op.number = 0;
        op.at = operation::place::nowhere;
    }

    [[nodiscard]] bool empty() const noexcept { return line_.empty(); }

    // Events that concern all operations: `sweep` carries them out.

    /// Cancels all operations that arrived before the one with this number.
    void cancel_before(std::uint64_t number) noexcept { cancel_before_ = number; }
    void abandon() noexcept { gone_ = true; }
    [[nodiscard]] bool is_gone() const noexcept { return gone_; }

    [[nodiscard]] bool is_swept() const noexcept {
        return line_.empty() || !(gone_ || line_.front().number < cancel_before_);
    }
    /// Moves operations that have ended to the outbox, until `budget` operations were touched.
    void sweep(int& budget, operation_list& outbox) noexcept {
        for (; budget > 0 && !is_swept(); --budget) {
            if (gone_)
                take_out(line_.front(), errc::closed, outbox);
            else
                cancel(line_.front(), outbox);
        }
    }

    static void cancel(operation& op, operation_list& outbox) noexcept {
        take_out(op, boost::asio::error::operation_aborted, outbox);
    }
    /// Removes all operations without an outcome. Admits none from now on.
    void clear_out(operation_list& outbox) noexcept {
        gone_ = true;
        while (!line_.empty())
            complete_first(outbox);
    }

protected:
    explicit event_waits(operation::place what) noexcept : what_(what) {}
    ~event_waits() = default;

    [[nodiscard]] operation& front() const noexcept { return line_.front(); }
    /// Completes the first operation: its event has occurred, and the outcome is in it.
    void complete_first(operation_list& outbox) noexcept {
        take_out(front(), front().error, outbox);
    }

private:
    static void take_out(operation& op, error_code ec, operation_list& outbox) noexcept {
        withdraw(op);
        op.end(ec);
        outbox.push_back(op);
    }

    operation::place what_;
    bool gone_ = false;  // the limiter object, or the execution context
    std::uint64_t cancel_before_ = 0;
    operation_list line_;
};

}  // namespace weir::inline v0_2::detail
