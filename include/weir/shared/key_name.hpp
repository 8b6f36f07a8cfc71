#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

namespace weir::inline v0_2::detail {

/// Keys that can be a part of a name at a store: texts and integers.
template <class Key>
concept namable = std::convertible_to<Key const&, std::string_view> ||
                  (std::integral<Key> && !std::same_as<Key, bool>);

/// Returns the name of a key of the shared limiter `limiter` at its store: `limiter:key`, or `limiter:#` and 32
/// hexadecimal digits, the SipHash-1-3 of the key with two seeds that depend on `limiter`.
///
/// The second form is for an empty key, for a key of more than 64 bytes or that begins with `#`, and for a key with a
/// brace or with bytes other than visible ASCII. So different keys have different names, and a log can show each name.
[[nodiscard]] std::string name_of_key(std::string_view limiter, std::string_view key);

/// Returns the name of the state that all keys share which have no place.
[[nodiscard]] std::string name_of_other_keys(std::string_view limiter);

template <namable Key>
[[nodiscard]] std::string name_of_key(std::string_view limiter, Key const& key)
    requires(!std::convertible_to<Key const&, std::string_view>)
{
    return name_of_key(limiter, std::string_view(std::to_string(key)));
}

/// Throws `std::invalid_argument` if `limiter` cannot be the name of a shared limiter by key: 1 to 190 bytes without a
/// colon.
void check_name_by_key(std::string_view limiter);

}  // namespace weir::inline v0_2::detail
