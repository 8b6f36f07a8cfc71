#include "duration_text.hpp"

namespace weir::inline v0_2::detail {

std::string to_text(std::chrono::nanoseconds length) {
    auto const count = length.count();
    if (count == 0)
        return "0s";
    if (length == length.max())
        return "forever";
    for (auto const& unit : time_units) {
        if (count % unit.nanoseconds == 0)
            return std::to_string(count / unit.nanoseconds).append(unit.name);
    }
    return {};  // every whole number of nanoseconds divides by one
}

}  // namespace weir::inline v0_2::detail
