#include "head.hpp"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include <algorithm>
#include <charconv>

namespace http {
namespace {

using boost::beast::iequals;
using boost::system::error_code;
using beast_view = boost::beast::string_view;

constexpr std::size_t max_target = 8000;

// A parser of Boost 1.90 is told of trailers, too, which a head has none of. One of 1.83 is not, so that
// this is no `override` there; in a class of its own no compiler asks for the word.
template <bool is_request>
class without_trailers : public beast::basic_parser<is_request> {
    void on_trailer_field_impl(beast::field, beast_view, beast_view, error_code&) {}
};

// Keeps where everything lies. Bodies are not its business.
template <bool is_request, class Head>
class collector final : public without_trailers<is_request> {
public:
    explicit collector(Head& out) : out_(out) {
        this->header_limit(static_cast<std::uint32_t>(-1));  // the buffer is the limit
        this->body_limit(boost::none);
    }

private:
    void on_request_impl(verb method, beast_view name, beast_view target, int version,
                         error_code&) override {
        if constexpr (is_request) {
            out_.method = method;
            out_.method_name = name;
            out_.target = target;
            out_.version = static_cast<unsigned>(version);
        }
    }
    void on_response_impl(int status, beast_view reason, int version, error_code&) override {
        if constexpr (!is_request) {
            out_.status = static_cast<unsigned>(status);
            out_.reason = reason;
            out_.version = static_cast<unsigned>(version);
        }
    }
    void on_field_impl(beast::field id, beast_view name, beast_view value,
                       error_code& ec) override {
        if (out_.count == head::max_fields)
            ec = beast::error::header_limit;
        else
            out_.fields_[out_.count++] = {id, true, name, value};
    }
    void on_header_impl(error_code&) override {}
    void on_body_init_impl(boost::optional<std::uint64_t> const&, error_code&) override {}
    std::size_t on_body_impl(beast_view, error_code&) override { return 0; }
    void on_chunk_header_impl(std::uint64_t, beast_view, error_code&) override {}
    std::size_t on_chunk_body_impl(std::uint64_t, beast_view, error_code&) override { return 0; }
    void on_finish_impl(error_code&) override {}

    Head& out_;
};

template <bool is_request, class Head>
error_code collect(std::string_view text, Head& out) {
    out.size = text.size();
    out.count = 0;
    collector<is_request, Head> parser(out);
    error_code ec;
    parser.put(boost::asio::const_buffer(text.data(), text.size()), ec);
    return ec;
}

// ---- Rules for both

std::string_view trimmed(std::string_view text) noexcept {
    auto const blank = [](char c) { return c == ' ' || c == '\t'; };
    while (!text.empty() && blank(text.front()))
        text.remove_prefix(1);
    while (!text.empty() && blank(text.back()))
        text.remove_suffix(1);
    return text;
}

template <class F>
void each_token(std::string_view list, F f) {
    while (!list.empty()) {
        auto const comma = std::min(list.find(','), list.size());
        if (auto const token = trimmed(list.substr(0, comma)); !token.empty())
            f(token);
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
}

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

struct examined {
    fault wrong;
    std::size_t lengths = 0;
    std::size_t encodings = 0;
};

// Framing and connection, as both kinds of message have them.
examined examine(head& h) noexcept {
    examined found;
    bool close = false;
    bool keep = false;
    for (auto& f : h.fields()) {
        if (!only_for_this_hop(f))
            continue;
        f.goes_on = false;
        if (f.id == beast::field::content_length) {
            auto const* const last = f.value.data() + f.value.size();
            auto const [end, ec] = std::from_chars(f.value.data(), last, h.length);
            if (ec != std::errc() || end != last)
                found.wrong = {400, "Content-Length is no number"};
            ++found.lengths;
        } else if (f.id == beast::field::transfer_encoding) {
            if (!iequals(f.value, "chunked"))
                found.wrong = {501, "the only Transfer-Encoding that is known here is chunked"};
            ++found.encodings;
        } else if (f.id == beast::field::connection) {
            each_token(f.value, [&](std::string_view token) {
                if (iequals(token, "close"))
                    close = true;
                else if (iequals(token, "keep-alive"))
                    keep = true;
                else
                    for (auto& other : h.fields())
                        // A client must not have a server believe that it has sent no Host.
                        if (other.id != beast::field::host && iequals(other.name, token))
                            other.goes_on = false;
            });
        }
    }
    if (found.lengths > 1)
        found.wrong = {400, "more than one Content-Length"};
    else if (found.encodings > 1)
        found.wrong = {400, "more than one Transfer-Encoding"};
    else if (found.encodings > 0 && found.lengths > 0)
        found.wrong = {400, "both Content-Length and Transfer-Encoding"};
    else if (found.encodings > 0 && h.version < 11)
        found.wrong = {400, "Transfer-Encoding in HTTP/1.0"};
    h.keep_alive = h.version < 11 ? keep && !close : !close;
    h.body = found.encodings > 0 ? framing::chunked
             : found.lengths > 0 ? framing::length
                                 : framing::none;
    if (h.body != framing::length)
        h.length = 0;
    return found;
}

// ---- Rules for requests

// The characters of a Host (RFC 3986, 3.2): a name or an address, and a port.
bool is_host(std::string_view host) noexcept {
    return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("-._~!$&'()*+;=:[]%").find(c) != std::string_view::npos;
    });
}

std::string_view without_port_80(std::string_view host) noexcept {
    if (host.ends_with(":80"))
        host.remove_suffix(3);
    return host;
}

// Makes an absolute target (`http://host/path`) an ordinary one.
fault make_origin_form(request_head& out, std::string_view host) {
    constexpr std::string_view scheme = "http://";
    auto& target = out.target;
    if (target.front() == '/' || (target == "*" && out.method == verb::options))
        return {};
    if (target.size() <= scheme.size() || !iequals(target.substr(0, scheme.size()), scheme))
        return {400, "the target is neither a path nor an http:// address"};
    auto const path = std::min(target.find_first_of("/?", scheme.size()), target.size());
    auto const authority = target.substr(scheme.size(), path - scheme.size());
    if (!is_host(authority) ||
        (out.has_host && !iequals(without_port_80(authority), without_port_80(host))))
        return {400, "the target is at another host than Host"};
    if (path == target.size())
        target = "/";
    else if (target[path] == '?')
        return {400, "the target has no path"};
    else
        target.remove_prefix(path);
    return {};
}

fault explain(error_code ec, std::string_view text) noexcept {
    if (ec == beast::error::bad_version) {
        // `HTTP/2.0` is a version that is not spoken here, `HTTX/1.1` is nonsense.
        auto const line = text.substr(0, text.find('\r'));
        auto const version = line.substr(std::min(line.rfind(' ') + 1, line.size()));
        auto const digit = [](char c) { return c >= '0' && c <= '9'; };
        if (std::count(line.begin(), line.end(), ' ') == 2 && version.size() == 8 &&
            version.starts_with("HTTP/") && digit(version[5]) && version[6] == '.' &&
            digit(version[7]))
            return {505, "only HTTP/1.1 and HTTP/1.0 are spoken here"};
        return {400, "the first line is no request"};
    }
    if (ec == beast::error::header_limit)
        return {431, "too many header fields"};
    if (ec == beast::error::bad_content_length || ec == beast::error::multiple_content_length)
        return {400, "Content-Length is no number"};
    if (ec == beast::error::bad_transfer_encoding)
        return {400, "Transfer-Encoding is wrong"};
    if (ec == beast::error::bad_field || ec == beast::error::bad_value)
        return {400, "a header field is wrong"};
    if (ec == beast::error::bad_method || ec == beast::error::bad_target)
        return {400, "the first line is no request"};
    return {400, "this is no request"};
}

}  // namespace

