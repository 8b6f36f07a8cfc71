#pragma once

#include <string_view>

namespace weir::inline v0_2::agent::detail {

/// Throws `std::invalid_argument` unless `path` can be the path of a local socket. `where` names the caller.
void check_path(std::string_view where, std::string_view path);

}  // namespace weir::inline v0_2::agent::detail
