#pragma once

#include <weir/amount.hpp>
#include <weir/policy/carry_over.hpp>
#include <weir/rate.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstdint>

namespace weir::policy {

/// A bucket that drains at a rate: what `token_bucket` and `leaky_bucket` have in common.
///
/// All is counted in drops, so small that each nanosecond drains a whole number of them: of the rate
/// p permits in T nanoseconds, a nanosecond drains p, and a permit is T. Where it drains by whole
/// periods, a period drains p and a permit is one. So nothing is ever rounded but the answer to
/// "when": up, to a nanosecond. Not even that is lost: an empty bucket may be owed up to a nanosecond's
/// worth, less than a permit, and so who always waits gets the rate to the unit.
/// Memory: constant.
/// Source: the generic cell rate algorithm of ITU-T I.371, which keeps one number: when the bucket will
/// be empty. Here that is said in drops.
class bucket {
public:
    __extension__ using drops = __int128;  // sums of the largest options and times all fit

    enum class drain : std::uint8_t { continuously, by_periods };

    struct rule {
        weir::rate rate;
        amount capacity;
        drain drains;
    };

    explicit bucket(rule const& r);

    /// Begins at `from`, with the bucket filled so far in drops of the rule.
    void restart(rule const& r, drops level, time_point from) noexcept;
    /// Where periods go on in the same beat, the beginning of this one; otherwise `now`.
    [[nodiscard]] time_point beat(rule const& next, time_point now) const noexcept;
    /// What `carry` makes of the room that there is, in drops of the next rule. What has been taken
    /// beyond the capacity stays owed.
    [[nodiscard]] drops room_in(rule const& next, carry_over carry, time_point now) const noexcept;

    [[nodiscard]] static drops drops_of(rule const& r, amount n) noexcept {
        return drops(n) * (r.drains == drain::continuously ? r.rate.period().count() : 1);
    }

    [[nodiscard]] amount capacity() const noexcept { return capacity_; }
    /// In whole permits, rounded up, and what room is left for.
    [[nodiscard]] amount level(time_point now) const noexcept;
    [[nodiscard]] amount room(time_point now) const noexcept;

    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        auto const gone = drained(now);
        auto const must_be = from(gone) + (drops(n) + ahead - capacity_) * permit_;
        return must_be <= gone ? now : when(must_be, now);
    }

    void take(amount n, time_point now) noexcept {
        auto const gone = drained(now);
        auto const most = gone + (drops(permit_) << 62);  // where debt ends
        empty_ = std::min(from(gone) + drops(n) * permit_, most);
    }

    /// Whether it was not empty.
    bool put_back(amount n, time_point now) noexcept {
        bool const was_filled = empty_ > drained(now);
        empty_ -= drops(n) * permit_;
        return was_filled;
    }

private:
    [[nodiscard]] std::uint64_t steps(time_point now) const noexcept {
        auto const passed = static_cast<std::uint64_t>(now.time_since_epoch().count()) -
                            static_cast<std::uint64_t>(origin_.time_since_epoch().count());
        return step_ == 1 ? passed : passed / static_cast<std::uint64_t>(step_);
    }
    /// How much has gone since `origin_`, or would have, had there been so much.
    [[nodiscard]] drops drained(time_point now) const noexcept {
        return drops(steps(now)) * by_step_;
    }
    /// What is poured in after so much has gone is gone so much later than this.
    [[nodiscard]] drops from(drops gone) const noexcept { return std::max(empty_, gone - owed_); }
    [[nodiscard]] drops filled(time_point now) const noexcept {
        return std::max<drops>(empty_ - drained(now), 0);
    }
    [[nodiscard]] time_point when(drops gone, time_point now) const noexcept;

    std::int64_t step_ = 1;     // nanoseconds
    std::int64_t by_step_ = 0;  // drops
    std::int64_t permit_ = 1;   // drops
    std::int64_t owed_ = 0;     // drops, at most, by the empty bucket
    amount capacity_ = 0;       // permits
    time_point origin_ = time_point::min();
    drops empty_ = 0;  // the bucket is empty once so much has drained
};

}  // namespace weir::policy
