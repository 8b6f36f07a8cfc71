#pragma once

#include <weir/amount.hpp>
#include <weir/policy/carry_over.hpp>
#include <weir/rate.hpp>
#include <weir/saved_numbers.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstdint>

namespace weir::inline v0_2::policy {

__extension__ using drops = __int128;  // holds sums of the largest options and times

/// The capacity of a bucket, and the unit in which it is counted.
struct bucket_measure {
    drops permit;
    drops full;

    /// Converts the room in a bucket of another measure by the rule `carry`, rounded down. Permits taken beyond the
    /// capacity remain a debt.
    [[nodiscard]] drops carried(drops room, bucket_measure const& from,
                                carry_over carry) const noexcept;
};

/// The rule of a bucket that drains evenly: the common part of `token_bucket` and `leaky_bucket`.
///
/// Everything is counted in drops, a unit so small that each nanosecond drains a whole number of drops: for a rate of p
/// permits in T nanoseconds, a nanosecond drains p drops, and a permit is T drops. So only the result of `ready_at` is
/// rounded: up, to a nanosecond. The fraction of a nanosecond by which a grant is late is kept for the next grant,
/// while it is worth less than a permit. So callers that always wait get exactly the rate.
///
/// Source: the generic cell rate algorithm of ITU-T I.371.
class bucket {
public:
    /// The only number that the algorithm keeps: how many drops must have drained since time 0 for the bucket to be
    /// empty.
    struct state {
        drops empty;
    };

    bucket(weir::rate const& rate, amount capacity) noexcept;

    [[nodiscard]] amount capacity() const noexcept { return capacity_; }
    [[nodiscard]] bucket_measure measure() const noexcept {
        return {permit_, drops(capacity_) * permit_};
    }

    /// Returns a bucket with this level. If that is 0, it has been empty for a long time.
    [[nodiscard]] state filled(drops level, time_point now) const noexcept {
        return {drained(now) + (level > 0 ? level : -spare_)};
    }
    [[nodiscard]] drops level(state s, time_point now) const noexcept {
        return std::max<drops>(s.empty - drained(now), 0);
    }
    /// Returns whether both states lead to the same decisions.
    [[nodiscard]] bool are_equal(state a, state b, time_point now) const noexcept {
        auto const gone = drained(now);
        return from(a, gone) == from(b, gone);
    }

    /// Returns the debt in permits, rounded up.
    [[nodiscard]] amount debt(state s, time_point now) const noexcept {
        auto const over = level(s, now) - drops(capacity_) * permit_;
        return over <= 0 ? 0 : static_cast<amount>((over - 1) / permit_ + 1);
    }
    /// Returns the room in whole permits.
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
        auto const most = gone + (drops(permit_) << 62);  // the largest debt
        s.empty = std::min(from(s, gone) + drops(n) * permit_, most);
    }
    /// Puts back `n` permits. Returns whether the bucket was not empty.
    bool put_back(state& s, amount n, time_point now) const noexcept {
        bool const was_filled = s.empty > drained(now);
        s.empty -= drops(n) * permit_;
        return was_filled;
    }

    /// Saves the drops in the bucket, above the least level that counts.
    void save(state s, number_writer& to, time_point now) const {
        auto const gone = drained(now);
        to.add(static_cast<number_writer::wide>(from(s, gone) - (gone - spare_)));
    }
    [[nodiscard]] bool load(state& s, number_reader& from, time_point then) const noexcept {
        auto const most = (drops(permit_) << 62) + spare_;  // as `take`
        s.empty = drained(then) - spare_ +
                  static_cast<drops>(from.next(static_cast<number_reader::wide>(most)));
        return !from.failed();
    }

private:
    /// Returns how many drops would have drained since time 0.
    [[nodiscard]] drops drained(time_point now) const noexcept {
        return drops(static_cast<std::uint64_t>(now.time_since_epoch().count()) -
                     static_cast<std::uint64_t>(time_point::min().time_since_epoch().count())) *
               by_nanosecond_;
    }
    /// Returns when the bucket was last empty, as far as it counts for the permits that are added now.
    [[nodiscard]] drops from(state s, drops gone) const noexcept {
        return std::max(s.empty, gone - spare_);
    }
    [[nodiscard]] time_point when(drops lacking, time_point now) const noexcept;

    std::int64_t by_nanosecond_;  // drops
    std::int64_t permit_;         // drops
    std::int64_t spare_;          // the most drops that are kept for the next grant
    amount capacity_;             // permits
};

/// The rule of a bucket that drains only at the end of each period. Here a drop is a permit.
class interval_bucket {
public:
    struct state {
        time_point beat;  // the start of a period
        amount level;     // in that period
    };

    interval_bucket(weir::rate const& rate, amount capacity) noexcept
        : period_(rate.period()), by_period_(rate.permits()), capacity_(capacity) {}

    [[nodiscard]] bucket_measure measure() const noexcept { return {1, capacity_}; }
    [[nodiscard]] duration period() const noexcept { return period_; }

    /// Returns the state in the period of this time.
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
        s.level = std::min(s.level + n, amount{1} << 62);  // the largest debt
    }
    bool put_back(state& s, amount n, time_point now) const noexcept {
        s = at(s, now);
        bool const was_filled = s.level > 0;
        s.level = std::max<amount>(s.level - n, 0);
        return was_filled;
    }

    static void save(state s, number_writer& to, time_point now) {
        to.add_age(s.beat, now);
        to.add(static_cast<number_writer::wide>(s.level));
    }
    [[nodiscard]] static bool load(state& s, number_reader& from, time_point then) noexcept {
        s.beat = from.next_instant(then);
        s.level = from.next_as<amount>(amount{1} << 62);  // as `take`
        return !from.failed();
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

}  // namespace weir::inline v0_2::policy
