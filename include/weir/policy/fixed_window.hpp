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
/// Formula: n is granted if what was used since the window began is at most `limit - n`. Debt, which
/// only `charge` and `settle` can make, is carried over and uses up the windows that come.
/// A refund makes room if what it undoes still counts, in its own window or as debt that was carried
/// over.
/// Memory: constant.
/// Source: the counter that is reset each period, as in most gateways and web servers.
class fixed_window {
public:
    using options_type = fixed_window_options;

    explicit fixed_window(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    /// What was used stays used: in the window of the new options in which the change falls, or in one
    /// that begins with the change.
    void take_over(fixed_window& before, time_point now) noexcept;
    void begin(time_point) noexcept {}

    [[nodiscard]] amount capacity() const noexcept { return options_.limit; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] amount remaining(time_point now) const noexcept {
        return std::max<amount>(options_.limit - at(now).used, 0);
    }
    /// With unequal requests ahead this may be too early: it counts permits, and does not know which
    /// of them must go together.
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        auto const w = at(now);
        auto const too_many = w.used + std::min(ahead, most) + n - options_.limit;
        return too_many <= 0 ? now : when(w, too_many);
    }

    ticket take(amount n, time_point now) noexcept {
        move_on(now);
        window_.used += std::min(n, most - window_.used);
        return number_;
    }
    bool leave(amount, ticket) noexcept { return false; }
    bool refund(amount n, ticket t, time_point now) noexcept;
    ticket merge(ticket a, ticket b, amount) noexcept { return a < b ? a : b; }

private:
    // Debt ends here, and no more than this waits as far as a forecast is concerned: sums still fit.
    static constexpr amount most = max_amount * 2'000;

    struct window {
        time_point began = time_point::min();
        amount used = 0;
    };

    [[nodiscard]] bool is_under_way(time_point now) const noexcept {
        return window_.used != 0 && now < later(window_.began, options_.window);
    }
    [[nodiscard]] window at(time_point now) const noexcept {
        return is_under_way(now) ? window_ : next(now);
    }
    [[nodiscard]] window next(time_point now) const noexcept;
    [[nodiscard]] time_point beginning(time_point now) const noexcept;
    [[nodiscard]] time_point when(window const& w, amount too_many) const noexcept;
    void move_on(time_point now) noexcept {
        if (!is_under_way(now))
            enter(next(now));
    }
    void enter(window const& w) noexcept;

    options_type options_;
    window window_;

    // Windows are numbered as they are used, and the ticket is the number. What was granted in windows
    // before `oldest_` counts no more; of what was granted since then, but before this window, the
    // number that is `carried_` was never paid off, so that a refund undoes that many.
    ticket number_ = 0;
    ticket oldest_ = 0;
    amount carried_ = most;
};

}  // namespace policy
}  // namespace weir
