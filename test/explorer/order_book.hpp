#pragma once

#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <algorithm>

namespace explorer {

using weir::duration;
using weir::time_point;

/// Who is next, and who may or must be dropped, by the words of `queue_order`.
class order_book {
public:
    explicit order_book(weir::queue_options const& o)
        : order_(o.order), target_(o.target), interval_(o.interval) {}

    /// Somebody waits, and nobody did before.
    void begins(time_point now) noexcept {
        busy_since_ = good_at_ = now;
        has_stood_ = false;
    }
    void granted(duration waited, time_point now) noexcept {
        if (waited > target_)
            return;
        has_stood_ = has_stood_ || now - good_at_ >= interval_;
        good_at_ = now;
    }

    /// Whether nobody is ever granted before an older one.
    [[nodiscard]] bool foresees() const noexcept {
        return order_ == weir::queue_order::fifo || order_ == weir::queue_order::codel;
    }
    /// Asked only while somebody waits.
    [[nodiscard]] bool newest_first(time_point now) const noexcept {
        return order_ == weir::queue_order::lifo ||
               (order_ == weir::queue_order::adaptive_lifo && now - busy_since_ > interval_);
    }
    /// Whether somebody who came at `since` may be dropped: an interval has been bad since nobody waited.
    [[nodiscard]] bool may_drop(time_point since, time_point now) const noexcept {
        return order_ == weir::queue_order::codel && now - since > 2 * target_ &&
               (has_stood_ || now - good_at_ >= interval_);
    }
    /// When they must have been, if nobody is granted in time until then: whenever the intervals begin, one
    /// has been bad as a whole.
    [[nodiscard]] time_point must_drop(time_point since) const noexcept {
        if (order_ != weir::queue_order::codel)
            return weir::never;
        return std::max(weir::later(good_at_, 2 * interval_),
                        weir::later(since, 2 * target_ + duration(1)));
    }
    /// When the newest is first instead of the oldest.
    [[nodiscard]] time_point turns() const noexcept {
        return order_ == weir::queue_order::adaptive_lifo
                   ? weir::later(busy_since_, interval_ + duration(1))
                   : weir::never;
    }

private:
    weir::queue_order order_;
    duration target_;
    duration interval_;
    time_point busy_since_{};
    time_point good_at_{};  // somebody was granted who had waited for no longer than the target
    bool has_stood_ = false;
};

}  // namespace explorer
