#pragma once

#include "http/body.hpp"
#include "http/compose.hpp"
#include "http/head.hpp"
#include "http/values.hpp"
#include "support/base64url.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Properties of src/http for any input. Each function throws `broken` if a property does not hold, and returns whether
/// the bytes were a valid message.
namespace properties {

struct broken : std::logic_error {
    using std::logic_error::logic_error;
};

inline void must(bool holds, char const* what) {
    if (!holds)
        throw broken(what);
}

using fields = std::vector<std::pair<std::string, std::string>>;

// ---- Division into pieces

/// The lengths of the pieces, repeated cyclically; without lengths each piece is one byte.
class cuts {
public:
    explicit cuts(std::span<std::uint8_t const> lengths) noexcept : lengths_(lengths) {}

    /// The length of the next piece of the remaining bytes, at least one.
    [[nodiscard]] std::size_t next(std::size_t left) noexcept {
        auto const n =
            lengths_.empty() ? 1u : std::max<std::size_t>(lengths_[at_++ % lengths_.size()], 1);
        return std::min(n, left);
    }

private:
    std::span<std::uint8_t const> lengths_;
    std::size_t at_ = 0;
};

/// Scans a header in pieces and returns its size; 0 if there is no header.
inline std::size_t scan(std::string_view bytes, cuts how) {
    http::head_scanner whole;
    auto const wrong = whole.look(bytes);

    http::head_scanner cut;
    http::fault found;
    for (std::size_t n = 0; n < bytes.size() && !found && cut.size() == 0;) {
        n += how.next(bytes.size() - n);
        found = cut.look(std::string(bytes.substr(0, n)));  // a copy: no byte follows it
    }
    must(wrong.why == found.why && wrong.status == found.status,
         "a header in pieces is rejected for another reason");
    must(whole.size() == cut.size(), "a header in pieces ends elsewhere");
    must(!wrong || whole.size() == 0, "a rejected header has an end");
    return whole.size();
}

struct understood {
    std::string content;
    std::string written;  // by a body_writer
    std::size_t used = 0;
    bool done = false;
};

inline understood read_body(std::string_view bytes, http::framing framing, std::uint64_t length,
                            cuts how, http::framing write_as) {
    understood all;
    http::body_reader whole(framing, length);
    {
        std::string copy(bytes);
        auto const piece = whole.take(copy.data(), copy.size());
        must(piece.body <= piece.used && piece.used <= bytes.size(),
             "more bytes are used than exist");
        must(piece.used == bytes.size() || whole.done() || whole.bad(),
             "a body is not read to its end");
        all.content = copy.substr(0, piece.body);
        all.used = piece.used;
    }
    http::body_reader cut(framing, length);
    http::body_writer writer(write_as);
    std::string content;
    std::size_t used = 0;
    do {
        std::string copy(
            bytes.substr(used, used < bytes.size() ? how.next(bytes.size() - used) : 0));
        auto const piece = cut.take(copy.data(), copy.size());
        content.append(copy, 0, piece.body);
        used += piece.used;
        if (used == bytes.size() && framing == http::framing::until_close)
            cut.end_of_input();
        http::gather out;
        writer.put(out, copy.data(), piece.body, cut.done());
        for (auto const part : out)
            all.written += part;
    } while (used < bytes.size() && !cut.done() && !cut.bad());

    if (framing == http::framing::until_close)
        whole.end_of_input();
    must(content == all.content, "a body in pieces differs");
    must(used == all.used, "a body in pieces ends elsewhere");
    must(cut.done() == whole.done() && cut.bad() == whole.bad(),
         "a body in pieces has another result");
    must(!whole.done() || !whole.bad(), "a bad body is done");
    all.done = whole.done();
    return all;
}

// ---- The output, as a reader of only the simplest form interprets it

/// The first line and the fields of a header.
inline std::pair<std::string, fields> plain_head(std::string_view text) {
    std::vector<std::string> lines;
    must(text.ends_with("\r\n\r\n"), "a header does not end with an empty line");
    text.remove_suffix(2);
    while (!text.empty()) {
        auto const end = text.find("\r\n");
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(end + 2);
        for (char const c : lines.back())
            must(static_cast<unsigned char>(c) >= 0x20 ? c != 0x7f : c == '\t',
                 "a line has a control character");
        must(!lines.back().empty() && lines.back().front() != ' ' && lines.back().front() != '\t',
             "a line begins with nothing");
    }
    fields found;
    for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
        auto const colon = line->find(": ");
        must(colon != line->npos && colon > 0, "a field is not `name: value`");
        auto const name = line->substr(0, colon);
        must(name.find_first_of(" \t:\"(),/;<=>?@[\\]{}") == name.npos, "a name is not a token");
        found.emplace_back(name, line->substr(colon + 2));
    }
    return {lines.front(), found};
}

