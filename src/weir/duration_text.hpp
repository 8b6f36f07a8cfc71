#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::inline v0_2::detail {

struct time_unit {
    std::string_view name;
    std::int64_t nanoseconds;
};

/// The units of durations in texts, the largest first.
inline constexpr std::array<time_unit, 6> time_units{{
    {"h", 3'600'000'000'000},
    {"min", 60'000'000'000},
    {"s", 1'000'000'000},
    {"ms", 1'000'000},
    {"us", 1'000},
    {"ns", 1},
}};

/// Returns a text such as "3s", "1500ms" or "0s", in the largest exact unit; "forever" for the longest duration.
[[nodiscard]] std::string to_text(std::chrono::nanoseconds length);

}  // namespace weir::inline v0_2::detail
