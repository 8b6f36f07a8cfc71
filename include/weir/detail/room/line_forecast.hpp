#pragma once

#include <weir/amount.hpp>
#include <weir/detail/operation.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace weir::inline v0_2::detail {

/// Computes the grant times of the requests in a line under a policy with `schedule::by_turns`: a forecast of the policy
/// grants them one by one. Later questions about the same line continue at its last request, unless `drop` was called.
///
/// A request whose patience ends before its turn leaves then, and those behind it move up.
template <class Policy>
class line_forecast {
public:
    /// Records that a request left a line, or that a policy has changed otherwise than by `sweep::reprice`.
    void drop() noexcept {
        if (future_) [[unlikely]]
            future_.reset();
    }
    /// Records that `by` has taken the position of `op`.
    void replace(operation const& op, operation& by) noexcept {
        if (last_ == &op)
            last_ = &by;
    }

    /// Returns when a newcomer for `n` permits would be granted after the requests of `l`, of which the oldest leave, for
    /// `evicted` permits. Nothing is granted before `from`. May throw `std::bad_alloc`.
    template <class Line>
    [[nodiscard]] time_point of_new(Line& l, Policy const& p, amount n, amount evicted,
                                    time_point from) {
        if (evicted != 0)
            drop();
        look_at(l, p, evicted, from);
        auto const at = turn(n);
        if (evicted != 0)
            drop();
        return at;
    }
    /// Returns when the last request of `l` is granted. May throw `std::bad_alloc`.
    template <class Line>
    [[nodiscard]] time_point of_last(Line& l, Policy const& p, time_point from) {
        look_at(l, p, 0, from);
        return at_;
    }

private:
    using forecast_type = decltype(std::declval<Policy const&>().forecast());

    // Looks at the requests that it has not seen.
    template <class Line>
    void look_at(Line& l, Policy const& p, amount evicted, time_point from) {
        if (line_ != &l || walks_ != l.sweep().number())
            drop();
        operation* next = nullptr;
        if (future_) {
            next = l.after(*last_);
        } else {
            future_.emplace(p.forecast());
            line_ = &l;
            walks_ = l.sweep().number();
            at_ = from;
            next = l.oldest();
            for (; next && evicted > 0; next = l.after(*next))
                evicted -= next->count;
        }
        try {
            for (; next; next = l.after(*next)) {
                grant(*next);
                last_ = next;
            }
        } catch (...) {
            drop();
            throw;
        }
    }
    void grant(operation const& op) {
        auto const at = turn(op.count);
        if (at > op.deadline) {
            at_ = std::max(at_, later(op.deadline, duration(1)));
            return;
        }
        if (at < never) {
            auto const n =
                op.more == 0 ? op.count
                             : std::clamp(future_->remaining(at), op.count, op.count + op.more);
            static_cast<void>(future_->take(n, at));
        }
        at_ = at;
    }
    [[nodiscard]] time_point turn(amount n) const noexcept {
        return at_ >= never ? never : std::max(future_->ready_at(n, 0, at_), at_);
    }

    std::optional<forecast_type> future_;
    void const* line_ = nullptr;
    operation* last_ = nullptr;  // the last request that it has seen, if there is a forecast
    time_point at_{};            // when it is granted, or has left
    std::uint32_t walks_ = 0;
};

/// The forecast of a line whose policy has another schedule, or none.
class no_line_forecast {
public:
    static void drop() noexcept {}
    static void replace(operation const&, operation&) noexcept {}
};

}  // namespace weir::inline v0_2::detail
