#pragma once

#include <weir/time.hpp>
#include <weir/time_zone.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace weir::inline v0_2 {

/// The length of the windows of `calendar_window`.
enum class calendar_unit : std::uint8_t {
    day,
    week,  ///< from Monday to Sunday
    month,
};

/// Returns the time of day: the type of a wall clock. It may jump in either direction.
using wall_clock = std::chrono::system_clock::time_point (*)() noexcept;

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
    calendar_cursor(calendar_cursor const& other) noexcept
        : options_(other.options_), at_(other.at_.load()) {}
    calendar_cursor& operator=(calendar_cursor const& other) noexcept {
        options_ = other.options_;
        at_.change([p = other.at_.load()](position& mine) { mine = p; });
        return *this;
    }

    [[nodiscard]] calendar_options const& options() const noexcept { return options_; }

    /// Returns the window at `now`.
    [[nodiscard]] window at(time_point now) const noexcept {
        auto const p = at_.load();
        if (now < p.fresh_until) [[likely]]
            return p.current;
        return read(now);
    }
    /// Returns the predicted end of the last of `count` windows, of which `w` is the first.
    [[nodiscard]] time_point end_of(window const& w, std::int64_t count) const noexcept;

    /// Continues from the window of `other`, if both have the same options and this one was never used.
    void take_over(calendar_cursor const& other) const noexcept;

private:
    struct position {
        window current{};
        std::chrono::sys_seconds from{};  // the window on the wall clock
        std::chrono::sys_seconds to{};
        time_point fresh_until = time_point::min();  // until then the wall clock is not read
    };

    // A position that one thread changes while others read it: a sequence lock.
    class shared_position {
        using words = std::array<std::uint64_t, sizeof(position) / sizeof(std::uint64_t)>;

    public:
        explicit shared_position(position const& p) noexcept { store(p); }

        [[nodiscard]] position load() const noexcept {
            for (;;) {
                auto const version = version_.load(std::memory_order_acquire);
                words found;
                for (std::size_t i = 0; i != found.size(); ++i)
                    found[i] = words_[i].load(std::memory_order_acquire);
                if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version)
                    [[likely]]
                    return std::bit_cast<position>(found);
                version_.wait(version | 1);
            }
        }
        // Calls `edit(position&)` in one thread at a time.
        template <class Edit>
        position change(Edit edit) noexcept {
            auto version = version_.load();
            while (version % 2 != 0 || !version_.compare_exchange_weak(version, version + 1)) {
                version_.wait(version | 1);
                version = version_.load();
            }
            words before;
            for (std::size_t i = 0; i != before.size(); ++i)
                before[i] = words_[i].load(std::memory_order_relaxed);
            auto p = std::bit_cast<position>(before);
            edit(p);
            store(p);
            version_.store(version + 2);
            version_.notify_all();
            return p;
        }

    private:
        void store(position const& p) noexcept {
            auto const next = std::bit_cast<words>(p);
            for (std::size_t i = 0; i != next.size(); ++i)
                words_[i].store(next[i], std::memory_order_release);
        }

        std::atomic<std::uint64_t> version_ = 0;  // odd while it is changed
        std::array<std::atomic<std::uint64_t>, std::tuple_size_v<words>> words_;
    };

    [[nodiscard]] window read(time_point now) const noexcept;

    calendar_options options_;
    shared_position mutable at_{position()};
};

}  // namespace policy
}  // namespace weir::inline v0_2
