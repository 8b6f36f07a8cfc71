#pragma once

#include "http/body.hpp"
#include "http/compose.hpp"
#include "http/head.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What is true of src/http whatever comes in. Each function throws `broken` if it is not, and says
/// whether the bytes were a message at all.
namespace properties {

struct broken : std::logic_error {
    using std::logic_error::logic_error;
};

inline void must(bool holds, char const* what) {
    if (!holds)
        throw broken(what);
}

using fields = std::vector<std::pair<std::string, std::string>>;

// ---- However it is cut

/// Where bytes are cut: the length of each piece, again and again; byte by byte if there is none.
class cuts {
public:
    explicit cuts(std::span<std::uint8_t const> lengths) noexcept : lengths_(lengths) {}

    /// Of so many bytes that are left, at least one.
    [[nodiscard]] std::size_t next(std::size_t left) noexcept {
        auto const n =
            lengths_.empty() ? 1u : std::max<std::size_t>(lengths_[at_++ % lengths_.size()], 1);
        return std::min(n, left);
    }

private:
    std::span<std::uint8_t const> lengths_;
    std::size_t at_ = 0;
};

/// Scans a head in pieces, and returns its size; 0 if there is none.
inline std::size_t scan(std::string_view bytes, cuts how) {
    http::head_scanner whole;
    auto const wrong = whole.look(bytes);

    http::head_scanner cut;
    http::fault found;
    for (std::size_t n = 0; n < bytes.size() && !found && cut.size() == 0;) {
        n += how.next(bytes.size() - n);
        found = cut.look(std::string(bytes.substr(0, n)));  // with nothing behind it to look at
    }
    must(wrong.why == found.why && wrong.status == found.status,
         "a head is rejected otherwise in pieces");
    must(whole.size() == cut.size(), "a head ends elsewhere in pieces");
    must(!wrong || whole.size() == 0, "a head is rejected and ends");
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
             "more was taken than there is");
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
    must(content == all.content, "a body is another one in pieces");
    must(used == all.used, "a body ends elsewhere in pieces");
    must(cut.done() == whole.done() && cut.bad() == whole.bad(),
         "a body is rejected otherwise in pieces");
    must(!whole.done() || !whole.bad(), "a body is rejected and ends");
    all.done = whole.done();
    return all;
}

// ---- What is sent, as a reader sees it that knows the plainest form only

