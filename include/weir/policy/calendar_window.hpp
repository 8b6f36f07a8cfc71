#pragma once

#include <weir/policy/calendar_cursor.hpp>
#include <weir/policy/rule.hpp>
#include <weir/saved_numbers.hpp>
#include <weir/time_zone.hpp>

#include <algorithm>
#include <cstdint>

namespace weir::inline v0_2 {

/// The options of `calendar_window`.
struct calendar_window_options {
    /// The number of permits per window, 1 to `max_amount`.
    amount limit = 1;

    /// The length of a window: a day, a week or a month.
    calendar_unit unit = calendar_unit::day;

    /// The time zone whose midnight begins a window, by default UTC.
    time_zone zone = {};

    /// The wall clock; null for `std::chrono::system_clock`. Tests and virtual time replace it. It is called under the
    /// lock of the limiter.
    wall_clock clock = nullptr;
};

namespace policy {

/// A quota of the calendar: `limit` permits per day, week or month of a time zone.
///
/// A window begins at the first instant at which a clock in the zone shows one of its days, and ends where the next
/// window begins. A week begins on Monday. So a day has 23 or 25 hours when summer time begins or ends, and a month has
/// its own length.
///
/// Guarantee: at most `limit` permits are granted in each window. Over any time at most one more window begins than the
/// calendar begins in that time, and one more for each step of the wall clock. If a day is shown twice because the clock
/// was set back by more than a day, it has its quota twice.
///
/// The wall clock: it is read when the limiter is used, at most once a minute, and at the end of the window. So
/// a step of the clock has an effect within a minute of use. A clock at or after the end of the window begins the window
/// of that time. A clock before the beginning of the window begins the window of that time only if it is earlier by more
/// than the length of the window; otherwise the window continues until the clock reaches its end. Between two readings
/// the limiter's clock measures the time.
///
/// Formula: n permits are granted if at most `limit - n` were used since the window began.
///
/// Debt: permits that `charge` and `settle` take beyond the limit are a debt. Each new window pays from its limit before
/// it grants anything, and the next window owes the rest. A day that the zone skips pays, too. A clock that is set back
/// by more than a window begins one window, which pays as any other.
///
/// A refund in the window of the grant undoes all of the grant: it reduces the debt first, and then frees permits. In a
/// later window it has no effect.
///
/// Memory: constant; 16 bytes of state. The limiters of a `keyed` share the window.
class calendar_window_rule {
public:
    using options_type = calendar_window_options;

    /// The permits used in a window, and the debt of later ones.
    class state_type {
    public:
        state_type() = default;

    private:
        friend calendar_window_rule;
        static constexpr int bits = 14;
        static constexpr std::uint64_t most_windows = (1 << bits) - 1;

        state_type(amount used, amount owed, std::uint64_t window) noexcept
            : packed_(static_cast<std::uint64_t>(used) << bits | (window & most_windows)),
              owed_(owed) {}

        [[nodiscard]] amount used() const noexcept { return static_cast<amount>(packed_ >> bits); }
        // The windows that passed since the window of this state.
        [[nodiscard]] std::uint64_t passed(std::uint64_t window) const noexcept {
            return (window - packed_) & most_windows;
        }

        // The permits that were granted or paid, at most `max_amount`, and the last bits of the number of the window. A
        // state that is not used for 16,384 windows is taken for one of its old window.
        std::uint64_t packed_ = 0;
        amount owed_ = 0;  // 0 unless this window is used up
    };

    explicit calendar_window_rule(options_type const& options);

    [[nodiscard]] state_type begin(time_point) const noexcept { return {}; }
    /// Continues from `before`. Granted and paid permits count in the window of the new options in which the change
    /// falls. If they exceed a lower limit, this window grants nothing more, and the next window owes nothing for them.
    /// A higher limit pays the debt first.
    void take_over(state_type& s, calendar_window_rule const& old, state_type const& before,
                   time_point now) const noexcept;
    [[nodiscard]] bool are_alike(state_type const& a, state_type const& b,
                                 time_point now) const noexcept {
        auto const window = cursor_.passed(now);
        return in(window, a).used() == 0 && in(window, b).used() == 0;
    }

