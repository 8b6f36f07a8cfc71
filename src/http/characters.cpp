#include "characters.hpp"

#include <cstdint>
#include <cstring>

namespace http {

std::size_t find_not_text(std::string_view text, std::size_t from) noexcept {
    using word = std::uint64_t;
    constexpr word each = 0x0101010101010101;
    constexpr word high = each * 0x80;
    // Words without a control character are skipped. A word with a tab is read character by character.
    for (; from < text.size() && text.size() - from >= sizeof(word); from += sizeof(word)) {
        word w;
        std::memcpy(&w, text.data() + from, sizeof(word));
        auto const is_del = w ^ each * 0x7f;  // a byte is 0 where the character is DEL
        if ((((w - each * ' ') & ~w) | ((is_del - each) & ~is_del)) & high) {
            for (std::size_t i = 0; i != sizeof(word); ++i)
                if (!is_text(text[from + i]))
                    return from + i;
        }
    }
    for (; from < text.size(); ++from)
        if (!is_text(text[from]))
            return from;
    return text.npos;
}

}  // namespace http
