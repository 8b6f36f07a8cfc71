#pragma once

#include <cstdint>
#include <string_view>

namespace weir::detail {

/// Throws `std::invalid_argument`, naming limiter, option, value and bound, unless
/// `least <= value <= most`.
void check_option(std::string_view where, std::string_view option, std::int64_t value,
                  std::int64_t least, std::int64_t most);

}  // namespace weir::detail
