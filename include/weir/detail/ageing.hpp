#pragma once

#include <weir/amount.hpp>
#include <weir/detail/operation.hpp>
#include <weir/time.hpp>

namespace weir::inline v0_2::detail {

/// The order of requests of different classes: a request of class c is ordered as if it had arrived c times `step`
/// later. So the order of two requests never changes.
///
/// Source: Jackson, "Some problems in queueing with dynamic priorities", Naval Research Logistics Quarterly 7(3),
/// 1960.
struct ageing {
    duration step{};

    [[nodiscard]] bool goes_before(queued_request const& a,
                                   queued_request const& b) const noexcept {
        auto const one = effective_arrival(a.since, a.priority);
        auto const other = effective_arrival(b.since, b.priority);
        return one != other ? one < other : a.number < b.number;
    }
    /// Returns whether `op` goes before a request that arrives at `now`.
    [[nodiscard]] bool goes_before(queued_request const& op, request const& r,
                                   time_point now) const noexcept {
        return effective_arrival(op.since, op.priority) <= effective_arrival(now, r.priority());
    }

private:
    [[nodiscard]] time_point effective_arrival(time_point since, int priority) const noexcept {
        return later(since, priority * step);
    }
};

}  // namespace weir::inline v0_2::detail
