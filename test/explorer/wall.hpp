#pragma once

#include <weir/policy/calendar_cursor.hpp>
#include <weir/time.hpp>
#include <weir/time_zone.hpp>

#include <array>
#include <chrono>

namespace explorer {

using weir::duration;
using weir::time_point;

/// The wall clock of the running simulation: it advances with the limiter's clock, and a caller may set it.
struct wall {
    /// Reads it for the policy: a `weir::wall_clock`. The oracle receives the reading.
    [[nodiscard]] static weir::wall_time read() noexcept;

    /// Returns what it shows, as the time since 1970, and the limiter's time.
    [[nodiscard]] static duration shows();
    [[nodiscard]] static time_point now();

    /// A change of the zone's difference from UTC.
    struct change {
        std::chrono::sys_seconds at;
        std::chrono::seconds offset;
    };
    static constexpr std::chrono::seconds winter = std::chrono::hours(1);
    static constexpr std::chrono::seconds summer = std::chrono::hours(2);
    /// In the early hours, after midnight and back to the day before, at midnight and past it, and not for a long time.
    static constexpr std::array changes{
        change{std::chrono::sys_days(std::chrono::year(2026) / 3 / 29) + std::chrono::hours(1),
               summer},
        change{std::chrono::sys_days(std::chrono::year(2026) / 4 / 2) + std::chrono::minutes(1350),
               winter},
        change{std::chrono::sys_days(std::chrono::year(2026) / 4 / 5) + std::chrono::hours(23),
               summer},
        change{std::chrono::sys_days(std::chrono::year(2026) / 10 / 25) + std::chrono::hours(1),
               winter}};

    /// Returns the zone with these changes.
    [[nodiscard]] static weir::time_zone zone();
};

}  // namespace explorer
