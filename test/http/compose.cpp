#include "http/compose.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

// Headers composed from parsed headers, from the text of RFC 9110 and RFC 9112.

namespace {

using http::framing;
using http::verb;
using namespace std::chrono_literals;
using std::operator""s;

constexpr std::string_view date = "Sun, 06 Nov 1994 08:49:37 GMT";

constexpr http::forwarding as_usual{.peer = "192.0.2.1", .upstream = "upstream:9000"};

std::string request(std::string_view text, http::forwarding const& how = as_usual,
                    http::field_changes const& changes = {}) {
    http::request_head r;
    BOOST_REQUIRE(!http::parse(text, r));
    std::string out = "previous content";
    http::compose(out, r, how, {changes, {}});
    return out;
}

std::string answer(std::string_view text, unsigned version = 11, bool keep_alive = true,
                   verb method = verb::get) {
    http::answer_head a;
    BOOST_REQUIRE(!http::parse(text, method, a));
    std::string out = "previous content";
    http::compose(out, a, http::framing_for(version, a), version, keep_alive, date);
    return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_request)

BOOST_AUTO_TEST_CASE(is_forwarded) {
    BOOST_TEST(request("GET /a?b HTTP/1.1\r\nAccept: x\r\nHost: test:81\r\nCookie: a\r\n"
                       "cookie:b\r\nConnection: close, x-mine\r\nX-Mine: 1\r\n\r\n") ==
               "GET /a?b HTTP/1.1\r\nHost: test:81\r\nAccept: x\r\nCookie: a\r\ncookie: b\r\n"
               "X-Forwarded-Proto: http\r\nX-Forwarded-Host: test:81\r\n"
               "X-Forwarded-For: 192.0.2.1\r\nVia: 1.1 weir-proxy\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(has_a_host) {
    auto const end = "X-Forwarded-For: 192.0.2.1\r\nVia: 1.1 weir-proxy\r\n\r\n"s;
    auto const tail = "X-Forwarded-Proto: http\r\nX-Forwarded-Host: test\r\n" + end;
    BOOST_TEST(request("GET / HTTP/1.0\r\n\r\n") ==
               "GET / HTTP/1.1\r\nHost: upstream:9000\r\nX-Forwarded-Proto: http\r\n" + end);
    BOOST_TEST(request("GET / HTTP/1.0\r\nHost: test\r\n\r\n") ==
               "GET / HTTP/1.1\r\nHost: test\r\n" + tail);
    BOOST_TEST(request("GET http://test/a HTTP/1.0\r\n\r\n") ==
               "GET /a HTTP/1.1\r\nHost: test\r\n" + tail);
    BOOST_TEST(request("OPTIONS http://test HTTP/1.1\r\nHost: test\r\n\r\n") ==
               "OPTIONS * HTTP/1.1\r\nHost: test\r\n" + tail);
    BOOST_TEST(request("GET http://test/a HTTP/1.1\r\nHost: test\r\n\r\n") ==
               "GET /a HTTP/1.1\r\nHost: test\r\n" + tail);
}

// RFC 9112, 6: the proxy forwards its own interpretation of the framing, and nothing else.
BOOST_AUTO_TEST_CASE(has_rewritten_framing) {
    struct row {
        std::string_view field, goes_on;
    };
    for (auto const& [field, goes_on] : std::vector<row>{
             {"", ""},
             {"Content-Length: 0\r\n", "Content-Length: 0\r\n"},
             {"content-length:  0005 \r\n", "Content-Length: 5\r\n"},
             {"Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length: 5\r\n"},
             {"Content-Length: 9223372036854775807\r\n", "Content-Length: 9223372036854775807\r\n"},
             {"transfer-encoding:CHUNKED\r\n", "Transfer-Encoding: chunked\r\n"},
         })
        BOOST_TEST(request("POST / HTTP/1.1\r\nHost: test\r\n"s.append(field).append("\r\n")) ==
                   "POST / HTTP/1.1\r\nHost: test\r\nX-Forwarded-Proto: http\r\n"
                   "X-Forwarded-Host: test\r\nX-Forwarded-For: 192.0.2.1\r\n"
                   "Via: 1.1 weir-proxy\r\n"s.append(goes_on)
                       .append("\r\n"));
}

BOOST_AUTO_TEST_CASE(has_one_line_of_x_forwarded_for) {
    BOOST_TEST(request("GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 10.0.0.1, 10.0.0.2\r\n"
                       "A: b\r\nx-forwarded-for: 10.0.0.3\r\n\r\n") ==
               "GET / HTTP/1.1\r\nHost: test\r\nA: b\r\n"
               "X-Forwarded-Proto: http\r\nX-Forwarded-Host: test\r\n"
               "X-Forwarded-For: 10.0.0.1, 10.0.0.2, 10.0.0.3, 192.0.2.1\r\n"
               "Via: 1.1 weir-proxy\r\n\r\n");
    // A field that Connection names is not forwarded.
    BOOST_TEST(request("GET / HTTP/1.1\r\nHost: test\r\nConnection: X-Forwarded-For\r\n"
                       "X-Forwarded-For: 10.0.0.1\r\n\r\n") ==
               "GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-Proto: http\r\n"
               "X-Forwarded-Host: test\r\nX-Forwarded-For: 192.0.2.1\r\n"
               "Via: 1.1 weir-proxy\r\n\r\n");
}

// A client that is not trusted could else make the service believe that it uses https, or another host.
BOOST_AUTO_TEST_CASE(describes_the_request_of_the_client_unless_a_trusted_peer_does) {
    auto const of = [](std::string_view fields, bool is_trusted,
                       http::field_changes const& changes = {}) {
        auto how = as_usual;
        how.is_trusted = is_trusted;
        auto const all = request(
            "GET / HTTP/1.1\r\nHost: test:81\r\n"s.append(fields).append("\r\n"), how, changes);
        constexpr std::string_view start = "GET / HTTP/1.1\r\nHost: test:81\r\n";
        BOOST_REQUIRE(all.starts_with(start));
        return all.substr(start.size(), all.find("X-Forwarded-For") - start.size());
    };
    auto const own = "X-Forwarded-Proto: http\r\nX-Forwarded-Host: test:81\r\n"s;
    auto const theirs = "x-forwarded-proto: https\r\nX-FORWARDED-HOST: a.example, b.example\r\n"s;
    BOOST_TEST(of("", false) == own);
    BOOST_TEST(of("", true) == own);
    BOOST_TEST(of(theirs, false) == own);
    BOOST_TEST(of(theirs, true) == theirs);
    BOOST_TEST(of("X-Forwarded-Proto: https\r\n", true) ==
               "X-Forwarded-Proto: https\r\nX-Forwarded-Host: test:81\r\n");
    // A field that Connection names is not forwarded.
    BOOST_TEST(of("Connection: x-forwarded-proto\r\nX-Forwarded-Proto: https\r\n", true) == own);
    // Changes of the configuration replace the fields of both.
    http::field_changes changes;
    changes.add.push_back({"X-Forwarded-Proto", {{"https"}}});
    changes.remove.emplace_back("X-Forwarded-Host");
    for (bool const is_trusted : {false, true})
        for (auto const& fields : {std::string(), theirs})
            BOOST_TEST(of(fields, is_trusted, changes) == "X-Forwarded-Proto: https\r\n");
}

BOOST_AUTO_TEST_CASE(has_the_variables_of_the_request_in_added_fields) {
    http::variable_values values;
    values[http::variable::client] = "192.0.2.7";
    values[http::variable::route] = "/a";
    http::field_changes const changes{
        .add = {{"A", http::value_of("{client}{client} on {route}")}, {"B", http::value_of("")}},
        .remove = {"C"}};
    http::request_head r;
    constexpr std::string_view text =
        "GET / HTTP/1.0\r\na: {client}\r\nB: 1\r\nc: 1\r\nD: {id}\r\n\r\n";
    BOOST_REQUIRE(!http::parse(text, r));
    std::string out;
    http::compose(out, r, as_usual, {changes, values});
    BOOST_TEST(out ==
               "GET / HTTP/1.1\r\nHost: upstream:9000\r\nD: {id}\r\nX-Forwarded-Proto: http\r\n"
               "A: 192.0.2.7192.0.2.7 on /a\r\nB: \r\nX-Forwarded-For: 192.0.2.1\r\n"
               "Via: 1.1 weir-proxy\r\n\r\n");
}

// CGI and WSGI make one variable of both names.
BOOST_AUTO_TEST_CASE(has_no_field_of_a_client_that_looks_like_an_added_one) {
    http::field_changes const changes{.add = {{"X-User_Id", http::value_of("1")}}, .remove = {}};
    http::request_head r;
    constexpr std::string_view text =
        "GET / HTTP/1.0\r\nX_User-Id: 2\r\nx-user-id: 3\r\nX-UserId: 4\r\n\r\n";
    BOOST_REQUIRE(!http::parse(text, r, http::underscores::pass));
    std::string out;
    http::compose(out, r, as_usual, {changes, {}});
    BOOST_TEST(out ==
               "GET / HTTP/1.1\r\nHost: upstream:9000\r\nX-UserId: 4\r\nX-Forwarded-Proto: http\r\n"
               "X-User_Id: 1\r\nX-Forwarded-For: 192.0.2.1\r\nVia: 1.1 weir-proxy\r\n\r\n");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_response)

BOOST_AUTO_TEST_CASE(is_forwarded_to_the_client) {
    BOOST_TEST(answer("HTTP/1.0 404 Not here\r\nServer: x\r\nKeep-Alive: a\r\ndate: today\r\n"
                      "Content-Length: 05\r\n\r\n") ==
               "HTTP/1.1 404 Not here\r\nServer: x\r\ndate: today\r\nVia: 1.1 weir-proxy\r\n"
               "Content-Length: 5\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(gets_a_date_if_it_has_none) {
    BOOST_TEST(answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n") ==
               "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nVia: 1.1 weir-proxy\r\n"
               "Content-Length: 5\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(has_lines_of_the_proxy_unless_it_is_interim) {
    std::string out;
    http::answer_head a;
    BOOST_REQUIRE(
        !http::parse("HTTP/1.1 200 OK\r\nDate: a\r\nContent-Length: 5\r\n\r\n", verb::get, a));
    http::compose(out, a, framing::length, 11, true, date, {}, "A: 1\r\nB: 2\r\n");
    BOOST_TEST(out == "HTTP/1.1 200 OK\r\nDate: a\r\nA: 1\r\nB: 2\r\nVia: 1.1 weir-proxy\r\n"
                      "Content-Length: 5\r\n\r\n");
    BOOST_REQUIRE(!http::parse("HTTP/1.1 103 Early\r\nLink: x\r\n\r\n", verb::get, a));
    http::compose(out, a, framing::none, 11, true, date, {}, "A: 1\r\n");
    BOOST_TEST(out == "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n");
}

// The proxy adds a date if the upstream's Date was hop-by-hop.
BOOST_AUTO_TEST_CASE(gets_a_new_date_if_its_date_is_not_forwarded) {
    BOOST_TEST(
        answer("HTTP/1.1 200 OK\r\nConnection: date\r\nDate: a\r\nContent-Length: 5\r\n\r\n") ==
        "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nVia: 1.1 weir-proxy\r\n"
        "Content-Length: 5\r\n\r\n");
}

// RFC 9112, 4: the blank after the status stays.
BOOST_AUTO_TEST_CASE(may_have_no_reason) {
    for (auto const* const status : {"200 ", "200"})
        BOOST_TEST(answer("HTTP/1.1 "s + status + "\r\nDate: a\r\nContent-Length: 5\r\n\r\n") ==
                   "HTTP/1.1 200 \r\nDate: a\r\nVia: 1.1 weir-proxy\r\nContent-Length: 5\r\n\r\n");
}

// A client of HTTP/1.0 does not support chunks, and asks explicitly to keep the connection open.
BOOST_AUTO_TEST_CASE(has_the_framing_that_the_client_understands) {
    auto const chunked = "HTTP/1.1 200 OK\r\nDate: a\r\nTransfer-Encoding: chunked\r\n\r\n"s;
    auto const open = "HTTP/1.0 200 OK\r\nDate: a\r\n\r\n"s;
    auto const counted = "HTTP/1.1 200 OK\r\nDate: a\r\nContent-Length: 5\r\n\r\n"s;
    auto const start = "HTTP/1.1 200 OK\r\nDate: a\r\nVia: 1.1 weir-proxy\r\n"s;
    BOOST_TEST(answer(chunked, 11) == start + "Transfer-Encoding: chunked\r\n\r\n");
    BOOST_TEST(answer(open, 11) == start + "Transfer-Encoding: chunked\r\n\r\n");
    BOOST_TEST(answer(open, 11, false) ==
               start + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
    BOOST_TEST(answer(chunked, 10, false) == start + "Connection: close\r\n\r\n");
    BOOST_TEST(answer(open, 10, false) == start + "Connection: close\r\n\r\n");
    BOOST_TEST(
        answer("HTTP/1.1 200 OK\r\nDate: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n") ==
        start + "Content-Length: 5\r\n\r\n");
    BOOST_TEST(answer(counted, 10) ==
               start + "Content-Length: 5\r\nConnection: keep-alive\r\n\r\n");
    BOOST_TEST(answer(counted, 10, false) ==
               start + "Content-Length: 5\r\nConnection: close\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(without_a_body_has_no_added_framing) {
    auto const start = [](std::string_view status) {
        return "HTTP/1.1 "s.append(status).append("\r\nDate: a\r\n");
    };
    auto const via = "Via: 1.1 weir-proxy\r\n\r\n"s;
    BOOST_TEST(answer(start("204 None") + "Content-Length: 5\r\n\r\n") == start("204 None") + via);
    BOOST_TEST(answer(start("304 Same") + "Content-Length: 5\r\n\r\n") ==
               start("304 Same") + "Content-Length: 5\r\n" + via);
    BOOST_TEST(answer(start("200 OK") + "Content-Length: 5\r\n\r\n", 11, true, verb::head) ==
               start("200 OK") + "Content-Length: 5\r\n" + via);
    BOOST_TEST(answer(start("200 OK") + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 11, true,
                      verb::head) == start("200 OK") + "Content-Length: 5\r\n" + via);
    BOOST_TEST(answer(start("200 OK") + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                      11, true, verb::head) == start("200 OK") + via);
    BOOST_TEST(answer(start("200 OK") + "Transfer-Encoding: chunked\r\n\r\n", 11, true,
                      verb::head) == start("200 OK") + via);
}

BOOST_AUTO_TEST_CASE(that_is_interim_is_forwarded_unchanged) {
    BOOST_TEST(answer("HTTP/1.1 103 Early\r\nLink: a\r\nContent-Length: 5\r\n\r\n") ==
               "HTTP/1.1 103 Early\r\nLink: a\r\n\r\n");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_response_of_the_proxy)

BOOST_AUTO_TEST_CASE(has_a_header) {
    std::string out = "previous content";
    http::own_response const rejection{
        .status = 503, .type = "text/plain", .length = 8, .retry_after = 2s, .lines = "A: 1\r\n"};
    http::compose(out, rejection, 11, true, date);
    auto const head =
        "HTTP/1.1 503 Service Unavailable\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
        "Server: weir-proxy\r\nContent-Type: text/plain\r\nVary: Accept\r\nContent-Length: 8\r\n"
        "Retry-After: 2\r\nA: 1\r\n"s;
    BOOST_TEST(out == head + "\r\n");
    http::compose(out, rejection, 11, false, date);
    BOOST_TEST(out == head + "Connection: close\r\n\r\n");
    http::compose(out, {.status = 429, .type = "a/b"}, 10, true, date);
    BOOST_TEST(out == "HTTP/1.1 429 Too Many Requests\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                      "Server: weir-proxy\r\nContent-Type: a/b\r\nVary: Accept\r\n"
                      "Content-Length: 0\r\nConnection: keep-alive\r\n\r\n");
}

// RFC 9110, 8.6 and 15.3.5: without a body the header does not describe one.
BOOST_AUTO_TEST_CASE(may_be_without_a_body) {
    for (unsigned const status : {204U, 304U}) {
        std::string out;
        http::compose(out, {.status = status, .type = "text/plain", .length = 8}, 11, true, date);
        BOOST_TEST(out.find("Content-") == out.npos);
        BOOST_TEST(!http::has_body(status));
    }
    BOOST_TEST(http::has_body(200));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(small_pieces_are_joined) {
    std::string head = "head ";
    std::string const large(10'000, 'x');
    http::gather pieces{head, "a", "", "b"};
    http::join(pieces, head);
    BOOST_REQUIRE(pieces.size() == 1);
    BOOST_TEST(pieces[0] == "head ab");
    pieces = {head, large};
    http::join(pieces, head);
    BOOST_TEST((pieces == http::gather{"head ab", large}));
}
