#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

// Values of command line options, and errors about them.
namespace tool {

/// An error of the command line, or of a file that it names. The message has one line.
class usage_error : public std::runtime_error {
    using runtime_error::runtime_error;
};

/// Throws `usage_error` with the option, the value and a description of the valid values.
[[noreturn]] void reject(std::string const& option, std::string_view value, std::string_view must);

/// Parses a whole number from `least` to `most`. Throws as `reject` does.
[[nodiscard]] std::int64_t integer(std::string const& option, std::string_view value,
                                   std::int64_t least, std::int64_t most);
/// Parses a duration from `least` to `most`, such as `500ms`. Throws as `reject` does.
[[nodiscard]] std::chrono::nanoseconds duration(
    std::string const& option, std::string_view value, std::chrono::nanoseconds least = {},
    std::chrono::nanoseconds most = std::chrono::hours(24));

}  // namespace tool
