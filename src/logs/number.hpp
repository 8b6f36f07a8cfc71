#pragma once

#include "tool/text.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace logs {

/// Parses a status of three digits; empty for any other text.
[[nodiscard]] inline std::optional<unsigned> status_of(std::string_view text) noexcept {
    if (text.size() != 3)
        return {};
    unsigned n = 0;
    for (char const c : text) {
        if (c < '0' || c > '9')
            return {};
        n = 10 * n + static_cast<unsigned>(c - '0');
    }
    return n;
}

/// Parses a number of bytes up to 10^12, where `-` is 0, as in the common log format; empty for any other text.
[[nodiscard]] inline std::optional<std::uint64_t> size_of(std::string_view text) {
    if (text == "-")
        return 0;
    auto const n = tool::number_of(text);
    return n && *n <= 1'000'000'000'000 ? std::optional(static_cast<std::uint64_t>(*n))
                                        : std::nullopt;
}

/// Parses a decimal number of units, such as `1.25`; empty if the text is not a number or the time exceeds a day.
[[nodiscard]] inline std::optional<std::chrono::nanoseconds> time_in(std::chrono::nanoseconds unit,
                                                                     std::string_view text) {
    auto const n = tool::decimal_of(text);
    auto const ns = n.value_or(-1) * static_cast<double>(unit.count());
    if (!(ns >= 0) || ns > 86'400e9)
        return {};
    return std::chrono::nanoseconds(std::llround(ns));
}

}  // namespace logs
