#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

// What a program is told on its command line, as values, or a word on what is wrong with it.
namespace tool {

/// What is wrong with the command line, or with what it names, in one line.
class usage_error : public std::runtime_error {
    using runtime_error::runtime_error;
};

/// Throws `usage_error` that quotes the value, and says what it must be.
[[noreturn]] void reject(std::string const& option, std::string_view value, std::string_view must);

/// Throw like `reject`.
[[nodiscard]] std::int64_t integer(std::string const& option, std::string_view value,
                                   std::int64_t least, std::int64_t most);
[[nodiscard]] std::chrono::nanoseconds duration(
    std::string const& option, std::string_view value, std::chrono::nanoseconds least = {},
    std::chrono::nanoseconds most = std::chrono::hours(24));

}  // namespace tool
