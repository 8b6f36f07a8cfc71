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

// Removes the first character of a text, which may be encoded, if it is `wanted`. Returns whether it was.
bool skip(std::string_view& text, char wanted) noexcept {
    if (text.starts_with(wanted)) {
        text.remove_prefix(1);
        return true;
    }
    auto const high = text.size() >= 3 && text[0] == '%' ? hexadecimal(text[1]) : std::nullopt;
    auto const low = high ? hexadecimal(text[2]) : std::nullopt;
    if (!low || *high * 16 + *low != wanted)
        return false;
    text.remove_prefix(3);
    return true;
}

// Whether the text begins with a segment `.` or `..` that has parameters.
bool is_dots_with_parameters(std::string_view text) noexcept {
    if (!skip(text, '.'))
        return false;
    static_cast<void>(skip(text, '.'));
    return skip(text, ';');
}

}  // namespace

std::string percent_decoded(std::string_view text) {
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

bool is_ambiguous(std::string_view target) noexcept {
    if (target.find_first_of("#%;") == target.npos)
        return false;
    if (target.find('#') != target.npos)
        return true;
    auto path = target.substr(0, target.find('?'));
    for (auto at = path.find('%'); at != path.npos; at = path.find('%', at + 1))
        if (path.substr(at).starts_with("%00"))
            return true;
    while (!path.empty()) {
        if (skip(path, '/')) {
            if (is_dots_with_parameters(path))
                return true;
        } else {
            path.remove_prefix(1);
        }
    }
    return false;
}

std::string normal_path(std::string_view target) {
    if (!target.starts_with('/'))
        return std::string(target);
    auto const plain = percent_decoded(target.substr(0, target.find_first_of("?#")));
    std::string path;
    std::string_view rest = plain;
    while (!rest.empty()) {
        rest.remove_prefix(1);  // the slash
        auto const segment = rest.substr(0, rest.find('/'));
        rest.remove_prefix(segment.size());
        auto const name = segment.substr(0, segment.find(';'));
        if (name == "..")
            path.resize(path.empty() ? 0 : path.rfind('/'));
        else if (!name.empty() && name != ".")
            path.append("/").append(name);
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