inline std::string lower(std::string_view text) {
    std::string result(text);
    for (auto& c : result)
        if (c >= 'A' && c <= 'Z')
            c = static_cast<char>(c - 'A' + 'a');
    return result;
}

inline std::vector<std::string> values(fields const& all, std::string_view name) {
    std::vector<std::string> found;
    for (auto const& [n, v] : all)
        if (lower(n) == name)
            found.push_back(v);
    return found;
}

/// Checks for at most one framing, in its simplest form, and for no hop-by-hop fields of the previous hop.
inline void check_framing(fields const& all, http::framing body, std::uint64_t length) {
    auto const lengths = values(all, "content-length");
    auto const codings = values(all, "transfer-encoding");
    if (body == http::framing::length)
        must(lengths == std::vector{std::to_string(length)}, "a length is missing or repeated");
    else if (body != http::framing::none)
        must(lengths.empty(), "an unknown length is present");
    must(codings == (body == http::framing::chunked ? std::vector<std::string>{"chunked"}
                                                    : std::vector<std::string>{}),
         "Transfer-Encoding does not match the framing");
    for (auto const* const name : {"te", "trailer", "upgrade", "keep-alive", "proxy-connection",
                                   "proxy-authorization", "http2-settings"})
        must(values(all, name).empty(), "a hop-by-hop field is forwarded");
}

/// The content of chunks without extensions, blanks and trailers, up to the end of `text`.
inline std::string plain_chunks(std::string_view text) {
    std::string content;
    for (;;) {
        auto const end = text.find("\r\n");
        must(end != text.npos && end > 0, "a chunk has no size");
        std::size_t size = 0;
        for (char const c : text.substr(0, end)) {
            auto const digit = std::string_view("0123456789abcdef").find(c);
            must(digit != std::string_view::npos, "a chunk's size is not a number");
            size = size * 16 + digit;
        }
        text.remove_prefix(end + 2);
        must(size + 2 <= text.size() && text.substr(size, 2) == "\r\n", "a chunk does not end");
        content += text.substr(0, size);
        text.remove_prefix(size + 2);
        if (size == 0) {
            must(text.empty(), "bytes follow the last chunk");
            return content;
        }
    }
}

/// Checks that the body written in this framing has the same `content`.
inline void check_written(std::string_view written, http::framing framing,
                          std::string_view content) {
    if (framing == http::framing::chunked)
        must(plain_chunks(written) == content, "a body in new chunks differs");
    else
        must(written == content, "a body without chunks differs");
}

// ---- A composed message parses as the same message

inline fields going_on(http::head const& h) {
    fields result;
    for (auto const& f : h.fields)
        if (f.goes_on)
            result.emplace_back(f.name, f.value);
    return result;
}

/// The values that select limiters: a cookie, a parameter and a claim, and how often the request has them.
inline fields keys_of(http::request_head const& head) {
    auto const cookie = http::cookie_of(head, "a");
    auto const parameter = http::parameter_of(head.target, "a");
    auto const tokens = http::count_lines(head, "authorization");
    must((cookie.count != 0 || cookie.value.empty()) &&
             (parameter.count != 0 || parameter.value.empty()),
         "a value is not counted");
    auto const claim = http::claim_of(head, "a");
    must(claim.empty() || tokens != 0, "a claim has no token");
    return {{cookie.value, std::to_string(cookie.count)},
            {parameter.value, std::to_string(parameter.count)},
            {claim, std::to_string(tokens)}};
}

/// The claims of a token are the same for each spelling of the scheme, and a token with another number of parts has none.
inline bool claims(std::string_view bytes) {
    auto const token = "e30." + support::base64url(bytes) + '.';
    auto const found = http::claim_of("Bearer " + token, "a");
    must(found == http::claim_of("bEARER   " + token + "c2ln", "a"),
         "a claim depends on the signature");
    must(http::claim_of("Bearer " + token + '.', "a").empty(), "a token of four parts has a claim");
    must(found.size() <= bytes.size(), "a claim is longer than its token");
    // Most bytes are not base64.
    static_cast<void>(http::claim_of("Bearer " + std::string(bytes), "a"));
    return !found.empty();
}

