#pragma once

#include <weir/time.hpp>
#include <weir/time_zone.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace weir::inline v0_2 {

/// The length of the windows of `calendar_window`.
enum class calendar_unit : std::uint8_t {
    day,    ///< a date
    week,   ///< from Monday to Sunday
    month,  ///< from the first day to the last one
};

/// A time of a wall clock. A time of `std::chrono::system_clock`, which may be less precise, converts to it.
using wall_time = std::chrono::sys_time<duration>;

/// Returns the time of day: the type of a wall clock. It may jump in either direction.
using wall_clock = wall_time (*)() noexcept;

/// The options of windows that follow a calendar.
struct calendar_options {
    /// The length of a window.
    calendar_unit unit = calendar_unit::day;

    /// The time zone whose midnight begins a window.
    time_zone zone = {};

    /// The wall clock; null for `std::chrono::system_clock`.
    wall_clock clock = nullptr;

    friend bool operator==(calendar_options const&, calendar_options const&) = default;
};

namespace policy {

/// A window of a calendar: it begins at the first instant at which a clock in the zone shows a day of the window, and
/// ends where the next one begins. So a day has 23 or 25 hours when summer time begins or ends.
struct calendar_span {
    std::chrono::sys_seconds begin;
    std::chrono::sys_seconds end;
    std::int64_t number;  ///< consecutive numbers of the calendar; a skipped day has a number, too
};

/// Returns the window that contains `t`.
[[nodiscard]] calendar_span span_at(calendar_unit unit, time_zone zone,
                                    std::chrono::sys_seconds t) noexcept;

/// Returns the beginning of the window `number`, which must be in the years -30000 to 30000.
[[nodiscard]] std::chrono::sys_seconds beginning_of(calendar_unit unit, time_zone zone,
                                                    std::int64_t number) noexcept;

/// The current window of a calendar on a limiter's clock. All members are thread-safe, so that the keys of a limiter can
/// share it.
///
/// `at` reads the wall clock if a minute passed since the last reading, or at the end of the window. Each reading predicts
/// the end of the window from the wall clock. A reading begins another window, the one of the wall clock, if it is at or
/// after the end of the window, or more than the length of the window before its beginning. So a clock that is set back
/// just after midnight does not repeat the day before.
class calendar_cursor {
public:
    /// The longest time between two readings while the cursor is in use.
    static constexpr duration between_readings = std::chrono::minutes(1);

    /// A window on the limiter's clock.
    struct window {
        std::uint64_t
            passed;  ///< windows that passed: equal for two calls iff they are in the same window
        time_point since;     ///< the first reading of the wall clock in this window
        time_point end;       ///< the predicted end, after `now`
        std::int64_t number;  ///< of the calendar
    };

    explicit calendar_cursor(calendar_options const& options) noexcept : options_(options) {}
    calendar_cursor(calendar_cursor const& other) noexcept;
    calendar_cursor& operator=(calendar_cursor const& other) noexcept;

    [[nodiscard]] calendar_options const& options() const noexcept { return options_; }

    /// Returns the window at `now`.
    [[nodiscard]] window at(time_point now) const noexcept {
        // A sequence lock: the values are of one position if the version is even, and the same before and after.
        constexpr auto order = std::memory_order_acquire;
        auto const version = version_.load(order);
        bool const is_read = is_fresh(now);
        window const w{.passed = passed_.load(order),
                       .since = since_.load(order),
                       .end = end_.load(order),
                       .number = number_.load(order)};
        bool const is_whole =
            version % 2 == 0 && version_.load(std::memory_order_relaxed) == version;
        return is_whole && is_read ? w : read(now);
    }
    /// Returns `at(now).passed`, with less work.
    [[nodiscard]] std::uint64_t passed(time_point now) const noexcept {
        // A thread whose `now` is a little earlier may see the window that another one begins meanwhile.
        if (is_fresh(now)) [[likely]]
            return passed_.load(std::memory_order_acquire);
        return read(now).passed;
    }
    /// Returns the window at `t`, at or after the end of the window `w`, if the wall clock makes no step until then. It
    /// has no `since`.
    [[nodiscard]] window predict(window const& w, time_point t) const noexcept;
    /// Returns the predicted end of the last of `count` windows, of which `w` is the first.
    [[nodiscard]] time_point end_of(window const& w, std::int64_t count) const noexcept;

    /// Continues from the window `number` of the calendar, unless this cursor is in a later one: the next call of `at` moves
    /// on from there by the wall clock. Returns what `passed` returns or would have returned in that window; nothing if
    /// the calendar has no such window.
    [[nodiscard]] std::optional<std::uint64_t> go_on_from(std::int64_t number) const noexcept;

    /// Continues from the window of `other`, if both have the same options and this one was never used.
    void take_over(calendar_cursor const& other) const noexcept;

private:
    struct position {
        window current{};
        std::chrono::sys_seconds from{};  // the window on the wall clock
        std::chrono::sys_seconds to{};
        time_point fresh_until = time_point::min();  // the wall clock is not read until then
    };

    // Whether the wall clock need not be read at `now`.
    [[nodiscard]] bool is_fresh(time_point now) const noexcept {
        return now < fresh_until_.load(std::memory_order_acquire);
    }

    // Calls `edit(position&)` in one thread at a time, and returns the new position.
    template <class Edit>
    position change(Edit edit) const noexcept;
    [[nodiscard]] window read(time_point now) const noexcept;

    calendar_options options_;
    std::atomic<std::uint64_t> mutable version_ = 0;  // odd while a thread changes the position
    std::atomic<std::uint64_t> mutable passed_ = 0;
    std::atomic<time_point> mutable fresh_until_ = time_point::min();
    std::atomic<time_point> mutable since_ = time_point();
    std::atomic<time_point> mutable end_ = time_point();
    std::atomic<std::int64_t> mutable number_ = 0;
    std::atomic<std::chrono::sys_seconds> mutable from_ = std::chrono::sys_seconds();
    std::atomic<std::chrono::sys_seconds> mutable to_ = std::chrono::sys_seconds();
};

}  // namespace policy
}  // namespace weir::inline v0_2
