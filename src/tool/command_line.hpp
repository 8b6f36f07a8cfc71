#pragma once

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tool {

/// What is wrong with the command line, in one line.
class usage_error : public std::runtime_error {
    using runtime_error::runtime_error;
};

/// Throws `usage_error`: "`option` is `value`, but must be `must`".
[[noreturn]] void reject(std::string_view option, std::string_view value, std::string_view must);

/// An option of a program. All that is known of it is its row in a table of these.
struct option {
    std::string_view name;
    std::string_view argument;  // what stands for it in the help; empty: it takes none
    std::string_view help;
    std::function<void(std::string_view name, std::string_view value)> set;
};

/// Sets what the words say: `--name value`, `--name=value`. Each option is given at most once. Throws
/// `usage_error`.
void parse(std::span<char const* const> words, std::span<option const> all);

/// A line for each option.
[[nodiscard]] std::string describe(std::span<option const> all);

}  // namespace tool
