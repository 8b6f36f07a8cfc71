#pragma once

#include <weir/policy/policy.hpp>

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
/// Memory: constant.
/// Source: the counter that is reset each period, as in most gateways and web servers.
class fixed_window {
public:
    using options_type = fixed_window_options;

    explicit fixed_window(options_type const& options);

    void begin(time_point) noexcept {}
    /// What was granted and paid stays so: in the window of the new options in which the change falls, or
    /// in one that begins with the change. If that is more than a lower limit, no more is granted in this
    /// window, but nothing of it is owed by the next. A higher limit pays first what is owed.
    void take_over(fixed_window& before, time_point now) noexcept;

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return options_.limit; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] amount remaining(time_point now) const noexcept { return room(at(now)); }
    /// With unequal requests ahead this may be too early: it counts permits, and does not know which
    /// of them must go together.
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        auto const w = at(now);
        auto const too_many = w.owed + std::min(ahead, most) + n - room(w);
        return too_many <= 0 ? now : when(w, too_many);
    }

    /// The ticket is the time.
    ticket take(amount n, time_point now) noexcept {
        if (!is_under_way(now))
            window_ = next(now);
        auto const granted = std::min(n, room(window_));
        window_.used += granted;
        window_.owed = std::min(window_.owed + n - granted, most);
        return static_cast<ticket>(now.time_since_epoch().count());
    }
    bool leave(amount, ticket) noexcept { return false; }
    bool refund(amount n, ticket t, time_point now) noexcept;
    ticket merge(ticket a, ticket b, amount) noexcept { return a < b ? a : b; }

private:
    // Debt ends here, and no more than this waits as far as a forecast is concerned: sums still fit.
    static constexpr amount most = max_amount * 2'000;

    struct window {
        time_point began = time_point::min();
        amount used = 0;  // granted and paid: above the limit only after that was lowered
        amount owed = 0;  // by the windows to come; 0 unless this one is used up
        // Grants before `since` count no more. Of those since then, but before this window, the least
        // that was owed at a boundary between still counts: a refund of them undoes so many at most.
        time_point since = time_point::min();
        amount carried = most;
    };

    [[nodiscard]] amount room(window const& w) const noexcept {
        return std::max<amount>(options_.limit - w.used, 0);
    }
    [[nodiscard]] bool is_under_way(time_point now) const noexcept {
        return window_.used != 0 && now < later(window_.began, options_.window);
    }
    [[nodiscard]] window at(time_point now) const noexcept {
        return is_under_way(now) ? window_ : next(now);
    }
    [[nodiscard]] window next(time_point now) const noexcept;
    [[nodiscard]] time_point beginning(time_point now) const noexcept;
    [[nodiscard]] time_point when(window const& w, amount too_many) const noexcept;

    options_type options_;
    window window_;
};

}  // namespace policy
}  // namespace weir
