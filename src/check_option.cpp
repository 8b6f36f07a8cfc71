#include "check_option.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace weir::detail {

void check_option(std::string_view where, std::string_view option, std::int64_t value,
                  std::int64_t least, std::int64_t most) {
    if (value >= least && value <= most)
        return;
    throw std::invalid_argument(fmt::format(
        "weir::{}: {} is {}, but must be from {} to {}", where, option, value, least, most));
}

}  // namespace weir::detail
