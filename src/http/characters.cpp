#include "characters.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

namespace http {
namespace {

// Eight characters; the first one is the lowest byte.
using word = std::uint64_t;
constexpr word each_byte = 0x0101010101010101;
constexpr word high_bits = each_byte * 0x80;

// Precondition: eight characters at `text`, or four.
template <class Bits>
word load(char const* text) noexcept {
    Bits w;
    std::memcpy(&w, text, sizeof(w));
    if constexpr (std::endian::native == std::endian::big)
        w = sizeof(w) == 8 ? __builtin_bswap64(w) : __builtin_bswap32(w);
    return w;
}

// The high bit of each byte that is a control character or DEL. Above a byte that is one, some others have it, too.
word controls_of(word w) noexcept {
    auto const is_del = w ^ each_byte * 0x7f;  // a byte is 0 where the character is DEL
    return (((w - each_byte * ' ') & ~w) | ((is_del - each_byte) & ~is_del)) & high_bits;
}

// Compares as many characters as `Bits` has bytes, at `i`, without regard to case.
template <class Bits>
bool iequal_at(std::size_t i, std::string_view a, std::string_view b) noexcept {
    auto const x = load<Bits>(a.data() + i);
    auto const y = load<Bits>(b.data() + i);
    auto const lower = x | each_byte * 0x20;
    auto const seven = lower & ~high_bits;
    auto const letters = (seven + each_byte * (0x80 - 'a')) & ~(seven + each_byte * (0x7f - 'z')) &
                         ~lower & high_bits;
    return ((x ^ y) & ~(letters >> 2)) == 0;
}

}  // namespace

std::size_t find_not_text(std::string_view text, std::size_t from) noexcept {
    while (from < text.size() && text.size() - from >= sizeof(word)) {
        auto const controls = controls_of(load<word>(text.data() + from));
        if (controls == 0) {
            from += sizeof(word);
            continue;
        }
        from += static_cast<std::size_t>(std::countr_zero(controls)) / 8;
        if (text[from] != '\t')
            return from;
        ++from;
    }
    for (; from < text.size(); ++from)
        if (!is_text(text[from]))
            return from;
    return text.npos;
}

bool iequals(std::string_view a, std::string_view b) noexcept {
    auto const n = a.size();
    if (n != b.size())
        return false;
    if (n >= 8) {
        // The last characters first: names often have the same beginning, such as `X-Forwarded-`.
        if (!iequal_at<std::uint64_t>(n - 8, a, b))
            return false;
        for (std::size_t i = 0; i + 8 < n; i += 8)
            if (!iequal_at<std::uint64_t>(i, a, b))
                return false;
        return true;
    }
    if (n >= 4)
        return iequal_at<std::uint32_t>(0, a, b) && iequal_at<std::uint32_t>(n - 4, a, b);
    for (std::size_t i = 0; i != n; ++i)
        if (to_lower(a[i]) != to_lower(b[i]))
            return false;
    return true;
}

}  // namespace http
