#pragma once

#include <weir/policy/calendar_cursor.hpp>
#include <weir/time.hpp>
#include <weir/time_zone.hpp>

#include "support/zone_file.hpp"

#include <chrono>

namespace support {

// A wall clock that a test sets, and the limiter's time, which the test passes to the policy.
struct wall {
    static inline thread_local weir::duration is{};  // since 1970
    static inline thread_local int readings = 0;

    static weir::wall_time read() noexcept {
        ++readings;
        return weir::wall_time(is);
    }
    static void set(std::chrono::sys_seconds t) { is = t.time_since_epoch(); }
};

constexpr std::chrono::sys_seconds at(int y, unsigned m, unsigned d, weir::duration time = {}) {
    return std::chrono::sys_days(std::chrono::year(y) / static_cast<int>(m) / static_cast<int>(d)) +
           std::chrono::floor<std::chrono::seconds>(time);
}

/// A zone with the summer time of the European Union, one hour east of Greenwich.
inline weir::time_zone europe() {
    static zone_folder const folder;
    static auto const zone =
        folder.add("Test/Europe", {.offsets = {3600}, .rule = "CET-1CEST,M3.5.0,M10.5.0/3"});
    return zone;
}

}  // namespace support
