#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Parsers and formatters of values on a command line or in a file. A parser returns nothing for an invalid text.
namespace tool {

/// Parses a whole number of at least 0, written in digits only.
[[nodiscard]] std::optional<std::int64_t> number_of(std::string_view text);

/// Parses a finite number such as `0.25`, `-1` or `1e-3`, in any locale.
[[nodiscard]] std::optional<double> decimal_of(std::string_view text);

/// Parses `10s`, `500ms`, `2min`: a whole number and a unit, `ns`, `us`, `ms`, `s`, `min` or `h`.
[[nodiscard]] std::optional<std::chrono::nanoseconds> time_of(std::string_view text);

/// Converts a duration to seconds.
[[nodiscard]] constexpr double seconds(std::chrono::nanoseconds t) noexcept {
    return std::chrono::duration<double>(t).count();
}

/// Formats a duration of at least 0 for `time_of`, in the largest unit in which it is a whole number.
[[nodiscard]] std::string to_text(std::chrono::nanoseconds t);

/// Formats an instant: `2024-05-01T12:00:00.123Z`.
[[nodiscard]] std::string to_text(std::chrono::system_clock::time_point t);

struct host_and_port {
    std::string host;
    std::string port;
};

/// Parses `127.0.0.1:80`, `[::1]:80` or `name:80`. The port is a number from 0 to 65535.
[[nodiscard]] std::optional<host_and_port> address_of(std::string_view text);

/// Decodes the escapes in a part of a URL: `%40` is `@`.
[[nodiscard]] std::optional<std::string> unescaped(std::string_view text);

[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// Whether a character is printable ASCII and needs no escape between quotes.
[[nodiscard]] constexpr bool is_plain(char c) noexcept {
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/// Appends a text to `out`: plain characters unchanged, and each other character by `escape(char)`, which appends its
/// escape sequence.
template <class Escape>
void append_escaped(std::string& out, std::string_view text, Escape escape) {
    for (;;) {
        auto const special = std::ranges::find_if_not(text, is_plain);
        out.append(text.begin(), special);
        if (special == text.end())
            return;
        escape(*special);
        text.remove_prefix(static_cast<std::size_t>(special - text.begin()) + 1);
    }
}

}  // namespace tool
