#include "head.hpp"

#include "characters.hpp"
#include "path.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>

namespace http {
namespace {

constexpr std::size_t max_target = 8000;

// Many programs read a length as a signed number.
constexpr std::uint64_t longest_body = std::numeric_limits<std::int64_t>::max();

constexpr fault no_request{400, "malformed request line"};

// ---- Lines and fields

// Removes the first line from `text` and returns it. Without a line end, it removes all of `text`.
std::string_view take_line(std::string_view& text) noexcept {
    auto const end = text.find("\r\n");
    auto const line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 2);
    return line;
}

bool is_version(std::string_view text) noexcept {
    return text.size() == 8 && text.starts_with("HTTP/") && is_digit(text[5]) && text[6] == '.' &&
           is_digit(text[7]);
}

// Reads all of `text` as a number of digits. Returns false if it is not a number or does not fit into `T`.
template <class T>
bool read_number(std::string_view text, T& out) noexcept {
    auto const* const last = text.data() + text.size();
    auto const [end, ec] = std::from_chars(text.data(), last, out);
    return ec == std::errc() && end == last;
}

// 11 for `HTTP/1.1`, 10 for `HTTP/1.0`, 0 for an unsupported version.
unsigned version_of(std::string_view text) noexcept {
    return text == "HTTP/1.1" ? 11 : text == "HTTP/1.0" ? 10 : 0;
}

bool set_method_and_target(request_head& out, std::string_view method,
                           std::string_view target) noexcept {
    out.method_name = method;
    out.method = beast::string_to_verb(method);
    out.target = target;
    return some(method, is_token) && some(target, is_visible);
}

fault read_first_line(std::string_view line, request_head& out) noexcept {
    auto const first = std::min(line.find(' '), line.size());
    auto const second = std::min(line.find(' ', first + 1), line.size());
    if (second == line.size())
        return no_request;
    auto const version = line.substr(second + 1);
    out.version = version_of(version);
    if (!set_method_and_target(
            out, line.substr(0, first), line.substr(first + 1, second - first - 1)) ||
        !is_version(version))
        return no_request;
    if (out.version == 0)
        return {505, "unsupported HTTP version"};
    return {};
}

// Reads a line such as `HTTP/1.1 200 OK`. The reason may be missing, with or without the blank before it.
bool read_first_line(std::string_view line, answer_head& out) noexcept {
    if (line.size() < 12 || line[8] != ' ' || (line.size() > 12 && line[12] != ' '))
        return false;
    out.version = version_of(line.substr(0, 8));
    out.reason = line.substr(std::min<std::size_t>(13, line.size()));
    return out.version != 0 && read_number(line.substr(9, 3), out.status) && out.status >= 100 &&
           find_not_text(out.reason) == out.reason.npos;
}

// Reads the header fields from `text`, which follows the first line.
fault read_fields(std::string_view text, head& out) {
    constexpr fault malformed{400, "malformed header field"};
    out.fields.clear();
    while (text != "\r\n") {
        std::size_t colon = 0;
        while (colon != text.size() && is_token(text[colon]))
            ++colon;
        if (colon == 0 || colon == text.size() || text[colon] != ':')
            return malformed;
        auto const end = find_not_text(text, colon + 1);
        if (end == text.npos || text.substr(end, 2) != "\r\n")
            return malformed;
        if (out.fields.size() == head::max_fields)
            return {431, "too many header fields"};
        auto const name = text.substr(0, colon);
        out.fields.push_back(
            {field_name_of(name), true, name, trimmed(text.substr(colon + 1, end - colon - 1))});
        text.remove_prefix(end + 2);
    }
    return {};
}

// ---- Rules for requests and responses

// Whether the field is hop-by-hop (RFC 9110, 7.6.1) or rewritten by the proxy.
bool only_for_this_hop(field const& f) noexcept {
    using enum field_name;
    switch (f.id) {
        case connection:
        case content_length:
        case http2_settings:
        case keep_alive:
        case proxy_authenticate:
        case proxy_authorization:
        case proxy_connection:
        case te:
        case trailer:
        case transfer_encoding:
        case upgrade:
            return true;
        default:
            return false;
    }
}

// Finds the fields that are not forwarded, and whether the connection stays open (RFC 9112, 9.3).
fault read_connection(head& h) noexcept {
    bool close = false;
    bool keep = false;
    bool upgrades = false;
    std::size_t names = 0;  // bounded, because each is compared with all fields
    for (auto& f : h.fields) {
        if (!only_for_this_hop(f))
            continue;
        f.goes_on = false;
        if (f.id != field_name::connection)
            continue;
        for (auto list = f.value; !list.empty();) {
            auto const comma = std::min(list.find(','), list.size());
            auto const token = trimmed(list.substr(0, comma));
            list.remove_prefix(std::min(comma + 1, list.size()));
            if (token.empty())
                continue;
            if (!some(token, is_token))
                return {400, "malformed Connection"};
            if (iequals(token, "close"))
                close = true;
            else if (iequals(token, "keep-alive"))
                keep = true;
            else if (iequals(token, "upgrade"))
                upgrades = true;
            else if (++names > head::max_fields)
                return {431, "too many names in Connection"};
            else
                for (auto& other : h.fields)
                    if (iequals(other.name, token))
                        other.goes_on = false;
        }
    }
    h.upgrades = upgrades && h.version >= 11;
    h.keep_alive = h.version < 11 ? keep && !close : !close;
    return {};
}

// Calls `f(protocol)` for each protocol in Upgrade, until `f` returns true.
template <class F>
void any_upgrade(head const& h, F f) noexcept {
    for (auto const& field : h.fields) {
        if (field.id != field_name::upgrade)
            continue;
        for (auto list = field.value; !list.empty();) {
            auto const comma = std::min(list.find(','), list.size());
            auto const protocol = trimmed(list.substr(0, comma));
            list.remove_prefix(std::min(comma + 1, list.size()));
            if (!protocol.empty() && f(protocol))
                return;
        }
    }
}

// Whether the response switches to exactly this protocol.
bool goes_over_to(answer_head const& answer, std::string_view protocol) noexcept {
    std::size_t others = 0;
    std::size_t same = 0;
    any_upgrade(answer, [&](std::string_view one) {
        ++(iequals(one, protocol) ? same : others);
        return false;
    });
    return answer.upgrades && same == 1 && others == 0;
}

// Finds the framing of the body. A Content-Length may be repeated with the same text (RFC 9112, 6.3); no other
// repetition is allowed.
fault read_framing(head& h) noexcept {
    h.body = framing::none;
    h.length = 0;
    std::string_view length;
    bool unknown_coding = false;
    for (auto const& f : h.fields) {
        bool const is_length = f.id == field_name::content_length;
        if (!is_length && f.id != field_name::transfer_encoding)
            continue;
        if (is_length && h.body == framing::length && f.value == length)
            continue;
        if (h.body != framing::none)
            return {400, "more than one Content-Length or Transfer-Encoding"};
        if (is_length) {
            h.body = framing::length;
            length = f.value;
            if (!read_number(length, h.length) || h.length > longest_body)
                return {400, "invalid Content-Length"};
        } else {
            h.body = framing::chunked;
            unknown_coding = !iequals(f.value, "chunked");
        }
    }
    if (h.body == framing::chunked && h.version < 11)
        return {400, "Transfer-Encoding in HTTP/1.0"};
    if (unknown_coding)
        return {501, "unsupported Transfer-Encoding: only chunked is supported"};
    return {};
}

// ---- Rules for requests

// Whether the text can be a Host. Servers and resolvers do not agree on empty labels (`a..b`) and on encoded characters
// outside an address in brackets.
bool is_authority(std::string_view text) noexcept {
    return some(text, is_host) && text.find("..") == text.npos &&
           (text.starts_with('[') || text.find('%') == text.npos);
}

std::string_view without_port_80(std::string_view host) noexcept {
    if (host.ends_with(":80"))
        host.remove_suffix(3);
    return host;
}

// Converts an absolute target (`http://host/path`) to origin form (RFC 9112, 3.2).
fault make_origin_form(request_head& out) noexcept {
    constexpr std::string_view scheme = "http://";
    auto& target = out.target;
    if (target.front() == '/' || (target == "*" && out.method == verb::options))
        return {};
    if (!iequals(target.substr(0, scheme.size()), scheme))
        return {400, "the request target is neither a path nor an http:// address"};
    auto const path = std::min(target.find_first_of("/?", scheme.size()), target.size());
    auto const authority = target.substr(scheme.size(), path - scheme.size());
    if (!is_authority(authority) ||
        (!out.host.empty() && !iequals(without_port_80(authority), without_port_80(out.host))))
        return {400, "the request target and Host differ"};
    out.host = authority;
    if (path == target.size())
        target = out.method == verb::options ? "*" : "/";
    else if (target[path] == '?')
        return {400, "the request target has no path"};
    else
        target.remove_prefix(path);
    return {};
}

// Checks the method and the target, after the host is known.
fault check_target(request_head& out) noexcept {
    if (out.method == verb::connect)
        return {501, "CONNECT is not supported"};
    if (out.target.size() > max_target)
        return {414, "the request target is too long"};
    if (auto const wrong = make_origin_form(out))
        return wrong;
    if (is_ambiguous(out.target))
        return {400, "servers may interpret the request target differently"};
    return {};
}

}  // namespace

