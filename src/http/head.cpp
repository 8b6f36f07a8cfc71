#include "head.hpp"

#include "characters.hpp"

#include <algorithm>
#include <charconv>

namespace http {
namespace {

constexpr std::size_t max_target = 8000;

constexpr fault no_request{400, "the first line is no request"};

// ---- What is where

// Takes the first line off `text`; what it leaves there is empty if no line ends.
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

// Whether all of `text` is a number that fits; digits only.
template <class T>
bool read_number(std::string_view text, T& out) noexcept {
    auto const* const last = text.data() + text.size();
    auto const [end, ec] = std::from_chars(text.data(), last, out);
    return ec == std::errc() && end == last;
}

// 11 for `HTTP/1.1`, 10 for `HTTP/1.0`; 0 for what is not spoken here.
unsigned version_of(std::string_view text) noexcept {
    return text == "HTTP/1.1" ? 11 : text == "HTTP/1.0" ? 10 : 0;
}

fault read_first_line(std::string_view line, request_head& out) noexcept {
    auto const first = std::min(line.find(' '), line.size());
    auto const second = std::min(line.find(' ', first + 1), line.size());
    if (second == line.size())
        return no_request;
    out.method_name = line.substr(0, first);
    out.method = beast::string_to_verb(out.method_name);
    out.target = line.substr(first + 1, second - first - 1);
    auto const version = line.substr(second + 1);
    out.version = version_of(version);
    if (!some(out.method_name, is_token) || !some(out.target, is_visible) || !is_version(version))
        return no_request;
    if (out.version == 0)
        return {505, "only HTTP/1.1 and HTTP/1.0 are spoken here"};
    return {};
}

// `HTTP/1.1 200 OK`, where the reason may be missing, and then the blank before it as well.
bool read_first_line(std::string_view line, answer_head& out) noexcept {
    if (line.size() < 12 || line[8] != ' ' || (line.size() > 12 && line[12] != ' '))
        return false;
    out.version = version_of(line.substr(0, 8));
    out.reason = line.substr(std::min<std::size_t>(13, line.size()));
    return out.version != 0 && read_number(line.substr(9, 3), out.status) && out.status >= 100 &&
           all(out.reason, is_text);
}

// `text` is what follows the first line.
fault read_fields(std::string_view text, head& out) noexcept {
    out.fields.clear();
    while (text != "\r\n") {
        auto const line = take_line(text);
        auto const colon = line.find(':');
        auto const name = line.substr(0, colon);
        if (text.empty() || colon == line.npos || !some(name, is_token))
            return {400, "a header field is wrong"};
        auto const value = trimmed(line.substr(colon + 1));
        if (!all(value, is_text))
            return {400, "a header field is wrong"};
        if (out.fields.size() == head::max_fields)
            return {431, "too many header fields"};
        out.fields.push_back({beast::string_to_field(name), true, name, value});
    }
    return {};
}

// ---- Rules for both

// What is only for this hop (RFC 9110, 7.6.1), and what is written anew.
bool only_for_this_hop(field const& f) noexcept {
    switch (f.id) {
        case beast::field::connection:
        case beast::field::proxy_connection:
        case beast::field::keep_alive:
        case beast::field::te:
        case beast::field::trailer:
        case beast::field::transfer_encoding:
        case beast::field::upgrade:
        case beast::field::proxy_authenticate:
        case beast::field::proxy_authorization:
        case beast::field::content_length:
            return true;
        default:
            return iequals(f.name, "http2-settings");  // which Beast does not know in Boost 1.90
    }
}

// Tells what ends here, and whether the connection goes on (RFC 9112, 9.3).
fault read_connection(head& h) noexcept {
    bool close = false;
    bool keep = false;
    bool upgrades = false;
    std::size_t names = 0;  // each of which is looked for among all fields
    for (auto& f : h.fields) {
        if (!only_for_this_hop(f))
            continue;
        f.goes_on = false;
        if (f.id != beast::field::connection)
            continue;
        for (auto list = f.value; !list.empty();) {
            auto const comma = std::min(list.find(','), list.size());
            auto const token = trimmed(list.substr(0, comma));
            list.remove_prefix(std::min(comma + 1, list.size()));
            if (token.empty())
                continue;
            if (!some(token, is_token))
                return {400, "Connection is no list of names"};
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

// Calls `f(protocol)` for each that Upgrade names, until it is true.
template <class F>
void any_upgrade(head const& h, F f) noexcept {
    for (auto const& field : h.fields) {
        if (field.id != beast::field::upgrade)
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

// To that protocol, and to no other one.
bool goes_over_to(answer_head const& answer, std::string_view protocol) noexcept {
    std::size_t others = 0;
    std::size_t same = 0;
    any_upgrade(answer, [&](std::string_view one) {
        ++(iequals(one, protocol) ? same : others);
        return false;
    });
    return answer.upgrades && same == 1 && others == 0;
}

// Tells how the end of the body is known. A length may be told again in the same words (RFC 9112, 6.3);
// nothing else may.
fault read_framing(head& h) noexcept {
    h.body = framing::none;
    h.length = 0;
    std::string_view length;
    bool unknown_coding = false;
    for (auto const& f : h.fields) {
        bool const is_length = f.id == beast::field::content_length;
        if (!is_length && f.id != beast::field::transfer_encoding)
            continue;
        if (is_length && h.body == framing::length && f.value == length)
            continue;
        if (h.body != framing::none)
            return {400, "more than one Content-Length or Transfer-Encoding"};
        if (is_length) {
            h.body = framing::length;
            length = f.value;
            if (!read_number(length, h.length))
                return {400, "Content-Length is no number"};
        } else {
            h.body = framing::chunked;
            unknown_coding = !iequals(f.value, "chunked");
        }
    }
    if (h.body == framing::chunked && h.version < 11)
        return {400, "Transfer-Encoding in HTTP/1.0"};
    if (unknown_coding)
        return {501, "the only Transfer-Encoding that is known here is chunked"};
    return {};
}

// ---- Rules for requests

std::string_view without_port_80(std::string_view host) noexcept {
    if (host.ends_with(":80"))
        host.remove_suffix(3);
    return host;
}

// Makes an absolute target (`http://host/path`) an ordinary one (RFC 9112, 3.2).
fault make_origin_form(request_head& out) noexcept {
    constexpr std::string_view scheme = "http://";
    auto& target = out.target;
    if (target.front() == '/' || (target == "*" && out.method == verb::options))
        return {};
    if (!iequals(target.substr(0, scheme.size()), scheme))
        return {400, "the target is neither a path nor an http:// address"};
    auto const path = std::min(target.find_first_of("/?", scheme.size()), target.size());
    auto const authority = target.substr(scheme.size(), path - scheme.size());
    if (!some(authority, is_host) ||
        (!out.host.empty() && !iequals(without_port_80(authority), without_port_80(out.host))))
        return {400, "the target is at another host than Host"};
    out.host = authority;
    if (path == target.size())
        target = out.method == verb::options ? "*" : "/";
    else if (target[path] == '?')
        return {400, "the target has no path"};
    else
        target.remove_prefix(path);
    return {};
}

}  // namespace

fault head_scanner::look(std::string_view text) noexcept {
    while (size_ == 0) {
        auto const end = text.find('\n', line_);
        auto const line = text.substr(line_, end == text.npos ? text.npos : end - line_);
        // The first byte that is wrong decides, so that it is all the same what has come behind it.
        if (!line.empty() && is_blank(line.front()))
            return {400, "a line that begins with a blank"};
        auto const cr = line.find('\r');
        if (line.substr(0, cr).find('\0') != line.npos)
            return {400, "a NUL in the header"};
        if (cr != line.npos && cr + 1 != line.size())
            return {400, "a carriage return that ends no line"};
        if (end == text.npos)
            return {};
        if (cr == line.npos)
            return {400, "a line that ends without a carriage return"};
        if (line.size() == 1)
            size_ = end + 1;
        line_ = end + 1;
    }
    return {};
}

fault parse(std::string_view text, request_head& out, underscores names) noexcept {
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
            case beast::field::host:
                if (!out.host.empty())
                    return {400, "more than one Host"};
                if (!some(f.value, is_host))
                    return {400, "Host is not the name of a host"};
                out.host = f.value;
                f.goes_on = false;
                break;
            case beast::field::expect:
                if (!iequals(f.value, "100-continue"))
                    return {417, "the only Expect that is known here is 100-continue"};
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
        return {400, "no Host"};
    if (out.method == verb::connect)
        return {501, "CONNECT is not possible here"};
    if (out.target.size() > max_target)
        return {414, "the target is too long"};
    return make_origin_form(out);
}

fault parse(std::string_view text, verb method, answer_head& out,
            std::string_view upgrade) noexcept {
    out.size = text.size();
    if (!read_first_line(take_line(text), out) || read_fields(text, out) || read_connection(out))
        return {502, "the upstream's response is not HTTP"};
    if (out.status == 101 && (upgrade.empty() || !goes_over_to(out, upgrade)))
        return {502, "the upstream has switched to a protocol for which it was not asked"};
    auto const unclear = read_framing(out);
    if (method == verb::head || out.status < 200 || out.status == 204 || out.status == 304) {
        // There is no body whatever the fields say. They speak of one that is not sent; what they do not
        // say clearly goes no further, and nobody waits to see what such an upstream sends next.
        if (unclear)
            out.keep_alive = false;
        else if (out.body == framing::length && out.status >= 200 && out.status != 204)
            std::ranges::find(out.fields, beast::field::content_length, &field::id)->goes_on = true;
        out.body = framing::none;
        out.length = 0;
    } else if (unclear) {
        return {502, "the upstream's answer does not say clearly where it ends"};
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
