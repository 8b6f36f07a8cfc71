#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Makes messages of a ClientHello from the words of RFC 8446, 4.1.2, and RFC 6066, 3; also wrong ones.
namespace hello {

/// A number in the order of the network.
inline std::string number(std::size_t n, std::size_t size) {
    std::string out;
    for (; size > 0; --size)
        out += static_cast<char>(n >> (8 * (size - 1)) & 255);
    return out;
}
/// Bytes after their number, which has `size` bytes.
inline std::string vector(std::string_view content, std::size_t size) {
    return number(content.size(), size) + std::string(content);
}

struct message {
    std::string session = std::string(32, 's');
    std::string ciphers = "\x13\x01\x13\x02";
    std::string compressions = std::string(1, '\0');
    std::vector<std::pair<std::size_t, std::string>> extensions = {};
    bool has_extensions = true;

    [[nodiscard]] std::string body() const {
        auto out = "\x03\x03" + std::string(32, 'r') + vector(session, 1) + vector(ciphers, 2) +
                   vector(compressions, 1);
        std::string all;
        for (auto const& [type, content] : extensions)
            all += number(type, 2) + vector(content, 2);
        return has_extensions ? out + vector(all, 2) : out;
    }
    [[nodiscard]] std::string text() const { return '\x01' + vector(body(), 3); }
};

/// A name of a list of names, and the extension with such a list.
inline std::string name(std::string_view text, char type = 0) {
    return std::string(1, type) + vector(text, 2);
}
inline std::string names(std::string_view all) {
    return vector(all, 2);
}

inline message asks_for(std::string_view server) {
    return {.extensions = {{0x1a1a, ""}, {43, "\x02\x03\x04"}, {0, names(name(server))}}};
}

}  // namespace hello
