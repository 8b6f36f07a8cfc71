#pragma once

#include "configuration.hpp"

#include <string>
#include <string_view>

namespace config {

/// Reads the file `name`, a path relative to the configuration file `configuration`. Throws `std::invalid_argument`
/// with the reason if it cannot read the file.
[[nodiscard]] std::string read_body(std::string_view name, std::string_view configuration);

/// The media type for the extension of a file; empty if the extension is unknown.
[[nodiscard]] std::string type_by_name(std::string_view file);

}  // namespace config
