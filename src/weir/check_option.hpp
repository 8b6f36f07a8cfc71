#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace weir::inline v0_2::detail {

/// Throws `std::invalid_argument` that names the limiter, the option, its value and the bound, unless `least <= value
/// <= most`.
///
/// `above` is appended to the message if the value is too large. The message has no upper bound if `most` is the largest
/// value of its type.
void check_option(std::string_view where, std::string_view option, std::int64_t value,
                  std::int64_t least, std::int64_t most, std::string_view above = "");
/// Throws `std::invalid_argument` unless `least <= value <= most`.
void check_option(std::string_view where, std::string_view option, double value, double least,
                  double most);

/// Checks a duration. The message has values such as `500ms`, and no upper bound if there is none.
void check_duration(std::string_view where, std::string_view option, std::chrono::nanoseconds value,
                    std::chrono::nanoseconds least,
                    std::chrono::nanoseconds most = std::chrono::nanoseconds::max());

/// Checks an option against bounds of other integer types: `nanoseconds::rep` is `long long` in libc++, where
/// `std::int64_t` may be `long`.
template <std::integral Value, std::integral Least, std::integral Most>
void check_option(std::string_view where, std::string_view option, Value value, Least least,
                  Most most, std::string_view above = "") {
    check_option(where, option, static_cast<std::int64_t>(value), static_cast<std::int64_t>(least),
                 static_cast<std::int64_t>(most), above);
}

/// Checks an enumeration whose first value is 0.
template <class Enum>
    requires std::is_enum_v<Enum>
void check_option(std::string_view where, std::string_view option, Enum value, Enum last) {
    check_option(where, option, static_cast<std::int64_t>(value), 0,
                 static_cast<std::int64_t>(last));
}

}  // namespace weir::inline v0_2::detail
