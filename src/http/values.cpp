#include "values.hpp"

#include "characters.hpp"
#include "path.hpp"

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace http {
namespace {

// Removes the text up to the first separator from `rest`, and returns it.
std::string_view cut(std::string_view& rest, char separator) noexcept {
    auto const end = std::min(rest.find(separator), rest.size());
    auto const part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return part;
}

void note(named_value& found, std::string value) {
    if (found.count++ == 0)
        found.value = std::move(value);
}

// Decodes base64url without padding (RFC 7515, 2). Empty if the text is invalid.
std::optional<std::string> from_base64url(std::string_view text) {
    if (text.size() % 4 == 1)
        return std::nullopt;
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3 + 2);
    unsigned bits = 0;
    int known = 0;
    for (char const c : text) {
        unsigned digit = 0;
        if (c >= 'A' && c <= 'Z')
            digit = static_cast<unsigned>(c - 'A');
        else if (c >= 'a' && c <= 'z')
            digit = static_cast<unsigned>(c - 'a' + 26);
        else if (c >= '0' && c <= '9')
            digit = static_cast<unsigned>(c - '0' + 52);
        else if (c == '-')
            digit = 62;
        else if (c == '_')
            digit = 63;
        else
            return std::nullopt;
        bits = (bits << 6 | digit) & 0xffff;
        known += 6;
        if (known >= 8) {
            known -= 8;
            bytes += static_cast<char>(bits >> known & 0xff);
        }
    }
    return bytes;
}

}  // namespace

std::string_view name_of_host(std::string_view host) noexcept {
    auto const colon = host.rfind(':');
    if (colon != host.npos && host.find(']', colon) == host.npos)
        host = host.substr(0, colon);
    if (host.ends_with('.'))
        host.remove_suffix(1);
    return host;
}

std::size_t count_lines(head const& h, std::string_view name) noexcept {
    return static_cast<std::size_t>(std::ranges::count_if(h.fields, [&](field const& f) {
        return f.goes_on && iequals(f.name, name);
    }));
}

named_value cookie_of(head const& h, std::string_view name) {
    named_value found;
    for (auto const& f : h.fields) {
        if (!f.goes_on || !iequals(f.name, "cookie"))
            continue;
        for (auto rest = f.value; !rest.empty();) {
            auto value = cut(rest, ';');
            if (value.find('=') == value.npos || trimmed(cut(value, '=')) != name)
                continue;
            value = trimmed(value);
            if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"'))
                value = value.substr(1, value.size() - 2);
            note(found, percent_decoded(value));
        }
    }
    return found;
}

named_value parameter_of(std::string_view target, std::string_view name) {
    auto const decoded = [](std::string_view text) {
        std::string plain(text);
        std::ranges::replace(plain, '+', ' ');
        return percent_decoded(plain);
    };
    named_value found;
    auto rest = target.substr(0, target.find('#'));
    cut(rest, '?');
    while (!rest.empty()) {
        auto value = cut(rest, '&');
        if (decoded(cut(value, '=')) == name)
            note(found, decoded(value));
    }
    return found;
}

std::string claim_of(std::string_view authorization, std::string_view name) {
    namespace json = boost::json;
    constexpr std::string_view scheme = "Bearer ";
    if (!iequals(authorization.substr(0, scheme.size()), scheme))
        return {};
    auto token = trimmed(authorization.substr(scheme.size()));
    if (std::ranges::count(token, '.') != 2)
        return {};
    cut(token, '.');
    auto const payload = from_base64url(cut(token, '.'));
    if (!payload)
        return {};
    // The parser bounds the depth, and the size of a head bounds the memory.
    std::array<unsigned char, 4096> first;
    json::monotonic_resource memory(first.data(), first.size());
    boost::system::error_code bad;
    auto const claims = json::parse(*payload, bad, &memory);
    if (bad || !claims.is_object())
        return {};
    auto const* const claim = claims.get_object().if_contains(name);
    if (!claim)
        return {};
    if (auto const* const text = claim->if_string())
        return std::string(text->data(), text->size());
    if (auto const* const number = claim->if_int64())
        return std::to_string(*number);
    if (auto const* const number = claim->if_uint64())
        return std::to_string(*number);
    return {};
}

std::string claim_of(head const& h, std::string_view name) {
    for (auto const& f : h.fields)
        if (f.goes_on && iequals(f.name, "authorization"))
            return claim_of(f.value, name);
    return {};
}

}  // namespace http
