#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace weir::inline v0_2::detail {

/// An instant of the wall clock. Its range is millions of years, so that no number of a field overflows.
using wall_time = std::chrono::sys_time<std::chrono::milliseconds>;

/// Reads a date in one of the three forms of HTTP (RFC 9110, section 5.6.7). A two-digit year is the one that is at most
/// 50 years after `now`.
[[nodiscard]] std::optional<wall_time> read_http_date(std::string_view text,
                                                      wall_time now) noexcept;

/// Reads an ISO 8601 date and time with a zone, such as `2026-11-23T11:00:05.5+01:00`.
[[nodiscard]] std::optional<wall_time> read_iso_time(std::string_view text) noexcept;

/// Reads a duration in the text form of Go, such as `1h2m3.5s`, rounded up to milliseconds.
[[nodiscard]] std::optional<std::chrono::milliseconds> read_go_duration(
    std::string_view text) noexcept;

/// Reads a number of seconds with up to 15 digits before the point, rounded up to milliseconds.
[[nodiscard]] std::optional<std::chrono::milliseconds> read_seconds(std::string_view text) noexcept;

}  // namespace weir::inline v0_2::detail
