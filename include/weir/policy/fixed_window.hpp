#pragma once

#include <weir/policy/rule.hpp>
#include <weir/saved_numbers.hpp>

#include <algorithm>
#include <cstdint>

namespace weir::inline v0_2 {

/// The times at which windows begin.
enum class window_alignment : std::uint8_t {
    first_use,  ///< at the first grant after the end of the window before
    epoch,      ///< at whole multiples of their length on the limiter's clock
};

/// The options of `fixed_window`.
struct fixed_window_options {
    /// The number of permits per window, 1 to `max_amount`.
    amount limit = 1;

    /// The length of a window, at least 1 ns.
    duration window = std::chrono::seconds(1);

    /// The times at which windows begin.
    window_alignment alignment = window_alignment::first_use;
};

namespace policy {

/// The cheapest rate limit: `limit` permits per window of time.
///
/// Guarantee: at most `limit` permits are granted in each window. So up to 2 * limit can be granted at once at a
/// boundary: the last of one window and the first of the next. Use `sliding_window` if that is too many.
///
/// Formula: n permits are granted if at most `limit - n` were used since the window began.
///
/// Debt: permits that `charge` and `settle` take beyond the limit are a debt. Each new window pays from its limit
/// before it grants anything, and the next window owes the rest. All other grants of a window expire with it.
///
/// A refund reduces the debt first, and then frees permits of the current window. In the window of the grant it undoes
/// all of the grant. In a later window it undoes at most the smallest debt at the beginning of any window since the
/// limiter last was without debt, less what earlier refunds undid. So it may undo less than is still owed for the grant,
/// and never more: for `10/1s`, `charge(25)` at 0 s and `charge(20)` at 1 s, a refund of the 20 at 2 s undoes 15.
///
/// Memory: constant; 40 bytes of state, 16 of them for refunds of debt.
///
/// Source: the counter that is reset in each period, as in most gateways and web servers.
class fixed_window_rule {
public:
    using options_type = fixed_window_options;
    static constexpr auto schedule = weir::schedule::by_turns;

    struct state_type {
        time_point began = time_point::min();
        amount used = 0;  // granted and paid; above the limit only after the limit was lowered
        amount owed = 0;  // debt of later windows; 0 unless this window is used up
        // Grants before `since` do not count. Of grants since then, but before this window, only the smallest
        // debt at any boundary since then counts: a refund of them undoes at most that.
        time_point since = time_point::min();
        amount carried = most;
    };

    explicit fixed_window_rule(options_type const& options);

    [[nodiscard]] state_type begin(time_point) const noexcept { return {}; }
    /// Continues from `before`. Granted and paid permits count in the window of the new options in which the change
    /// falls, or in a window that begins with the change. If they exceed a lower limit, this window grants nothing
    /// more, and the next window owes nothing for them. A higher limit pays the debt first.
    void take_over(state_type& s, fixed_window_rule const& old, state_type const& before,
                   time_point now) const noexcept;
    [[nodiscard]] bool are_alike(state_type const& a, state_type const& b,
                                 time_point now) const noexcept {
        return at(a, now).used == 0 && at(b, now).used == 0;
    }

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return options_.limit; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] weir::tickets tickets() const noexcept { return tickets::time; }
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept {
        return is_under_way(s, now) ? room(s) : room(next(s, now));
    }
    [[nodiscard]] amount debt(state_type const& s, time_point now) const noexcept {
        return at(s, now).owed;
    }
    /// Returns when `n` permits can be granted after `ahead` others. If the requests ahead ask for different amounts,
    /// the result may be too early: it counts permits, and ignores which of them must be granted together.
    [[nodiscard]] time_point ready_at(state_type const& s, amount n, amount ahead,
                                      time_point now) const noexcept {
        return is_under_way(s, now) ? ready_in(s, n, ahead, now)
                                    : ready_in(next(s, now), n, ahead, now);
    }

    /// Takes `n` permits; the ticket is the time.
    ticket take(state_type& s, amount n, time_point now) const noexcept {
        if (!is_under_way(s, now))
            s = next(s, now);
        auto const granted = std::min(n, room(s));
        s.used += granted;
        s.owed = std::min(s.owed + n - granted, most);
        return static_cast<ticket>(now.time_since_epoch().count());
    }
    static constexpr bool ignores_leave = true;
    bool leave(state_type&, amount, ticket) const noexcept { return false; }
    bool refund(state_type& s, amount n, ticket t, time_point now) const noexcept;
    ticket merge(state_type&, ticket a, ticket b, amount) const noexcept { return a < b ? a : b; }
    void save(state_type const& s, number_writer& to, time_point now) const;
    [[nodiscard]] bool load(state_type& s, number_reader& from, time_point then) const noexcept;

private:
    // The largest debt, and the most waiting permits that a forecast counts: sums do not overflow.
    static constexpr amount most = max_amount * 2'000;

    [[nodiscard]] amount room(state_type const& s) const noexcept {
        return std::max<amount>(options_.limit - s.used, 0);
    }
    [[nodiscard]] time_point ready_in(state_type const& w, amount n, amount ahead,
                                      time_point now) const noexcept {
        auto const too_many = w.owed + std::min(ahead, most) + n - room(w);
        return too_many <= 0 ? now : when(w, too_many);
    }
    [[nodiscard]] bool is_under_way(state_type const& s, time_point now) const noexcept {
        return s.used != 0 && now < later(s.began, options_.window);
    }
    [[nodiscard]] state_type at(state_type const& s, time_point now) const noexcept {
        return is_under_way(s, now) ? s : next(s, now);
    }
    [[nodiscard]] state_type next(state_type const& s, time_point now) const noexcept;
    [[nodiscard]] time_point beginning(time_point now) const noexcept;
    [[nodiscard]] time_point when(state_type const& s, amount too_many) const noexcept;

    options_type options_;
};

/// The policy of `weir::fixed_window`: `limit` permits per window of time.
using fixed_window = ruled<fixed_window_rule>;

}  // namespace policy
}  // namespace weir::inline v0_2
