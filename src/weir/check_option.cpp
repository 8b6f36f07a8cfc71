#include "check_option.hpp"

#include "duration_text.hpp"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

namespace weir::inline v0_2::detail {
namespace {

template <class T>
void check(std::string_view where, std::string_view option, T value, T least, T most,
           std::string_view above = "") {
    if (value >= least && value <= most)
        return;
    auto const bounds = most == std::numeric_limits<T>::max()
                            ? fmt::format("at least {}", least)
                            : fmt::format("from {} to {}", least, most);
    throw std::invalid_argument(fmt::format("weir::{}: {} is {}, but must be {}{}", where, option,
                                            value, bounds, value > most ? above : ""));
}

}  // namespace

void check_option(std::string_view where, std::string_view option, std::int64_t value,
                  std::int64_t least, std::int64_t most, std::string_view above) {
    check(where, option, value, least, most, above);
}

void check_option(std::string_view where, std::string_view option, double value, double least,
                  double most) {
    check(where, option, value, least, most);
}

void check_duration(std::string_view where, std::string_view option, std::chrono::nanoseconds value,
                    std::chrono::nanoseconds least, std::chrono::nanoseconds most) {
    if (value >= least && value <= most)
        return;
    auto const bounds = most == std::chrono::nanoseconds::max()
                            ? "at least " + to_text(least)
                            : fmt::format("from {} to {}", to_text(least), to_text(most));
    throw std::invalid_argument(
        fmt::format("weir::{}: {} is {}, but must be {}", where, option, to_text(value), bounds));
}

}  // namespace weir::inline v0_2::detail
