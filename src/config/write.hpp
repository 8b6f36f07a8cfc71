#pragma once

#include "configuration.hpp"

#include <string>

namespace config {

/// Formats a configuration as TOML from which `read` parses the same values. Members with their default are left out.
[[nodiscard]] std::string write(configuration const& c);

}  // namespace config
