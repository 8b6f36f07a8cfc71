#pragma once

#include "entry.hpp"
#include "format.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace logs {

/// A part of a pattern: a variable, and the text that stands behind it.
struct variable {
    std::string name;
    std::string behind;
};

/// The variables of a pattern such as `$remote_addr [$time_local] "$request"`, the first of which has no name and
/// stands for the text before all others. Throws `std::invalid_argument` if two stand side by side.
[[nodiscard]] std::vector<variable> variables_of(std::string_view pattern);

/// What `log_format name 'a' 'b';` stands for; any other text is returned as it is.
[[nodiscard]] std::string plain_pattern(std::string_view text);

/// Reads lines of a pattern. Throws `std::invalid_argument` if it has none of `keys`, or no time.
[[nodiscard]] std::unique_ptr<line_reader> make_pattern_reader(
    std::string_view pattern, stamped when, std::vector<key_source> const& keys);

}  // namespace logs
