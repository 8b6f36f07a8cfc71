#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace weir::detail {

/// Throws `std::invalid_argument`, naming limiter, option, value and bound, unless
/// `least <= value <= most`.
/// `above` is added to what is said of a value that is too large.
void check_option(std::string_view where, std::string_view option, std::int64_t value,
                  std::int64_t least, std::int64_t most, std::string_view above = "");
void check_option(std::string_view where, std::string_view option, double value, double least,
                  double most);

/// Checks an option against bounds of other integer types: `nanoseconds::rep` is `long long` in libc++, where
/// `std::int64_t` may be `long`.
template <std::integral Value, std::integral Least, std::integral Most>
void check_option(std::string_view where, std::string_view option, Value value, Least least,
                  Most most, std::string_view above = "") {
    check_option(where, option, static_cast<std::int64_t>(value), static_cast<std::int64_t>(least),
                 static_cast<std::int64_t>(most), above);
}

/// The same for an enumeration that begins with 0.
template <class Enum>
    requires std::is_enum_v<Enum>
void check_option(std::string_view where, std::string_view option, Enum value, Enum last) {
    check_option(where, option, static_cast<std::int64_t>(value), 0,
                 static_cast<std::int64_t>(last));
}

}  // namespace weir::detail