fault head_scanner::look(std::string_view text) noexcept {
    while (size_ == 0) {
        auto const end = text.find('\n', line_);
        auto const line = text.substr(line_, end == text.npos ? text.npos : end - line_);
        auto const cr = line.find('\r');
        if (line.find('\0') != line.npos)
            return {400, "a NUL in the header"};
        if (cr != line.npos && cr + 1 != line.size())
            return {400, "a carriage return that ends no line"};
        if (end == text.npos)
            return {};
        if (cr == line.npos)
            return {400, "a line that ends without a carriage return"};
        if (line.size() == 1)
            size_ = end + 1;
        else if (line_ > 0 && (line.front() == ' ' || line.front() == '\t'))
            return {400, "a header field that goes on in the next line"};
        line_ = end + 1;
    }
    return {};
}

fault parse(std::string_view text, request_head& out) {
    // Since Boost 1.92 the parser refuses codings that it does not know, but not as "not implemented".
    auto const ec = collect<true>(text, out);
    if (ec && ec != beast::error::bad_transfer_encoding)
        return explain(ec, text);

    auto const found = examine(out);
    if (found.wrong)
        return found.wrong;
    if (ec)
        return explain(ec, text);

    std::string_view host;
    out.has_host = false;
    out.expects_continue = false;
    for (auto& f : out.fields()) {
        switch (f.id) {
            case beast::field::host:
                if (out.has_host)
                    return {400, "more than one Host"};
                if (!is_host(f.value))
                    return {400, "Host is not the name of a host"};
                out.has_host = true;
                host = f.value;
                break;
            case beast::field::expect:
                if (!iequals(f.value, "100-continue"))
                    return {417, "the only Expect that is known here is 100-continue"};
                out.expects_continue = out.version >= 11;
                f.goes_on = false;
                break;
            case beast::field::upgrade:
                // Of those who ask for h2c, all go on without it.
                if (!iequals(f.value, "h2c"))
                    return {501, "no Upgrade is possible here"};
                break;
            default:
                break;
        }
    }
    if (!out.has_host && out.version >= 11)
        return {400, "no Host"};
    if (out.method == verb::connect)
        return {501, "CONNECT is not possible here"};
    if (out.target.size() > max_target)
        return {414, "the target is too long"};
    return make_origin_form(out, host);
}

fault parse(std::string_view text, verb method, answer_head& out) {
    if (collect<false>(text, out) || out.status < 100)
        return {502, "the upstream's answer is not HTTP"};
    if (examine(out).wrong)
        return {502, "the upstream's answer does not say clearly where it ends"};
    if (out.status == 101)
        return {502, "the upstream has switched protocols without having been asked"};
    if (method == verb::head || out.status < 200 || out.status == 204 || out.status == 304) {
        // Here the length is that of an answer which is not sent.
        for (auto& f : out.fields())
            if (f.id == beast::field::content_length)
                f.goes_on = out.status >= 200 && out.status != 204;
        out.body = framing::none;
    } else if (out.body == framing::none) {
        out.body = framing::until_close;
    }
    return {};
}

}  // namespace http