/// The first line and the fields of a head.
inline std::pair<std::string, fields> plain_head(std::string_view text) {
    std::vector<std::string> lines;
    must(text.ends_with("\r\n\r\n"), "a head does not end with an empty line");
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
        must(name.find_first_of(" \t:\"(),/;<=>?@[\\]{}") == name.npos, "a name is no token");
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

/// One framing at most, in its plainest form, and nothing that was for the hop before.
inline void check_framing(fields const& all, http::framing body, std::uint64_t length) {
    auto const lengths = values(all, "content-length");
    auto const codings = values(all, "transfer-encoding");
    if (body == http::framing::length)
        must(lengths == std::vector{std::to_string(length)}, "a length is not told, or not once");
    else if (body != http::framing::none)
        must(lengths.empty(), "a length is told that is not known");
    must(codings == (body == http::framing::chunked ? std::vector<std::string>{"chunked"}
                                                    : std::vector<std::string>{}),
         "a coding is told that is not there, or the other way round");
    for (auto const* const name : {"te", "trailer", "upgrade", "keep-alive", "proxy-connection",
                                   "proxy-authorization", "http2-settings"})
        must(values(all, name).empty(), "a field for one hop goes on");
}

/// The content of chunks without any extension, blank or trailer, up to the very end of `text`.
inline std::string plain_chunks(std::string_view text) {
    std::string content;
    for (;;) {
        auto const end = text.find("\r\n");
        must(end != text.npos && end > 0, "a chunk has no size");
        std::size_t size = 0;
        for (char const c : text.substr(0, end)) {
            auto const digit = std::string_view("0123456789abcdef").find(c);
            must(digit != std::string_view::npos, "a chunk's size is no number");
            size = size * 16 + digit;
        }
        text.remove_prefix(end + 2);
        must(size + 2 <= text.size() && text.substr(size, 2) == "\r\n", "a chunk does not end");
        content += text.substr(0, size);
        text.remove_prefix(size + 2);
        if (size == 0) {
            must(text.empty(), "something follows the last chunk");
            return content;
        }
    }
}

/// What was written of `content` in this framing is that again.
inline void check_written(std::string_view written, http::framing framing,
                          std::string_view content) {
    if (framing == http::framing::chunked)
        must(plain_chunks(written) == content, "a body is another one in new chunks");
    else
        must(written == content, "a body is another one without chunks");
}

// ---- What is composed reads again as the same

inline fields going_on(http::head const& h) {
    fields result;
    for (auto const& f : h.fields)
        if (f.goes_on)
            result.emplace_back(f.name, f.value);
    return result;
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
    must(head.size == size, "a head has another size");

    std::string sent;
    http::compose(sent, head, "192.0.2.1", "upstream:80");
    auto const [first, plain] = plain_head(sent);
    must(first == std::string(head.method_name).append(" ").append(head.target).append(" HTTP/1.1"),
         "a request has another first line");
    must(head.target.starts_with('/') || (head.target == "*" && head.method_name == "OPTIONS"),
         "a target is not in origin form");
    must(values(plain, "host") ==
             std::vector<std::string>{head.host.empty() ? "upstream:80" : std::string(head.host)},
         "a request has not one Host");
    must(values(plain, "connection").empty(), "a field for one hop goes on");
    must(values(plain, "expect").empty(), "an expectation goes on");
    check_framing(plain, head.body, head.length);
    must(head.body != http::framing::none || values(plain, "content-length").empty(),
         "a length is told of no body");

    fields expected;
    std::string clients;
    for (auto const& [name, value] : going_on(head)) {
        must(names == http::underscores::pass || name.find('_') == name.npos,
             "an underscore goes on");
        if (lower(name) == "x-forwarded-for")
            clients += value + ", ";
        else
            expected.emplace_back(name, value);
    }
    expected.emplace_back("X-Forwarded-For", clients + "192.0.2.1");
    expected.emplace_back("Via", "1.1 weir-proxy");

    if (plain.size() <= http::head::max_fields) {
        must(scan(sent, how) == sent.size(), "what is composed is no head");
        http::request_head again;
        must(!http::parse(sent, again, names), "what is composed is rejected");
        must(again.method_name == head.method_name && again.method == head.method &&
                 again.target == head.target && again.version == 11 && again.keep_alive &&
                 again.body == head.body && again.length == head.length && !again.expects_continue,
             "what is composed reads otherwise");
        must(going_on(again) == expected, "what is composed has other fields");
    }

    auto const body = read_body(bytes.substr(size), head.body, head.length, how, head.body);
    if (!body.done)
        return true;
    check_written(body.written, head.body, body.content);
    // Nothing that is sent could be taken for the start of another request.
    must(head.body != http::framing::length || body.content.size() == head.length,
         "a body is not as long as it should be");
    auto const again = read_body(body.written, head.body, head.length, how, head.body);
    must(again.done && again.used == body.written.size() && again.content == body.content,
         "a body that was sent reads otherwise");
    return true;
}

inline bool answer(std::string_view bytes, http::verb method, unsigned version, cuts how) {
    auto const size = scan(bytes, how);
    if (size == 0)
        return false;
    std::string const text(bytes.substr(0, size));
    http::answer_head head;
    if (auto const wrong = http::parse(text, method, head)) {
        must(wrong.status == 502, "an answer is rejected otherwise than by 502");
        return false;
    }
    bool const bodiless =
        method == http::verb::head || head.status < 200 || head.status == 204 || head.status == 304;
    must((head.body == http::framing::none) == bodiless,
         "an answer has a body that it cannot have");

    auto const framing = http::framing_for(version, head);
    bool const keep_alive = framing != http::framing::until_close && version == 11;
    std::string sent;
    http::compose(sent, head, framing, version, keep_alive, "today");
    auto const [first, plain] = plain_head(sent);
    must(first == "HTTP/1.1 " + std::to_string(head.status) + " " + std::string(head.reason),
         "an answer has another first line");
    check_framing(plain, framing, head.length);
    must(version == 11 || framing != http::framing::chunked, "chunks go to HTTP/1.0");

    auto expected = going_on(head);
    if (head.status >= 200) {
        if (values(expected, "date").empty())
            expected.emplace_back("Date", "today");
        expected.emplace_back("Via", "1.1 weir-proxy");
    }
    if (plain.size() <= http::head::max_fields) {
        must(scan(sent, how) == sent.size(), "what is composed is no head");
        http::answer_head again;
        must(!http::parse(sent, method, again), "what is composed is rejected");
        must(again.status == head.status && again.reason == head.reason && again.version == 11 &&
                 again.body == framing && again.length == head.length,
             "what is composed reads otherwise");
        must(again.keep_alive == keep_alive || head.status < 200,
             "a connection goes on that does not");
        must(going_on(again) == expected, "what is composed has other fields");
    }

    auto const body = read_body(bytes.substr(size), head.body, head.length, how, framing);
    if (!body.done)
        return true;
    check_written(body.written, framing, body.content);
    auto const again = read_body(body.written, framing, head.length, how, framing);
    must(again.done && again.used == body.written.size() && again.content == body.content,
         "a body that was sent reads otherwise");
    return true;
}

}  // namespace properties
