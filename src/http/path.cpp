#include "path.hpp"

#include <optional>

namespace http {
namespace {

std::optional<int> hexadecimal(char c) noexcept {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return std::nullopt;
}

std::string decoded(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto const high =
            text[i] == '%' && i + 2 < text.size() ? hexadecimal(text[i + 1]) : std::nullopt;
        auto const low = high ? hexadecimal(text[i + 2]) : std::nullopt;
        if (low) {
            plain += static_cast<char>(*high * 16 + *low);
            i += 2;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

}  // namespace

std::string normal_path(std::string_view target) {
    if (!target.starts_with('/'))
        return std::string(target);
    auto const plain = decoded(target.substr(0, target.find_first_of("?#")));
    std::string path;
    std::string_view rest = plain;
    while (!rest.empty()) {
        rest.remove_prefix(1);  // the slash
        auto const segment = rest.substr(0, rest.find('/'));
        rest.remove_prefix(segment.size());
        if (segment == "..")
            path.resize(path.empty() ? 0 : path.rfind('/'));
        else if (!segment.empty() && segment != ".")
            path.append("/").append(segment);
    }
    return path.empty() ? "/" : path;
}

bool begins_with(std::string_view path, std::string_view prefix) noexcept {
    while (prefix.ends_with('/'))
        prefix.remove_suffix(1);
    return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

std::string_view segment_of(std::string_view path, std::int64_t n) {
    for (; n > 0 && !path.empty(); --n) {
        path.remove_prefix(1);  // the slash before it
        auto const end = path.find('/');
        if (n == 1)
            return path.substr(0, end);
        path.remove_prefix(end == path.npos ? path.size() : end);
    }
    return {};
}

}  // namespace http
