#pragma once

#include "configuration.hpp"

#include <string>

namespace config {

/// The text in TOML of which `read` makes the same. What has its default is left out.
[[nodiscard]] std::string write(configuration const& c);

}  // namespace config