fault head_scanner::look(std::string_view text) noexcept {
    constexpr auto ends_line = [](char c) { return c == '\r' || c == '\n' || c == '\0'; };
    // The first invalid byte decides, so the result does not depend on later bytes.
    while (size_ == 0) {
        if (line_ < text.size() && is_blank(text[line_]))
            return {400, "a header line starts with whitespace"};
        auto end = find_not_text(text, looked_);
        while (end != text.npos && !ends_line(text[end]))
            end = find_not_text(text, end + 1);
        looked_ = std::min(end, text.size());
        if (looked_ == text.size())
            return {};
        if (text[end] == '\0')
            return {400, "NUL in the header"};
        if (text[end] == '\n')
            return {400, "bare LF in the header"};
        if (end + 1 == text.size())
            return {};
        if (text[end + 1] != '\n')
            return {400, "bare CR in the header"};
        if (end == line_)
            size_ = end + 2;
        line_ = looked_ = end + 2;
    }
    return {};
}

fault parse(std::string_view text, request_head& out, underscores names) {
    out.size = text.size();
    if (auto const wrong = read_first_line(take_line(text), out))
        return wrong;
    if (auto const wrong = read_fields(text, out))
        return wrong;
    if (auto const wrong = read_connection(out))
        return wrong;
    if (auto const wrong = read_framing(out))
        return wrong;

    out.host = {};
    out.expects_continue = false;
    for (auto& f : out.fields) {
        switch (f.id) {
            case field_name::host:
                if (!out.host.empty())
                    return {400, "more than one Host"};
                if (!is_authority(f.value))
                    return {400, "invalid Host"};
                out.host = f.value;
                f.goes_on = false;
                break;
            case field_name::expect:
                if (!iequals(f.value, "100-continue"))
                    return {417, "unsupported Expect: only 100-continue is supported"};
                out.expects_continue = out.version >= 11;
                f.goes_on = false;
                break;
            default:
                if (names == underscores::drop && f.name.find('_') != f.name.npos)
                    f.goes_on = false;
                break;
        }
    }
    if (out.host.empty() && out.version >= 11)
        return {400, "missing Host"};
    return check_target(out);
}

