#include <weir/key_hash.hpp>
#include <weir/shared/key_name.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace weir::inline v0_2::detail {
namespace {

constexpr std::size_t longest_key = 64;
constexpr std::size_t longest_name = 255;

bool is_fit(std::string_view key) noexcept {
    return !key.empty() && key.size() <= longest_key && key.front() != '#' &&
           std::ranges::all_of(key, [](char c) {
               return c > ' ' && c <= '~' && c != '{' && c != '}';
           });
}

void append_hex(std::string& to, std::uint64_t n) {
    constexpr std::string_view digits = "0123456789abcdef";
    for (int shift = 60; shift >= 0; shift -= 4)
        to += digits[n >> shift & 15];
}

}  // namespace

std::string name_of_key(std::string_view limiter, std::string_view key) {
    std::string name;
    name.reserve(limiter.size() + 1 + longest_key);
    name.append(limiter).append(1, ':');
    if (is_fit(key)) {
        name.append(key);
        return name;
    }
    key_hash const hash;
    auto const of_limiter = hash(hash_seed(), limiter);
    name.append(1, '#');
    append_hex(name, hash(hash_seed{of_limiter, 1}, key));
    append_hex(name, hash(hash_seed{of_limiter, 2}, key));
    return name;
}

std::string name_of_other_keys(std::string_view limiter) {
    return std::string(limiter).append(1, ':');
}

void check_name_by_key(std::string_view limiter) {
    check_option("shared_keyed", "length of name in bytes",
                 static_cast<std::int64_t>(limiter.size()), std::int64_t{1},
                 static_cast<std::int64_t>(longest_name - 1 - longest_key));
    if (limiter.find(':') != std::string_view::npos)
        throw std::invalid_argument(
            "weir::shared_keyed: the name contains a colon, which separates it from the keys");
}

}  // namespace weir::inline v0_2::detail
