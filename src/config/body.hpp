#pragma once

#include "configuration.hpp"

#include <string>
#include <string_view>

namespace config {

/// What stands in a file that the configuration in the file `configuration` names. Throws `std::invalid_argument` that
/// says why it cannot be had.
[[nodiscard]] std::string read_body(std::string_view name, std::string_view configuration);

/// The media type that the extension of a file stands for; empty if that is not known.
[[nodiscard]] std::string type_by_name(std::string_view file);

}  // namespace config