    [[nodiscard]] options_type options() const noexcept {
        auto const& c = cursor_.options();
        return {.limit = limit_, .unit = c.unit, .zone = c.zone, .clock = c.clock};
    }
    [[nodiscard]] amount capacity() const noexcept { return limit_; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] weir::tickets tickets() const noexcept { return tickets::time; }
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept {
        return room(in(cursor_.passed(now), s));
    }
    [[nodiscard]] amount debt(state_type const& s, time_point now) const noexcept {
        return in(cursor_.passed(now), s).owed_;
    }
    /// Returns when `n` permits can be granted after `ahead` others, if the wall clock makes no step until then. If the
    /// requests ahead ask for different amounts, the result may be too early: it counts permits, and ignores which of
    /// them must be granted together.
    [[nodiscard]] time_point ready_at(state_type const& s, amount n, amount ahead,
                                      time_point now) const noexcept {
        auto const current = in(cursor_.passed(now), s);
        return missing(current, n, ahead) <= 0 ? now : ready_later(s, n, ahead, now, now);
    }
    /// Returns when `n` permits can be granted after `ahead` others, if none is granted before `from`. The windows until
    /// then are predicted from the wall clock at `now`.
    [[nodiscard]] time_point ready_from(state_type const& s, amount n, amount ahead, time_point now,
                                        time_point from) const noexcept {
        return ready_later(s, n, ahead, now, from);
    }

    /// Takes `n` permits; the ticket is the time.
    ticket take(state_type& s, amount n, time_point now) const noexcept {
        auto const window = cursor_.passed(now);
        auto const current = in(window, s);
        auto const granted = std::min(n, room(current));
        s = {current.used() + granted, std::min(current.owed_ + n - granted, most), window};
        return static_cast<ticket>(now.time_since_epoch().count());
    }
    static constexpr bool ignores_leave = true;
    bool leave(state_type&, amount, ticket) const noexcept { return false; }
    bool refund(state_type& s, amount n, ticket t, time_point now) const noexcept;
    ticket merge(state_type&, ticket a, ticket b, amount) const noexcept { return a < b ? a : b; }
    void save(state_type const& s, number_writer& to, time_point now) const;
    [[nodiscard]] bool load(state_type& s, number_reader& from, time_point then) const noexcept;
    /// Continues from `before`, of which only its own rule knows the window.
    void resume(state_type& s, calendar_window_rule const& old, state_type const& before,
                time_point now, bool) const noexcept {
        take_over(s, old, before, now);
    }

private:
    // The largest debt, and the most waiting permits that a forecast counts: sums do not overflow.
    static constexpr amount most = max_amount * 2'000;

    [[nodiscard]] amount room(state_type const& s) const noexcept {
        return std::max<amount>(limit_ - s.used(), 0);
    }
    // Returns the permits that are missing for `n` more behind `ahead` others.
    [[nodiscard]] amount missing(state_type const& s, amount n, amount ahead) const noexcept {
        return s.owed_ + std::min(ahead, most) + n - room(s);
    }
    // Returns the state in the window before which `window` others passed.
    [[nodiscard]] state_type in(std::uint64_t window, state_type const& s) const noexcept {
        auto const passed = s.passed(window);
        return passed == 0 ? s : next(window, s, passed);
    }
    [[nodiscard]] state_type next(std::uint64_t window, state_type const& s,
                                  std::uint64_t passed) const noexcept;
    [[nodiscard]] time_point ready_later(state_type const& s, amount n, amount ahead,
                                         time_point now, time_point from) const noexcept;

    amount limit_;
    calendar_cursor cursor_;
};

/// The policy of `weir::calendar_window`: `limit` permits per day, week or month.
using calendar_window = ruled<calendar_window_rule>;

}  // namespace policy
}  // namespace weir::inline v0_2
