#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace http {

/// A set of characters.
class characters {
public:
    template <class Belongs>
    constexpr explicit characters(Belongs belongs) noexcept {
        for (std::size_t u = 0; u < has_.size(); ++u)
            has_[u] = belongs(static_cast<char>(u));
    }
    [[nodiscard]] constexpr bool operator()(char c) const noexcept {
        return has_[static_cast<unsigned char>(c)];
    }

private:
    std::array<bool, 256> has_{};
};

inline constexpr characters is_digit([](char c) { return c >= '0' && c <= '9'; });
inline constexpr characters is_blank([](char c) { return c == ' ' || c == '\t'; });

/// The characters of a field value, a reason phrase, a chunk extension or a trailer: no control characters except tab
/// (RFC 9110, 5.5).
inline constexpr characters is_text([](char c) {
    return c == '\t' || (c != 0x7f && static_cast<unsigned char>(c) >= 0x20);
});

/// The characters of a target: more than RFC 3986 allows, because all servers accept them.
inline constexpr characters is_visible([](char c) { return is_text(c) && !is_blank(c); });

inline constexpr characters is_alphanumeric([](char c) {
    return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
});

/// The characters of a method, the name of a field or another token (RFC 9110, 5.6.2).
inline constexpr characters is_token([](char c) {
    return is_alphanumeric(c) ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
});

/// The characters of a Host (RFC 3986, 3.2): a name or an address, and a port.
inline constexpr characters is_host([](char c) {
    return is_alphanumeric(c) ||
           std::string_view("-._~!$&'()*+;=:[]%").find(c) != std::string_view::npos;
});

/// Whether each character of a text belongs to the set; true for an empty text.
[[nodiscard]] constexpr bool all(std::string_view text, characters const& set) noexcept {
    return std::all_of(text.begin(), text.end(), [&set](char c) { return set(c); });
}
/// Whether a text is not empty and each of its characters belongs to the set.
[[nodiscard]] constexpr bool some(std::string_view text, characters const& set) noexcept {
    return !text.empty() && all(text, set);
}

/// The position of the first character that does not belong to `is_text`, at or behind `from`; `npos` if there is none.
[[nodiscard]] std::size_t find_not_text(std::string_view text, std::size_t from = 0) noexcept;

/// The lower case of a letter of ASCII; other characters are unchanged.
[[nodiscard]] constexpr char to_lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
/// The upper case of a letter of ASCII; other characters are unchanged.
[[nodiscard]] constexpr char to_upper(char c) noexcept {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

/// Compares without regard to case, as HTTP compares names and tokens (RFC 9110, 5.1).
[[nodiscard]] bool iequals(std::string_view a, std::string_view b) noexcept;

/// Removes leading and trailing blanks.
[[nodiscard]] constexpr std::string_view trimmed(std::string_view text) noexcept {
    while (!text.empty() && is_blank(text.front()))
        text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back()))
        text.remove_suffix(1);
    return text;
}

}  // namespace http