fault readdress(request_head& out, std::string_view method, std::string_view target,
                std::string_view host) noexcept {
    out.host = host;
    if (!set_method_and_target(out, method, target))
        return no_request;
    if (!host.empty() && !is_authority(host))
        return {400, "invalid Host"};
    return check_target(out);
}

fault parse(std::string_view text, verb method, answer_head& out, std::string_view upgrade) {
    out.size = text.size();
    if (!read_first_line(take_line(text), out) || read_fields(text, out) || read_connection(out))
        return {502, "the upstream's response is not HTTP"};
    if (out.status == 101 && (upgrade.empty() || !goes_over_to(out, upgrade)))
        return {502, "the upstream switched protocols without an upgrade request"};
    auto const unclear = read_framing(out);
    if (method == verb::head || out.status < 200 || out.status == 204 || out.status == 304) {
        // Such a response has no body; its fields describe a body that is not sent. If they are ambiguous, the proxy
        // does not forward them, and closes the connection.
        if (unclear)
            out.keep_alive = false;
        else if (out.body == framing::length && out.status >= 200 && out.status != 204)
            std::ranges::find(out.fields, field_name::content_length, &field::id)->goes_on = true;
        out.body = framing::none;
        out.length = 0;
    } else if (unclear) {
        return {502, "the upstream's response has ambiguous framing"};
    } else if (out.body == framing::none) {
        out.body = framing::until_close;
    }
    return {};
}

std::string_view upgrade_among(head const& h, std::span<std::string const> known) noexcept {
    std::string_view found;
    if (h.upgrades)
        any_upgrade(h, [&](std::string_view protocol) {
            auto const same = [&](std::string const& one) { return iequals(one, protocol); };
            if (std::ranges::any_of(known, same))
                found = protocol;
            return !found.empty();
        });
    return found;
}

}  // namespace http
