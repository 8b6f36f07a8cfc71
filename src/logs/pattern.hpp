#pragma once

#include "entry.hpp"
#include "format.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace logs {

/// A part of a pattern: a variable and the text after it.
struct variable {
    std::string name;
    std::string behind;
};

/// The variables of a pattern such as `$remote_addr [$time_local] "$request"`. The first one has no name; its `behind`
/// is the text before all others. Throws `std::invalid_argument` if no text separates two variables.
[[nodiscard]] std::vector<variable> variables_of(std::string_view pattern);

/// The pattern in a directive `log_format name 'a' 'b';`; returns any other text unchanged.
[[nodiscard]] std::string plain_pattern(std::string_view text);

/// Creates a reader for lines with this pattern. Throws `std::invalid_argument` if the pattern lacks one of `keys` or a
/// time.
[[nodiscard]] std::unique_ptr<line_reader> make_pattern_reader(
    std::string_view pattern, stamped when, std::vector<key_source> const& keys);

}  // namespace logs