inline bool request(std::string_view bytes, http::underscores names, cuts how) {
    auto const size = scan(bytes, how);
    if (size == 0)
        return false;
    std::string const text(bytes.substr(0, size));
    http::request_head head;
    if (auto const wrong = http::parse(text, head, names)) {
        must(wrong.status >= 400 && wrong.status < 600, "a fault has no status");
        return false;
    }
    must(head.size == size, "a header has another size");

    std::string sent;
    http::compose(sent, head, {.peer = "192.0.2.1", .upstream = "upstream:80"});
    auto const [first, plain] = plain_head(sent);
    must(first == std::string(head.method_name).append(" ").append(head.target).append(" HTTP/1.1"),
         "a request has another first line");
    must(head.target.starts_with('/') || (head.target == "*" && head.method_name == "OPTIONS"),
         "a target is not in origin form");
    must(values(plain, "host") ==
             std::vector<std::string>{head.host.empty() ? "upstream:80" : std::string(head.host)},
         "a request does not have exactly one Host");
    must(values(plain, "connection").empty(), "a hop-by-hop field is forwarded");
    must(values(plain, "expect").empty(), "Expect is forwarded");
    check_framing(plain, head.body, head.length);
    must(head.body != http::framing::none || values(plain, "content-length").empty(),
         "Content-Length is present without a body");

    fields expected;
    std::string clients;
    for (auto const& [name, value] : going_on(head)) {
        must(names == http::underscores::pass || name.find('_') == name.npos,
             "a name with an underscore is forwarded");
        if (lower(name) == "x-forwarded-for")
            clients += value + ", ";
        else if (lower(name) != "x-forwarded-proto" && lower(name) != "x-forwarded-host")
            expected.emplace_back(name, value);
    }
    expected.emplace_back("X-Forwarded-Proto", "http");
    if (!head.host.empty())
        expected.emplace_back("X-Forwarded-Host", head.host);
    expected.emplace_back("X-Forwarded-For", clients + "192.0.2.1");
    expected.emplace_back("Via", "1.1 weir-proxy");

    if (plain.size() <= http::head::max_fields) {
        must(scan(sent, how) == sent.size(), "the composed text is not a header");
        http::request_head again;
        must(!http::parse(sent, again, names), "the composed header is rejected");
        must(again.method_name == head.method_name && again.method == head.method &&
                 again.target == head.target && again.version == 11 && again.keep_alive &&
                 again.body == head.body && again.length == head.length && !again.expects_continue,
             "the composed header has another meaning");
        must(going_on(again) == expected, "the composed header has other fields");
        must(keys_of(again) == keys_of(head), "the composed header selects other limiters");
    }

    auto const body = read_body(bytes.substr(size), head.body, head.length, how, head.body);
    if (!body.done)
        return true;
    check_written(body.written, head.body, body.content);
    // No sent bytes could be interpreted as the start of another request.
    must(head.body != http::framing::length || body.content.size() == head.length,
         "a body has the wrong length");
    auto const again = read_body(body.written, head.body, head.length, how, head.body);
    must(again.done && again.used == body.written.size() && again.content == body.content,
         "a sent body parses differently");
    return true;
}

inline bool answer(std::string_view bytes, http::verb method, unsigned version, cuts how) {
    auto const size = scan(bytes, how);
    if (size == 0)
        return false;
    std::string const text(bytes.substr(0, size));
    http::answer_head head;
    if (auto const wrong = http::parse(text, method, head)) {
        must(wrong.status == 502, "a response is rejected with another status than 502");
        return false;
    }
    bool const bodiless =
        method == http::verb::head || head.status < 200 || head.status == 204 || head.status == 304;
    must((head.body == http::framing::none) == bodiless,
         "a response that cannot have a body has one");

    auto const framing = http::framing_for(version, head);
    bool const keep_alive = framing != http::framing::until_close && version == 11;
    std::string sent;
    http::compose(sent, head, framing, version, keep_alive, "today");
    auto const [first, plain] = plain_head(sent);
    must(first == "HTTP/1.1 " + std::to_string(head.status) + " " + std::string(head.reason),
         "a response has another first line");
    check_framing(plain, framing, head.length);
    must(version == 11 || framing != http::framing::chunked, "chunks are sent to HTTP/1.0");

    auto expected = going_on(head);
    if (head.status >= 200) {
        if (values(expected, "date").empty())
            expected.emplace_back("Date", "today");
        expected.emplace_back("Via", "1.1 weir-proxy");
    }
    if (plain.size() <= http::head::max_fields) {
        must(scan(sent, how) == sent.size(), "the composed text is not a header");
        http::answer_head again;
        must(!http::parse(sent, method, again), "the composed header is rejected");
        must(again.status == head.status && again.reason == head.reason && again.version == 11 &&
                 again.body == framing && again.length == head.length,
             "the composed header has another meaning");
        must(again.keep_alive == keep_alive || head.status < 200,
             "the composed header has another keep_alive");
        must(going_on(again) == expected, "the composed header has other fields");
    }

    auto const body = read_body(bytes.substr(size), head.body, head.length, how, framing);
    if (!body.done)
        return true;
    check_written(body.written, framing, body.content);
    auto const again = read_body(body.written, framing, head.length, how, framing);
    must(again.done && again.used == body.written.size() && again.content == body.content,
         "a sent body parses differently");
    return true;
}

}  // namespace properties
