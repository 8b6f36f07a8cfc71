#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <algorithm>

namespace weir::inline v0_2::policy {

/// Counts the permits in use that belong to long calls, such as streams and downloads.
///
/// A call is the work under a permit. It is long when each seat has been released 16 to 32 times since its grant. Two
/// marks, which are instants, divide the permits in use into three generations: before the first mark (long calls),
/// between the marks, and after the second mark. A new mark follows the second one when enough permits have been
/// released. So the count takes constant memory, and no call becomes long while the service completes none.
class call_marks {
public:
    /// Returns the time to record for a permit that is granted at `now`: at least the second mark. So the recorded time
    /// determines the generation, even if a mark and a grant have the same time.
    [[nodiscard]] time_point stamp(time_point now) const noexcept { return std::max(now, second_); }

    /// Returns the number of permits in use of long calls.
    [[nodiscard]] amount long_calls() const noexcept { return long_; }

    /// Returns the second mark, or the least time before there are marks.
    [[nodiscard]] time_point last_mark() const noexcept { return second_; }

    /// Releases `n` of `in_use` permits with the recorded time `stamped`. Returns whether it was a long call.
    bool leave(time_point stamped, amount n, amount in_use, time_point now) noexcept {
        bool const is_long = stamped < first_;
        refund(stamped, n, in_use);
        turned_ += n;
        if (turned_ >= least_releases && turned_ / turns >= std::max<amount>(in_use - long_, 1))
            mark(in_use - n, now);
        return is_long;
    }

    /// Removes `n` of `in_use` permits, as if they had not been granted.
    void refund(time_point stamped, amount n, amount in_use) noexcept {
        remove(stamped, n);
        bound(in_use - n);
    }

    /// Removes `n` of `in_use` permits without a recorded time.
    void leave_unknown(amount n, amount in_use) noexcept { bound(in_use - n); }

    /// Adds `n` permits in use with a recorded time of before.
    void add(time_point stamped, amount n) noexcept {
        if (stamped < first_)
            long_ += n;
        else if (stamped < second_)
            middle_ += n;
    }

    /// Removes `n` permits that are still in use, whose recorded time changes or is lost.
    void remove(time_point stamped, amount n) noexcept {
        if (stamped >= second_) [[likely]]
            return;
        if (stamped < first_)
            long_ -= std::min(long_, n);
        else
            middle_ -= std::min(middle_, n);
    }

    /// Makes the calls of the `n` permits in use that were granted until `last` long.
    void make_long(time_point last, amount n) noexcept {
        first_ = second_ = later(std::max(last, second_), duration(1));
        long_ = n;
        middle_ = turned_ = 0;
    }

    friend bool operator==(call_marks const&, call_marks const&) = default;

private:
    static constexpr amount turns = 16;
    static constexpr amount least_releases = 50;

    // Permits without a recorded time are in no generation.
    void bound(amount in_use) noexcept {
        if (long_ + middle_ <= in_use) [[likely]]
            return;
        long_ = std::min(long_, in_use);
        middle_ = std::min(middle_, in_use - long_);
    }
    void mark(amount in_use, time_point now) noexcept {
        long_ += middle_;
        middle_ = in_use - long_;
        first_ = second_;
        second_ = later(std::max(now, second_), duration(1));
        turned_ = 0;
    }

    time_point first_ = time_point::min();
    time_point second_ = time_point::min();
    amount long_ = 0;    // granted before `first_`
    amount middle_ = 0;  // granted between `first_` and `second_`
    amount turned_ = 0;  // released since the last mark
};

}  // namespace weir::inline v0_2::policy
