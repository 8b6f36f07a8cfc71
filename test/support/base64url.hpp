#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace support {

/// Encodes bytes as base64url without padding (RFC 4648, 5), as in a JSON Web Token.
[[nodiscard]] inline std::string base64url(std::string_view bytes) {
    constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t three = 0;
        for (std::size_t j = i; j != i + 3; ++j)
            three = three << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
        for (int j = 0; j != 4; ++j)
            text += digits[three >> (18 - 6 * j) & 63];
    }
    text.resize((bytes.size() * 4 + 2) / 3);
    return text;
}

}  // namespace support
