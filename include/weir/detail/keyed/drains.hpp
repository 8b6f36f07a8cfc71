#pragma once

#include <weir/detail/operation.hpp>
#include <weir/error.hpp>

#include <boost/asio/error.hpp>

#include <cstdint>
#include <utility>

namespace weir::detail {

/// The operations that wait until a limiter is idle.
class keyed_drains {
public:
    /// Whether `op`, which does not wait yet, is over, with the outcome in it.
    [[nodiscard]] bool decide(operation& op, bool idle) const noexcept {
        if (op.cancelled)
            return end(op, boost::asio::error::operation_aborted);
        return (gone_ && end(op, errc::closed)) || (idle && end(op, {}));
    }
    void join(operation& op) noexcept {
        op.number = next_number_++;
        op.at = operation::place::draining;
        line_.push_back(op);
    }
    /// Undoes `join`.
    static void withdraw(operation& op) noexcept {
        static_cast<list_hook<in_line>&>(op).unlink();
        op.number = 0;
        op.at = operation::place::nowhere;
    }

    [[nodiscard]] bool empty() const noexcept { return line_.empty(); }

    /// The limiter has gone: all are over.
    void abandon() noexcept { gone_ = true; }
    /// All that wait now are over.
    void cancel_all() noexcept { cancel_before_ = next_number_; }

    [[nodiscard]] bool is_due(bool idle) const noexcept {
        return !line_.empty() && (gone_ || line_.front().number < cancel_before_ || idle);
    }
    /// Moves the first to the outbox, after `is_due`.
    void settle(operation_list& outbox) noexcept {
        operation& op = line_.front();
        auto const cancelled = op.number < cancel_before_;
        take_out(op,
                 gone_       ? make_error_code(errc::closed)
                 : cancelled ? error_code(boost::asio::error::operation_aborted)
                             : error_code(),
                 outbox);
    }
    void cancel(operation& op, operation_list& outbox) noexcept {
        take_out(op, boost::asio::error::operation_aborted, outbox);
    }
    /// Takes all out, with no outcome.
    void clear_out(operation_list& outbox) noexcept {
        gone_ = true;
        while (!line_.empty())
            take_out(line_.front(), {}, outbox);
    }

    static void detach(operation& op) noexcept {
        if (op.canceller)
            std::exchange(op.canceller, nullptr)->target = nullptr;
    }

private:
    // Returns true: it is over.
    static bool end(operation& op, error_code ec) noexcept {
        op.error = ec;
        detach(op);
        return true;
    }
    static void take_out(operation& op, error_code ec, operation_list& outbox) noexcept {
        withdraw(op);
        end(op, ec);
        outbox.push_back(op);
    }

    operation_list line_;
    bool gone_ = false;  // the limiter object, or the execution context
    std::uint64_t next_number_ = 1;
    std::uint64_t cancel_before_ = 0;
};

}  // namespace weir::detail
