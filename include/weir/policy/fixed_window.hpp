#pragma once

#include <weir/policy/rule.hpp>

#include <algorithm>
#include <cstdint>

namespace weir {

/// When windows begin.
enum class window_alignment : std::uint8_t {
    first_use,  ///< with the first grant after the window before
    epoch,      ///< at whole multiples of their length on the limiter's clock
};

struct fixed_window_options {
    /// How many permits each window has, 1 to `max_amount`.
    amount limit = 1;

    /// The length of the window, at least a nanosecond.
    duration window = std::chrono::seconds(1);

    window_alignment alignment = window_alignment::first_use;
};

namespace policy {

/// The cheapest rate limit: so many permits in each window of time, and then none until the next.
///
/// Guarantee: at most `limit` permits are granted in each window. Across a boundary that allows up to
/// 2 * limit in an instant: the last of one window and the first of the next; use `sliding_window`
/// where that is too many.
/// Formula: n is granted if what was used since the window began is at most `limit - n`.
/// Debt: what `charge` and `settle` take beyond the limit is owed. Each window that comes pays from its
/// limit before it grants anything, and what is left is owed by the next. All else that was granted in a
/// window ends with it.
/// A refund undoes what is owed first. It makes room if what it undoes still counts: in the window of
/// the grant, or as debt that has been owed ever since.
/// Memory: constant; 40 bytes of state, of which 16 are for refunds of debt.
/// Source: the counter that is reset each period, as in most gateways and web servers.
class fixed_window_rule {
public:
    using options_type = fixed_window_options;

    struct state_type {
        time_point began = time_point::min();
        amount used = 0;  // granted and paid: above the limit only after that was lowered
        amount owed = 0;  // by the windows to come; 0 unless this one is used up
        // Grants before `since` count no more. Of those since then, but before this window, the least
        // that was owed at a boundary between still counts: a refund of them undoes so many at most.
        time_point since = time_point::min();
        amount carried = most;
    };

    explicit fixed_window_rule(options_type const& options);

    [[nodiscard]] state_type begin(time_point) const noexcept { return {}; }
    /// What was granted and paid stays so: in the window of the new options in which the change falls, or
    /// in one that begins with the change. If that is more than a lower limit, no more is granted in this
    /// window, but nothing of it is owed by the next. A higher limit pays first what is owed.
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
    /// With unequal requests ahead this may be too early: it counts permits, and does not know which
    /// of them must go together.
    [[nodiscard]] time_point ready_at(state_type const& s, amount n, amount ahead,
                                      time_point now) const noexcept {
        return is_under_way(s, now) ? ready_in(s, n, ahead, now)
                                    : ready_in(next(s, now), n, ahead, now);
    }

    /// The ticket is the time.
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

private:
    // Debt ends here, and no more than this waits as far as a forecast is concerned: sums still fit.
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

using fixed_window = ruled<fixed_window_rule>;

}  // namespace policy
}  // namespace weir
