#pragma once

#include <weir/amount.hpp>
#include <weir/policy/carry_over.hpp>
#include <weir/rate.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstdint>

namespace weir::policy {

__extension__ using drops = __int128;  // sums of the largest options and times all fit

/// How much fits into a bucket, and in what unit it is counted.
struct bucket_measure {
    drops permit;
    drops full;

    /// What `carry` makes of the room that there is in a bucket of another measure, rounded down. What
    /// has been taken beyond the capacity stays owed.
    [[nodiscard]] drops carried(drops room, bucket_measure const& from,
                                carry_over carry) const noexcept;
};

/// The rule of a bucket that drains evenly: what `token_bucket` and `leaky_bucket` have in common.
///
/// All is counted in drops, so small that each nanosecond drains a whole number of them: of the rate
/// p permits in T nanoseconds, a nanosecond drains p, and a permit is T. So nothing is ever rounded but
/// the answer to "when": up, to a nanosecond. The part of a nanosecond that a grant comes too late by is
/// kept for the next one, as long as it is worth less than a permit. So callers that always wait get the
/// rate to the unit.
/// Source: the generic cell rate algorithm of ITU-T I.371.
class bucket {
public:
    /// The one number that the algorithm keeps: how much must have drained since the beginning of time for
    /// the bucket to be empty.
    struct state {
        drops empty;
    };

    bucket(weir::rate const& rate, amount capacity) noexcept;

    [[nodiscard]] amount capacity() const noexcept { return capacity_; }
    [[nodiscard]] bucket_measure measure() const noexcept {
        return {permit_, drops(capacity_) * permit_};
    }

    /// A bucket that is filled so far. An empty one has been empty for long.
    [[nodiscard]] state filled(drops level, time_point now) const noexcept {
        return {drained(now) + (level > 0 ? level : -spare_)};
    }
    [[nodiscard]] drops level(state s, time_point now) const noexcept {
        return std::max<drops>(s.empty - drained(now), 0);
    }
    /// Whether it makes no difference if it is the one or the other.
    [[nodiscard]] bool are_equal(state a, state b, time_point now) const noexcept {
        auto const gone = drained(now);
        return from(a, gone) == from(b, gone);
    }

    /// In permits, rounded up.
    [[nodiscard]] amount debt(state s, time_point now) const noexcept {
        auto const over = level(s, now) - drops(capacity_) * permit_;
        return over <= 0 ? 0 : static_cast<amount>((over - 1) / permit_ + 1);
    }
    /// In whole permits.
    [[nodiscard]] amount room(state s, time_point now) const noexcept {
        auto const free = drops(capacity_) * permit_ - level(s, now);
        return free <= 0 ? 0 : static_cast<amount>(free / permit_);
    }
    [[nodiscard]] time_point ready_at(state s, amount n, amount ahead,
                                      time_point now) const noexcept {
        auto const gone = drained(now);
        auto const must_be = from(s, gone) + (drops(n) + ahead - capacity_) * permit_;
        return must_be <= gone ? now : when(must_be - gone, now);
    }

    void take(state& s, amount n, time_point now) const noexcept {
        auto const gone = drained(now);
        auto const most = gone + (drops(permit_) << 62);  // where debt ends
        s.empty = std::min(from(s, gone) + drops(n) * permit_, most);
    }
    /// Whether it was not empty.
    bool put_back(state& s, amount n, time_point now) const noexcept {
        bool const was_filled = s.empty > drained(now);
        s.empty -= drops(n) * permit_;
        return was_filled;
    }

private:
    /// How much would have drained since the beginning of time.
    [[nodiscard]] drops drained(time_point now) const noexcept {
        return drops(static_cast<std::uint64_t>(now.time_since_epoch().count()) -
                     static_cast<std::uint64_t>(time_point::min().time_since_epoch().count())) *
               by_nanosecond_;
    }
    /// When the bucket was empty last, as far as that counts for what is poured in now.
    [[nodiscard]] drops from(state s, drops gone) const noexcept {
        return std::max(s.empty, gone - spare_);
    }
    [[nodiscard]] time_point when(drops lacking, time_point now) const noexcept;

    std::int64_t by_nanosecond_;  // drops
    std::int64_t permit_;         // drops
    std::int64_t spare_;          // drops that are kept for the next grant, at most
    amount capacity_;             // permits
};

/// The rule of a bucket that drains by whole periods: so much at the end of each, and a drop is a permit.
class interval_bucket {
public:
    struct state {
        time_point beat;  // the beginning of a period
        amount level;     // in that period
    };

    interval_bucket(weir::rate const& rate, amount capacity) noexcept
        : period_(rate.period()), by_period_(rate.permits()), capacity_(capacity) {}

    [[nodiscard]] bucket_measure measure() const noexcept { return {1, capacity_}; }
    [[nodiscard]] duration period() const noexcept { return period_; }

    /// How things stand in the period of this time.
    [[nodiscard]] state at(state s, time_point now) const noexcept {
        auto const passed = count(now) - count(s.beat);
        auto const periods = passed / count(period_);
        auto const left = s.level - drops(periods) * by_period_;
        return {time_point(
                    duration(static_cast<duration::rep>(count(s.beat) + periods * count(period_)))),
                static_cast<amount>(std::max<drops>(left, 0))};
    }

    [[nodiscard]] amount debt(state s, time_point now) const noexcept {
        return std::max<amount>(at(s, now).level - capacity_, 0);
    }
    [[nodiscard]] amount room(state s, time_point now) const noexcept {
        return std::max<amount>(capacity_ - at(s, now).level, 0);
    }
    [[nodiscard]] time_point ready_at(state s, amount n, amount ahead,
                                      time_point now) const noexcept {
        auto const then = at(s, now);
        auto const lacking = drops(then.level) + n + ahead - capacity_;
        return lacking <= 0 ? now : when(then.beat, lacking);
    }

    void take(state& s, amount n, time_point now) const noexcept {
        s = at(s, now);
        s.level = std::min(s.level + n, amount{1} << 62);  // where debt ends
    }
    bool put_back(state& s, amount n, time_point now) const noexcept {
        s = at(s, now);
        bool const was_filled = s.level > 0;
        s.level = std::max<amount>(s.level - n, 0);
        return was_filled;
    }

private:
    [[nodiscard]] static std::uint64_t count(time_point t) noexcept {
        return count(t.time_since_epoch());
    }
    [[nodiscard]] static std::uint64_t count(duration d) noexcept {
        return static_cast<std::uint64_t>(d.count());
    }
    [[nodiscard]] time_point when(time_point beat, drops lacking) const noexcept;

    duration period_;
    amount by_period_;
    amount capacity_;
};

}  // namespace weir::policy
