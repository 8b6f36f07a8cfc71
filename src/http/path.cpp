#include "path.hpp"

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <cstddef>
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

// The position of the first slash of a text, which may be encoded, or its size.
std::size_t next_slash(std::string_view text) noexcept {
    auto const size = text.size();
    for (; !text.empty(); text.remove_prefix(1)) {
        auto rest = text;
        if (skip(rest, '/'))
            break;
    }
    return size - text.size();
}

// Whether the text begins with a segment `.` or `..` that has parameters.
bool is_dots_with_parameters(std::string_view text) noexcept {
    if (!skip(text, '.'))
        return false;
    static_cast<void>(skip(text, '.'));
    return skip(text, ';');
}

// Some servers find `/admin` by the name `/admin.`. A name of dots alone is unchanged.
std::string_view without_dots_at_end(std::string_view name) noexcept {
    auto const last = name.find_last_not_of('.');
    return last == name.npos ? name : name.substr(0, last + 1);
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
            path.append("/").append(without_dots_at_end(name));
    }
    return path.empty() ? "/" : path;
}

bool begins_with(std::string_view path, std::string_view prefix) noexcept {
    while (prefix.ends_with('/'))
        prefix.remove_suffix(1);
    return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

std::size_t count_segments(std::string_view path) noexcept {
    auto const slashes = static_cast<std::size_t>(std::ranges::count(path, '/'));
    return path.ends_with('/') ? slashes - 1 : slashes;
}

void replace_prefix(std::string& out, std::string_view target, std::size_t count,
                    std::string_view prefix) {
    if (!target.starts_with('/')) {
        out.assign(target);
        return;
    }
    auto path = target.substr(0, target.find('?'));
    auto const query = target.substr(path.size());
    boost::container::small_vector<std::string_view, 32> segments;  // each with the slash before it
    bool is_folder = false;  // a slash follows the last segment
    while (!path.empty()) {
        auto rest = path;
        static_cast<void>(skip(rest, '/'));
        auto const segment = rest.substr(0, next_slash(rest));
        auto const whole = path.substr(0, path.size() - rest.size() + segment.size());
        path.remove_prefix(whole.size());
        auto const plain = percent_decoded(segment);
        auto const name = std::string_view(plain).substr(0, plain.find(';'));
        is_folder = name.empty() || name == "." || name == "..";
        if (!is_folder)
            segments.push_back(whole);
        else if (name == ".." && !segments.empty())
            segments.pop_back();
    }
    out.assign(prefix == "/" ? "" : prefix);
    for (auto i = count; i < segments.size(); ++i) {
        auto segment = segments[i];
        if (i == count && skip(segment, '/'))  // which may be encoded
            out.append("/");
        out.append(segment);
    }
    if (out.empty() || is_folder)
        out.append("/");
    out.append(query);
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
