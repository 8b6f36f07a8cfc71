#include "http/head.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

// The headers of requests and responses, from the text of RFC 9110 and RFC 9112.

namespace http {

std::ostream& operator<<(std::ostream& out, framing f) {
    return out << (f == framing::none      ? "none"
                   : f == framing::length  ? "length"
                   : f == framing::chunked ? "chunked"
                                           : "until close");
}

}  // namespace http

namespace {

using http::framing;
using http::verb;
using std::operator""s;

// The status of the fault in a header; 0 if there is none. `out` refers to `text`.
template <class Head, class... More>
unsigned read(std::string_view text, Head& out, More... more) {
    http::head_scanner scanner;
    if (auto const wrong = scanner.look(text))
        return wrong.status;
    BOOST_REQUIRE(scanner.size() == text.size());
    auto const wrong = http::parse(text, more..., out);
    BOOST_TEST((wrong.why != nullptr) == (wrong.status != 0));
    return wrong.status;
}

// The names of the forwarded fields.
std::string going_on(http::head const& h) {
    std::string names;
    for (auto const& f : h.fields)
        if (f.goes_on)
            names.append(f.name).append(" ");
    return names;
}

std::string get(std::string_view fields, std::string_view target = "/",
                std::string_view version = "1.1") {
    return "GET "s.append(target).append(" HTTP/").append(version).append("\r\n") +
           std::string(fields) + "\r\n";
}

std::string ok(std::string_view fields) {
    return "HTTP/1.1 200 OK\r\n"s + std::string(fields) + "\r\n";
}

constexpr std::string_view host = "Host: test\r\n";

struct verdict {
    std::string text;
    unsigned status;
};

void check(std::vector<verdict> const& table) {
    for (auto const& [text, status] : table) {
        BOOST_TEST_CONTEXT(text.substr(0, 200)) {
            http::request_head request;
            BOOST_TEST(read(text, request) == status);
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_request)

BOOST_AUTO_TEST_CASE(is_read) {
    std::string const text = "POST /path?query HTTP/1.1\r\nHost: test:81\r\nAccept:\t a, b \t\r\n"
                             "X-Empty:\r\nContent-Length: 0005\r\n\r\n";
    http::request_head r;
    BOOST_REQUIRE(read(text, r) == 0);
    BOOST_TEST(r.size == text.size());
    BOOST_TEST(r.version == 11);
    BOOST_TEST((r.method == verb::post));
    BOOST_TEST(r.method_name == "POST");
    BOOST_TEST(r.target == "/path?query");
    BOOST_TEST(r.host == "test:81");
    BOOST_TEST(r.body == framing::length);
    BOOST_TEST(r.length == 5);
    BOOST_TEST(r.keep_alive);
    BOOST_TEST(!r.expects_continue);
    BOOST_REQUIRE(r.fields.size() == 4);
    BOOST_TEST(r.fields[1].name == "Accept");
    BOOST_TEST(r.fields[1].value == "a, b");
    BOOST_TEST(r.fields[2].value == "");
    BOOST_TEST(going_on(r) == "Accept X-Empty ");
}

BOOST_AUTO_TEST_CASE(keeps_nothing_of_the_previous_one) {
    http::request_head r;
    BOOST_REQUIRE(read("POST http://test/ HTTP/1.0\r\nConnection: keep-alive\r\n"
                       "Content-Length: 5\r\nHost: test\r\n\r\n"s,
                       r) == 0);
    BOOST_REQUIRE(
        read(
            "POST / HTTP/1.1\r\nHost: b\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"s,
            r) == 0);
    BOOST_TEST(r.expects_continue);
    BOOST_TEST(r.body == framing::chunked);
    BOOST_TEST(r.length == 0);
    BOOST_REQUIRE(read("GET / HTTP/1.0\r\n\r\n", r) == 0);
    BOOST_TEST(r.version == 10);
    BOOST_TEST(r.host == "");
    BOOST_TEST(r.body == framing::none);
    BOOST_TEST(r.fields.empty());
    BOOST_TEST(!r.expects_continue);
    BOOST_TEST(!r.keep_alive);
}

// RFC 9112, 3: exactly one blank between the parts. RFC 9110, 9.1: a method is a token.
BOOST_AUTO_TEST_CASE(with_a_malformed_first_line_is_rejected) {
    auto const with = [](std::string first) { return first + "\r\n" + std::string(host) + "\r\n"; };
    check({
        {"\r\n", 400},
        {with("GET"), 400},
        {with("GET /"), 400},
        {with("GET / "), 400},
        {with("GET /  HTTP/1.1"), 400},
        {with("GET  / HTTP/1.1"), 400},
        {with(" GET / HTTP/1.1"), 400},
        {with("GET / HTTP/1.1 "), 400},
        {with("GET\t/ HTTP/1.1"), 400},
        {with("GET /a b HTTP/1.1"), 400},
        {with("GET /\tb HTTP/1.1"), 400},
        {with(" / HTTP/1.1"), 400},
        {with("G@T / HTTP/1.1"), 400},
        {with("G(T / HTTP/1.1"), 400},
        {with("G\xe4T / HTTP/1.1"), 400},
        {with("GET /\x01 HTTP/1.1"), 400},
        {with("GET /\x7f HTTP/1.1"), 400},
        {with("GET /\0 HTTP/1.1"s), 400},
        {with("\x16\x03\x01 / HTTP/1.1"), 400},
    });
}

BOOST_AUTO_TEST_CASE(of_another_version_is_rejected) {
    for (std::string_view const version : {"2.0", "1.2", "0.9", "3.0", "0.0", "9.9"})
        check({{get(host, "/", version), 505}});
    for (std::string_view const version : {"1.10", "11", "1", "1.", ".1", "1.x", "1,1", "01.1", ""})
        check({{get(host, "/", version), 400}});
    check({
        {"PRI * HTTP/2.0\r\n\r\n", 505},
        {"GET / HTTX/1.1\r\n\r\n", 400},
        {"GET / http/1.1\r\n\r\n", 400},
    });
}

BOOST_AUTO_TEST_CASE(has_a_target_in_origin_form) {
    struct row {
        std::string target, goes_on;
    };
    for (auto const& [target, goes_on] : std::vector<row>{
             {"/", "/"},
             {"/a/../b?c=d;e%00", "/a/../b?c=d;e%00"},
             {"//other/", "//other/"},
             {"/http://other/", "/http://other/"},
             {"/\xc3\xa4", "/\xc3\xa4"},
             {"http://test/", "/"},
             {"http://test", "/"},
             {"http://test/a?b", "/a?b"},
             {"HTTP://TEST:80/", "/"},
             {"http://test//a", "//a"},
         }) {
        BOOST_TEST_CONTEXT(target) {
            http::request_head r;
            auto const text = get(host, target);
            BOOST_TEST(read(text, r) == 0);
            BOOST_TEST(r.target == goes_on);
        }
    }
    for (std::string_view const target :
         {"test", "*", "http://other/", "http://test:81/", "http://user@test/", "http:///path",
          "/a%00", "/a#b", "/a/..;/b", "http://test/a%00", "http://", "https://test/",
          "ftp://test/", "http:/test/", "http://test?a", "?a", "#"})
        check({{get(host, target), 400}});
}

BOOST_AUTO_TEST_CASE(may_ask_for_the_options_of_a_server) {
    http::request_head r;
    BOOST_TEST(read("OPTIONS * HTTP/1.1\r\nHost: test\r\n\r\n", r) == 0);
    BOOST_TEST(r.target == "*");
    // RFC 9112, 3.2.4: the last proxy converts an address without a path to `*`.
    BOOST_TEST(read("OPTIONS http://test HTTP/1.1\r\nHost: test\r\n\r\n", r) == 0);
    BOOST_TEST(r.target == "*");
    BOOST_TEST(read("OPTIONS http://test/ HTTP/1.1\r\nHost: test\r\n\r\n", r) == 0);
    BOOST_TEST(r.target == "/");
    BOOST_TEST(read("OPTIONS / HTTP/1.1\r\nHost: test\r\n\r\n", r) == 0);
    BOOST_TEST(r.target == "/");
    check({
        {"OPTIONS ** HTTP/1.1\r\nHost: test\r\n\r\n", 400},
        {"OPTIONS http://test?a HTTP/1.1\r\nHost: test\r\n\r\n", 400},
        {"OPTIONS http://other HTTP/1.1\r\nHost: test\r\n\r\n", 400},
    });
}

BOOST_AUTO_TEST_CASE(to_connect_is_rejected) {
    check({
        {"CONNECT test:443 HTTP/1.1\r\nHost: test\r\n\r\n", 501},
        {"CONNECT / HTTP/1.1\r\nHost: test\r\n\r\n", 501},
    });
}

BOOST_AUTO_TEST_CASE(may_have_any_method) {
    http::request_head r;
    BOOST_TEST(read("FROB-nicate / HTTP/1.1\r\nHost: test\r\n\r\n", r) == 0);
    BOOST_TEST(r.method_name == "FROB-nicate");
    BOOST_TEST((r.method == verb::unknown));
    // Methods are case-sensitive.
    BOOST_TEST(read("get / HTTP/1.1\r\nHost: test\r\n\r\n", r) == 0);
    BOOST_TEST((r.method == verb::unknown));
}

// RFC 9112, 3.2.
BOOST_AUTO_TEST_CASE(names_one_host) {
    http::request_head r;
    for (std::string_view const name : {"test", "TEST:8080", "[::1]:80", "[::1]", "1.2.3.4",
                                        "a-b_c.d", "a.", "[fe80::1%25eth0]"}) {
        auto const text = get("hOsT:" + std::string(name) + "\r\n");
        BOOST_TEST(read(text, r) == 0, name);
        BOOST_TEST(r.host == name);
        BOOST_TEST(going_on(r) == "");
    }
    check({
        {get(""), 400},
        {get("Accept: x\r\n"), 400},
        {get("Host: test\r\nHost: test\r\n"), 400},
        {get("Host: test\r\nHost: other\r\n"), 400},
        {get("Host: test\r\nHost: other\r\n", "/", "1.0"), 400},
        {get("Host: test\r\n", "http://other/", "1.0"), 400},
        {get("Host:\r\n"), 400},
        {get("Host:\r\n", "/", "1.0"), 400},
        {get("Host: a b\r\n"), 400},
        {get("Host: a, b\r\n"), 400},
        {get("Host: user@test\r\n"), 400},
        {get("Host: test/path\r\n"), 400},
        {get("Host: http://test\r\n"), 400},
        {get("Host: te\"st\r\n"), 400},
        {get("Host: a%2eb\r\n"), 400},
        {get("Host: a.b..\r\n"), 400},
        {get("Host: a..b\r\n"), 400},
        {get("", "http://a%2eb/", "1.0"), 400},
        {get("Host: t\xe4st\r\n"), 400},
    });
    // RFC 9112, 3.2.2: the host of an absolute target replaces Host.
    for (std::string_view const fields : {"", "Host: test\r\n", "Host: TEST:80\r\n"}) {
        auto const text = get(fields, "http://test/", "1.0");
        BOOST_TEST(read(text, r) == 0);
        BOOST_TEST(r.host == "test");
    }
    // A Host field that Connection names is still the host.
    auto const text = get("Connection: host\r\nHost: test\r\n");
    BOOST_TEST(read(text, r) == 0);
    BOOST_TEST(r.host == "test");
}

// RFC 9112, 2.2 and 5.
BOOST_AUTO_TEST_CASE(with_a_malformed_line_is_rejected) {
    auto const with = [](std::string line) { return get(std::string(host) + line); };
    check({
        {"GET / HTTP/1.1\nHost: test\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: test\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: test\r\n\n", 400},
        {"GET / HTTP/1.1\nHost: test\n\n", 400},
        {"GET / HTTP/1.1\rHost: test\r\r", 400},
        {"GET / HTTP/1.1\r\n Host: test\r\n\r\n", 400},
        {with("A: b\rc\r\n"), 400},
        {with("A: b\r\r\n"), 400},
        {with("A: b\r\n c\r\n"), 400},
        {with("A: b\r\n\tc\r\n"), 400},
        {with("A: b\0c\r\n"s), 400},
        {with("A\0: b\r\n"s), 400},
        {with("A: b\x01"
              "c\r\n"),
         400},
        {with("A: b\x1f\r\n"), 400},
        {with("A: b\x7f\r\n"), 400},
        {with("A: \x0b"
              "b\r\n"),
         400},
        {with("A : b\r\n"), 400},
        {with("A\t: b\r\n"), 400},
        {with("A B: c\r\n"), 400},
        {with(": c\r\n"), 400},
        {with("Nothing\r\n"), 400},
        {with("A(b): c\r\n"), 400},
        {with("A\xe4: c\r\n"), 400},
        {with("\"A\": c\r\n"), 400},
    });
    http::request_head r;
    auto const text = with("!#$%&'*+-.^`|~09azAZ: \"a\tb\" : \xe4\xff\r\n");
    BOOST_TEST(read(text, r) == 0);
    BOOST_TEST(r.fields[1].value == "\"a\tb\" : \xe4\xff");
}

BOOST_AUTO_TEST_CASE(that_is_not_exactly_a_header_is_rejected) {
    http::request_head r;
    for (std::string_view const text :
         {"", "\r", "G", "GET / HTTP/1.1", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: test",
          "GET / HTTP/1.1\r\nHost: test\r\n", "GET / HTTP/1.1\r\nHost: test\r\n\r",
          "GET / HTTP/1.1\r\nHost: test\r\n\r\nmore",
          "GET / HTTP/1.1\r\nHost: test\r\n\r\nA: b\r\n\r\n"})
        BOOST_TEST(http::parse(text, r).status == 400u, text);
}

// RFC 9112, 6.
BOOST_AUTO_TEST_CASE(has_a_framing) {
    struct row {
        std::string fields;
        framing body;
        std::uint64_t length;
    };
    for (auto const& [fields, body, length] : std::vector<row>{
             {"", framing::none, 0},
             {"Content-Length: 0\r\n", framing::length, 0},
             {"Content-Length: 5\r\n", framing::length, 5},
             {"content-length:0005\r\n", framing::length, 5},
             {"Content-Length: 9223372036854775807\r\n", framing::length, INT64_MAX},
             {"Content-Length: 5\r\ncontent-length:5 \r\n", framing::length, 5},
             {"Transfer-Encoding: chunked\r\n", framing::chunked, 0},
             {"TRANSFER-ENCODING:Chunked\t\r\n", framing::chunked, 0},
             {"Connection: content-length\r\nContent-Length: 5\r\n", framing::length, 5},
             {"Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n", framing::chunked,
              0},
         }) {
        BOOST_TEST_CONTEXT(fields) {
            http::request_head r;
            auto const text = get(std::string(host) + fields);
            BOOST_TEST(read(text, r) == 0);
            BOOST_TEST(r.body == body);
            BOOST_TEST(r.length == length);
            BOOST_TEST(going_on(r) == "");
        }
    }
}

BOOST_AUTO_TEST_CASE(with_ambiguous_framing_is_rejected) {
    std::string const chunked = "Transfer-Encoding: chunked\r\n";
    auto const with = [](std::string fields) { return get(std::string(host) + fields); };
    check({
        {with("Content-Length: 5\r\nContent-Length: 6\r\n"), 400},
        {with("Content-Length: 5\r\nContent-Length: 05\r\n"), 400},
        {with("Content-Length: 5\r\nContent-Length: 5\r\nContent-Length: 6\r\n"), 400},
        {with("Content-Length: 5\r\nContent-Length: 5\r\n" + chunked), 400},
        {with("Content-Length: x\r\nContent-Length: x\r\n"), 400},
        {with("Content-Length:\r\nContent-Length:\r\n"), 400},
        {with("Content-Length: 9223372036854775808\r\n"), 400},
        {with("Content-Length: 5, 5\r\n"), 400},
        {with("Content-Length: 5,6\r\n"), 400},
        {with("Content-Length: +5\r\n"), 400},
        {with("Content-Length: -5\r\n"), 400},
        {with("Content-Length: 0x5\r\n"), 400},
        {with("Content-Length: 5.0\r\n"), 400},
        {with("Content-Length: 5 5\r\n"), 400},
        {with("Content-Length:\r\n"), 400},
        {with("Content-Length: five\r\n"), 400},
        {with("Content-Length: \"5\"\r\n"), 400},
        {with("Content-Length: 18446744073709551616\r\n"), 400},
        {with("Content-Length: 99999999999999999999999\r\n"), 400},
        {with("Content-Length: 5\r\n" + chunked), 400},
        {with(chunked + "Content-Length: 5\r\n"), 400},
        {with(chunked + chunked), 400},
        {with(chunked + "Transfer-Encoding: identity\r\n"), 400},
        {with("Transfer-Encoding: gzip\r\nContent-Length: 5\r\n"), 400},
        {get(std::string(host) + chunked, "/", "1.0"), 400},
        {with("Transfer-Encoding: \x0b"
              "chunked\r\n"),
         400},
        {with("Transfer-Encoding: gzip\r\n"), 501},
        {with("Transfer-Encoding: identity\r\n"), 501},
        {with("Transfer-Encoding: xchunked\r\n"), 501},
        {with("Transfer-Encoding: chunked, chunked\r\n"), 501},
        {with("Transfer-Encoding: gzip, chunked\r\n"), 501},
        {with("Transfer-Encoding: chunked, gzip\r\n"), 501},
        {with("Transfer-Encoding: chunked,\r\n"), 501},
        {with("Transfer-Encoding: chunked;q=1\r\n"), 501},
        {with("Transfer-Encoding: \"chunked\"\r\n"), 501},
        {with("Transfer-Encoding:\r\n"), 501},
    });
}

// RFC 9112, 9.3.
BOOST_AUTO_TEST_CASE(determines_whether_the_connection_stays_open) {
    struct row {
        std::string_view version, fields;
        bool keep_alive;
    };
    for (auto const& [version, fields, keep_alive] : std::vector<row>{
             {"1.1", "", true},
             {"1.1", "Connection: close\r\n", false},
             {"1.1", "Connection: CLOSE\r\n", false},
             {"1.1", "Connection: x,\tclose ,\r\n", false},
             {"1.1", "Connection: keep-alive\r\nConnection: close\r\n", false},
             {"1.1", "Connection: closed\r\n", true},
             {"1.1", "Connection:\r\n", true},
             {"1.1", "Proxy-Connection: close\r\n", true},
             {"1.0", "", false},
             {"1.0", "Connection: keep-alive\r\n", true},
             {"1.0", "Connection: Keep-Alive, x\r\n", true},
             {"1.0", "Connection: keep-alive, close\r\n", false},
             {"1.0", "Proxy-Connection: keep-alive\r\n", false},
         }) {
        BOOST_TEST_CONTEXT(version << " " << fields) {
            http::request_head r;
            BOOST_TEST(read(get(std::string(host).append(fields), "/", version), r) == 0);
            BOOST_TEST(r.keep_alive == keep_alive);
        }
    }
    check({
        {get("Host: test\r\nConnection: close keep-alive\r\n"), 400},
        {get("Host: test\r\nConnection: \"close\"\r\n"), 400},
    });
}

// RFC 9110, 7.6.1.
BOOST_AUTO_TEST_CASE(does_not_forward_hop_by_hop_fields) {
    http::request_head r;
    auto const text = get("Host: test\r\nConnection: x-a, X-B\r\nx-A: 1\r\nX-b: 2\r\nX-C: 3\r\n"
                          "Keep-Alive: 1\r\nTE: trailers\r\nTrailer: a\r\nProxy-Connection: a\r\n"
                          "Proxy-Authorization: a\r\nHTTP2-Settings: a\r\nX-B: 4\r\nCookie: c\r\n");
    BOOST_TEST(read(text, r) == 0);
    BOOST_TEST(going_on(r) == "X-C Cookie ");
}

// RFC 9110, 7.8: a server may ignore Upgrade, which is hop-by-hop.
BOOST_AUTO_TEST_CASE(cannot_upgrade) {
    for (std::string_view const offer : {"h2c", "websocket", "TLS/1.2", "h2c, websocket", ""}) {
        http::request_head r;
        auto const text =
            get("Host: test\r\nConnection: Upgrade\r\nA: b\r\nUpgrade: "s.append(offer) + "\r\n");
        BOOST_TEST(read(text, r) == 0, offer);
        BOOST_TEST(going_on(r) == "A ");
        BOOST_TEST(r.keep_alive);
    }
}

// CGI scripts and programs with the same conventions cannot distinguish X_Y from X-Y.
BOOST_AUTO_TEST_CASE(does_not_forward_names_with_an_underscore) {
    auto const text = get("Host: test\r\nX_Forwarded_For: a\r\n_: a\r\nX-A: b\r\nx-b_: c_d\r\n"
                          "Content_Length: 5\r\nTransfer_Encoding: chunked\r\n");
    http::request_head r;
    BOOST_TEST(read(text, r) == 0);
    BOOST_TEST(going_on(r) == "X-A ");
    BOOST_TEST(r.body == framing::none);
    BOOST_TEST(!http::parse(text, r, http::underscores::pass));
    BOOST_TEST(going_on(r) == "X_Forwarded_For _ X-A x-b_ Content_Length Transfer_Encoding ");
    BOOST_TEST(r.body == framing::none);
    // Hop-by-hop fields are not forwarded in any case.
    auto const hop = get("Host: test\r\nConnection: x_a\r\nX_A: b\r\n");
    BOOST_TEST(!http::parse(hop, r, http::underscores::pass));
    BOOST_TEST(going_on(r) == "");
}

// The number is bounded, because each name is compared with all fields.
BOOST_AUTO_TEST_CASE(with_too_many_names_in_connection_is_rejected) {
    auto const with = [](int names) {
        std::string text = "Host: test\r\n";
        for (; names > 0; --names)
            text += names % 2 == 0 ? "Connection: a\r\n" : "Connection: close, a\r\n";
        return get(text);
    };
    auto const at_once = [](int names) {
        std::string text = "Host: test\r\nConnection: close";
        for (; names > 0; --names)
            text += ",a";
        return get(text + "\r\n");
    };
    check({{with(199), 0}, {at_once(200), 0}, {at_once(201), 431}, {at_once(10'000), 431}});
}

// RFC 9110, 10.1.1: an expectation of HTTP/1.0 is ignored.
BOOST_AUTO_TEST_CASE(may_expect_a_continue) {
    http::request_head r;
    auto const text = get("Host: test\r\nExpect: 100-Continue\r\n");
    BOOST_TEST(read(text, r) == 0);
    BOOST_TEST(r.expects_continue);
    BOOST_TEST(going_on(r) == "");
    BOOST_TEST(read(get("Expect: 100-continue\r\n", "/", "1.0"), r) == 0);
    BOOST_TEST(!r.expects_continue);
    check({
        {get("Host: test\r\nExpect: 200-ok\r\n"), 417},
        {get("Host: test\r\nExpect:\r\n"), 417},
    });
}

BOOST_AUTO_TEST_CASE(is_rejected_if_it_is_too_long) {
    auto const fields = [](std::size_t n) {
        std::string text(host);
        for (std::size_t i = 1; i < n; ++i)
            text += "A: b\r\n";
        return text;
    };
    http::request_head r;
    BOOST_TEST(read(get(fields(200)), r) == 0);
    BOOST_TEST(read(get(host, std::string(8000, '/')), r) == 0);
    check({
        {get(fields(201)), 431},
        {get(host, std::string(8001, '/')), 414},
    });
}

// A request that another one describes gets the checks of a request that arrives.
BOOST_AUTO_TEST_CASE(can_be_readdressed_to_what_could_arrive) {
    std::string const long_target = '/' + std::string(8'001, 'a');
    http::request_head old;
    BOOST_REQUIRE(!http::parse("POST /old HTTP/1.1\r\nHost: old\r\nA: b\r\n\r\n", old));
    std::size_t accepted = 0;
    for (std::string const method :
         {"GET", "PUT", "own", "OPTIONS", "CONNECT", "G T", "", "G\x7f", "(GET)"})
        for (std::string const target :
             {"/", "/a?b=c", "*", "", "a", "http://a/b", "http://b", "https://a/b", "/a b", "/a\nb",
              "//a", "/a;b", "/%00", "/a/../b", "/%2e%2e/a", "http://a?b", long_target.c_str()})
            for (std::string const host :
                 {"a", "a:80", "[::1]:8080", "a..b", "a b", "a, b", "a/b", "%61"}) {
                http::request_head arrived;
                auto const text = method + ' ' + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
                auto const wrong = http::parse(text, arrived);
                auto described = old;
                auto const found = http::readdress(described, method, target, host);
                BOOST_TEST(static_cast<bool>(found) == static_cast<bool>(wrong), text);
                if (found || wrong)
                    continue;
                ++accepted;
                BOOST_TEST(described.method_name == arrived.method_name);
                BOOST_TEST((described.method == arrived.method));
                BOOST_TEST(described.target == arrived.target);
                BOOST_TEST(described.host == arrived.host);
                BOOST_TEST(described.fields.size() == old.fields.size());
            }
    BOOST_TEST(accepted > 50U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_response)

BOOST_AUTO_TEST_CASE(is_read) {
    http::answer_head a;
    BOOST_TEST(read("HTTP/1.0 404 Not\tFound \xe4\r\nServer: x\r\nContent-Length: 7\r\n\r\n", a,
                    verb::get) == 0);
    BOOST_TEST(a.version == 10);
    BOOST_TEST(a.status == 404);
    BOOST_TEST(a.reason == "Not\tFound \xe4");
    BOOST_TEST(a.body == framing::length);
    BOOST_TEST(a.length == 7);
    BOOST_TEST(!a.keep_alive);
    BOOST_TEST(going_on(a) == "Server ");
    // RFC 9112, 4: a reason may be empty, and a status is any three digits. Some servers omit the blank after it.
    for (auto const* const text : {"HTTP/1.1 599 \r\n\r\n", "HTTP/1.1 599\r\n\r\n"}) {
        BOOST_TEST(read(text, a, verb::get) == 0, text);
        BOOST_TEST(a.status == 599);
        BOOST_TEST(a.reason == "");
        BOOST_TEST(a.keep_alive);
    }
}

BOOST_AUTO_TEST_CASE(does_not_forward_hop_by_hop_fields) {
    http::answer_head a;
    auto const text = ok("Connection: x-a\r\nX-A: 1\r\nX-B: 2\r\nKeep-Alive: 1\r\nUpgrade: h2c\r\n"
                         "Proxy-Authenticate: a\r\nTrailer: a\r\nSet_Cookie: a\r\n");
    BOOST_TEST(read(text, a, verb::get) == 0);
    BOOST_TEST(going_on(a) == "X-B Set_Cookie ");
}

BOOST_AUTO_TEST_CASE(that_is_not_http_is_rejected) {
    for (auto const& text : {
             "\r\n"s,
             "nonsense\r\n\r\n"s,
             "HTTP/1.1\r\n\r\n"s,
             "HTTP/1.1 OK\r\n\r\n"s,
             "HTTP/1.1 20 OK\r\n\r\n"s,
             "HTTP/1.1 20\r\n\r\n"s,
             "HTTP/1.1 2000\r\n\r\n"s,
             "HTTP/1.1 200OK\r\n\r\n"s,
             "HTTP/1.1 \r\n\r\n"s,
             "HTTP/1.1 200\t\r\n\r\n"s,
             "HTTP/1.1 2000 OK\r\n\r\n"s,
             "HTTP/1.1 099 OK\r\n\r\n"s,
             "HTTP/1.1 -20 OK\r\n\r\n"s,
             "HTTP/1.1 2x0 OK\r\n\r\n"s,
             "HTTP/1.1 20x OK\r\n\r\n"s,
             "HTTP/1.1 +20 OK\r\n\r\n"s,
             "HTTP/1.1 xxx OK\r\n\r\n"s,
             "HTTP/1.1  200 OK\r\n\r\n"s,
             "HTTP/1.1\t200 OK\r\n\r\n"s,
             "HTTP/1.1 200\tOK\r\n\r\n"s,
             "HTTP/2.0 200 OK\r\n\r\n"s,
             "http/1.1 200 OK\r\n\r\n"s,
             "HTTP/1.1 200 O\x01K\r\n\r\n"s,
             "HTTP/1.1 200 OK\nContent-Length: 0\n\n"s,
             "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n"s,
             "HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n"s,
             "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n"s,
             "HTTP/1.1 200 OK\r\nConnection: \"a\"\r\n\r\n"s,
             "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"s,
         }) {
        BOOST_TEST_CONTEXT(text) {
            http::answer_head a;
            a.status = 200;  // the value of a previous response
            auto const status = read(text, a, verb::get);
            BOOST_TEST((status == 502 || status == 400));  // 400 comes from the scanner
        }
    }
}

// RFC 9112, 6.3.
BOOST_AUTO_TEST_CASE(has_a_framing) {
    struct row {
        std::string text;
        framing body;
        std::string goes_on;
    };
    std::string const length = "Content-Length: 5\r\n";
    std::string const chunked = "Transfer-Encoding: chunked\r\n";
    for (auto const& [text, body, goes_on] : std::vector<row>{
             {ok(""), framing::until_close, ""},
             {ok(length), framing::length, ""},
             {ok(length + length), framing::length, ""},
             {ok(chunked), framing::chunked, ""},
             {"HTTP/1.0 200 OK\r\n\r\n", framing::until_close, ""},
             {"HTTP/1.1 199 x\r\n" + length + "\r\n", framing::none, ""},
             {"HTTP/1.1 103 x\r\nLink: a\r\n\r\n", framing::none, "Link "},
             {"HTTP/1.1 204 x\r\n" + length + "\r\n", framing::none, ""},
             {"HTTP/1.1 204 x\r\n" + chunked + "\r\n", framing::none, ""},
             {"HTTP/1.1 304 x\r\n" + length + "\r\n", framing::none, "Content-Length "},
             {"HTTP/1.1 304 x\r\n" + chunked + "\r\n", framing::none, ""},
         }) {
        BOOST_TEST_CONTEXT(text) {
            http::answer_head a;
            BOOST_TEST(read(text, a, verb::get) == 0);
            BOOST_TEST(a.body == body);
            BOOST_TEST(a.length == (body == framing::length ? 5u : 0u));
            BOOST_TEST(going_on(a) == goes_on);
        }
    }
}

// RFC 9112, 6.3: regardless of the header fields. The proxy does not forward an ambiguous length (RFC 9110, 8.6), and
// does not use such a connection again.
BOOST_AUTO_TEST_CASE(to_head_has_no_body) {
    struct row {
        std::string fields, goes_on;
        bool keep_alive;
    };
    for (auto const& [fields, goes_on, keep_alive] : std::vector<row>{
             {"", "", true},
             {"Content-Length: 5\r\n", "Content-Length ", true},
             {"Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length ", true},
             {"Transfer-Encoding: chunked\r\n", "", true},
             {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "", false},
             {"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "", false},
             {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "", false},
             {"Transfer-Encoding: gzip, chunked\r\n", "", false},
             {"Content-Length: 5\r\nContent-Length: 6\r\n", "", false},
             {"Content-Length: five\r\n", "", false},
         }) {
        BOOST_TEST_CONTEXT(fields) {
            http::answer_head a;
            auto const text = ok(fields);
            BOOST_TEST(read(text, a, verb::head) == 0);
            BOOST_TEST(a.body == framing::none);
            BOOST_TEST(a.length == 0u);
            BOOST_TEST(a.keep_alive == keep_alive);
            BOOST_TEST(going_on(a) == goes_on);
        }
    }
    http::answer_head a;
    BOOST_TEST(
        read("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", a,
             verb::head) == 0);
    BOOST_TEST(!a.keep_alive);
}

BOOST_AUTO_TEST_CASE(with_ambiguous_framing_is_rejected) {
    for (std::string const fields : {
             "Content-Length: 1\r\nContent-Length: 2\r\n",
             "Content-Length: 1\r\nContent-Length: 01\r\n",
             "Content-Length: 1, 1\r\n",
             "Content-Length: -1\r\n",
             "Content-Length:\r\n",
             "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
             "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
             "Transfer-Encoding: gzip\r\n",
             "Transfer-Encoding: chunked, chunked\r\n",
             "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
         }) {
        http::answer_head a;
        BOOST_TEST(read(ok(fields), a, verb::get) == 502, fields);
    }
    http::answer_head a;
    BOOST_TEST(read("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", a, verb::get) == 502);
}

BOOST_AUTO_TEST_CASE(is_rejected_if_it_is_too_long) {
    http::answer_head a;
    std::string fields;
    for (std::size_t i = 0; i < 200; ++i)
        fields += "A: b\r\n";
    BOOST_TEST(read(ok(fields), a, verb::get) == 0);
    BOOST_TEST(read(ok(fields + "A: b\r\n"), a, verb::get) == 502);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(an_upgrade)

namespace {

std::vector<std::string> const known{"websocket", "echo/1"};

std::string asked(std::string_view fields, std::string_view version = "1.1") {
    auto const text = get(std::string(fields) + "Host: a\r\n", "/", version);
    http::request_head r;
    BOOST_REQUIRE(!http::parse(text, r));
    return std::string(http::upgrade_among(r, known));
}

// RFC 9110, 15.2.2: a 101 response must name the new protocol.
unsigned answered(std::string_view fields, std::string_view upgrade,
                  std::string_view version = "1.1") {
    auto const text =
        "HTTP/"s.append(version).append(" 101 Switch\r\n").append(fields).append("\r\n");
    http::answer_head a;
    auto const wrong = http::parse(text, verb::get, a, upgrade);
    return wrong ? wrong.status : a.status;
}

}  // namespace

// RFC 9110, 7.8: the client names its preferred protocol first. Upgrade counts only if Connection names it, and not
// from a client of HTTP/1.0.
BOOST_AUTO_TEST_CASE(selects_the_first_known_protocol) {
    BOOST_TEST(asked("Connection: Upgrade\r\nUpgrade: websocket\r\n") == "websocket");
    BOOST_TEST(asked("Connection: x, upgrade ,y\r\nUpgrade: h2c, , WebSocket\r\n") == "WebSocket");
    BOOST_TEST(asked("Upgrade: a\r\nUpgrade: echo/1, websocket\r\nConnection: UPGRADE\r\n") ==
               "echo/1");
    BOOST_TEST(asked("Connection: upgrade\r\nUpgrade: echo, websocket/13\r\n") == "");
    BOOST_TEST(asked("Upgrade: websocket\r\n") == "");
    BOOST_TEST(asked("Connection: close\r\nUpgrade: websocket\r\n") == "");
    BOOST_TEST(asked("Connection: upgrade\r\n") == "");
    BOOST_TEST(asked("Connection: upgrade\r\nUpgrade: websocket\r\n", "1.0") == "");
}

BOOST_AUTO_TEST_CASE(must_switch_to_the_requested_protocol) {
    constexpr std::string_view good = "Connection: upgrade\r\nUpgrade: WebSocket\r\n";
    BOOST_TEST(answered(good, "websocket") == 101U);
    BOOST_TEST(answered(good, "") == 502U);
    BOOST_TEST(answered(good, "echo/1") == 502U);
    BOOST_TEST(answered(good, "websocket", "1.0") == 502U);
    BOOST_TEST(answered("Upgrade: websocket\r\n", "websocket") == 502U);
    BOOST_TEST(answered("Connection: upgrade\r\n", "websocket") == 502U);
    BOOST_TEST(answered("Connection: upgrade\r\nUpgrade: websocket, x\r\n", "websocket") == 502U);
}

// Upgrade is hop-by-hop.
BOOST_AUTO_TEST_CASE(is_not_forwarded_automatically) {
    auto const text = get("Host: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX: y\r\n");
    http::request_head r;
    BOOST_REQUIRE(!http::parse(text, r));
    BOOST_TEST(going_on(r) == "X ");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_head_scanner)

BOOST_AUTO_TEST_CASE(finds_the_end_at_the_last_byte) {
    std::string const text = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";
    http::head_scanner scanner;
    for (std::size_t n = 0; n < text.size(); ++n) {
        BOOST_TEST(!scanner.look(text.substr(0, n)));
        BOOST_TEST(scanner.size() == 0);
        BOOST_TEST(scanner.in_first_line() == (n < 16));
    }
    BOOST_TEST(!scanner.look(text + "\n\n"));  // ignores the following bytes
    BOOST_TEST(scanner.size() == text.size());
}

// The scanner reports a fault as soon as no further bytes could repair it.
BOOST_AUTO_TEST_CASE(reports_an_invalid_byte_immediately) {
    for (auto const& text : {
             "GET / HTTP/1.1\n"s,
             "GET / HTTP/1.1\ra"s,
             "GET / HTTP/1.1\r\r"s,
             "GET /\0"s,
             "\n"s,
             "\0"s,
             " "s,
             "GET / HTTP/1.1\r\n "s,
             "GET / HTTP/1.1\r\n\t"s,
             "GET / HTTP/1.1\r\nHost: test\r\nA: b\n"s,
             "GET / HTTP/1.1\r\nHost: test\r\n\n"s,
             "GET / HTTP/1.1\r\nHost: test\r\n\ra"s,
         }) {
        BOOST_TEST_CONTEXT(text) {
            http::head_scanner scanner;
            BOOST_TEST(!scanner.look(text.substr(0, text.size() - 1)));
            BOOST_TEST(scanner.look(text).status == 400u);
            auto const wrong = http::head_scanner().look(text);
            BOOST_TEST(wrong.status == 400u);
            BOOST_TEST(http::head_scanner().look(text + "\0\r\r\n\n"s).why == wrong.why);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
