#pragma once

#include <string_view>

namespace tool {

/// The version of the project and its programs, such as `0.1.0`.
inline constexpr std::string_view version = WEIR_VERSION;

}  // namespace tool
