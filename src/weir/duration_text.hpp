#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::detail {

struct time_unit {
    std::string_view name;
    std::int64_t nanoseconds;
};

/// The units in which lengths of time are written, from the largest on.
inline constexpr std::array<time_unit, 6> time_units{{
    {"h", 3'600'000'000'000},
    {"min", 60'000'000'000},
    {"s", 1'000'000'000},
    {"ms", 1'000'000},
    {"us", 1'000},
    {"ns", 1},
}};

/// "3s", "1500ms", "0s": in the largest unit that is exact; the longest of all is "forever".
[[nodiscard]] std::string to_text(std::chrono::nanoseconds length);

}  // namespace weir::detail
