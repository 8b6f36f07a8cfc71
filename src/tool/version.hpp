#pragma once

#include <string_view>

namespace tool {

/// Of the project, which is that of its programs: `0.1.0`.
inline constexpr std::string_view version = WEIR_VERSION;

}  // namespace tool
