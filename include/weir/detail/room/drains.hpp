#pragma once

#include <weir/detail/operation.hpp>
#include <weir/detail/room/event_waits.hpp>

namespace weir::inline v0_2::detail {

/// The operations that wait until a limiter is idle: all permits are released, and no request waits.
class drains : public event_waits {
public:
    drains() noexcept : event_waits(operation::place::draining) {}

    /// Returns whether `op`, which does not wait yet, is over, with the outcome in it.
    [[nodiscard]] bool decide(operation& op, bool is_idle) const noexcept {
        if (event_waits::decide(op))
            return true;
        if (is_idle)
            op.end({});
        return is_idle;
    }
    [[nodiscard]] bool is_due(bool is_idle) const noexcept {
        return !empty() && (is_idle || !is_swept());
    }
    /// Completes operations, until `budget` operations were touched.
    void serve(bool is_idle, int& budget, operation_list& outbox) noexcept {
        for (; is_idle && budget > 0 && !empty(); --budget)
            complete_first(outbox);
    }
};

}  // namespace weir::inline v0_2::detail
