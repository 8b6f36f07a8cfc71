#include "local_proxy.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using support::forwards;
using support::get;
using support::local_proxy;
using support::ok;
using support::reply;
using support::status_of;

namespace {

struct method {
    char const* name;
    bool is_idempotent;  // RFC 9110, 9.2.2

    friend std::ostream& operator<<(std::ostream& out, method const& m) { return out << m.name; }
};
constexpr std::array methods{
    method{"GET", true},   method{"HEAD", true},   method{"OPTIONS", true},
    method{"TRACE", true}, method{"PUT", true},    method{"DELETE", true},
    method{"POST", false}, method{"PATCH", false}, method{"PURGE", false},
};

struct body {
    char const* name;
    char const* fields;
    char const* text;

    friend std::ostream& operator<<(std::ostream& out, body const& b) { return out << b.name; }
};
constexpr std::array bodies{
    body{"no body", "", ""},
    body{"5 bytes", "Content-Length: 5\r\n", "hello"},
    body{"chunks", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"},
};

enum class connection : bool { made_for_it, kept };

// A case: the server reads a request, sends `said`, and closes the connection.
struct dropped {
    char const* name;
    char const* said;

    friend std::ostream& operator<<(std::ostream& out, dropped const& d) { return out << d.name; }
};
constexpr std::array drops{
    dropped{"silent", ""},
    dropped{"a part of the head", "HTTP/1.1 200 O"},
    dropped{"an interim response", "HTTP/1.1 103 Early Hints\r\n\r\n"},
    dropped{"a part of the body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"},
};

std::string text_of(method const& m, body const& b) {
    return std::string(m.name) + " / HTTP/1.1\r\nHost: test\r\n" + b.fields + "\r\n" + b.text;
}

// The number of times that the server gets a request, if it drops the first one.
std::size_t deliveries(local_proxy& proxy, std::string const& request, dropped const& drop,
                       connection what, std::string& answer) {
    auto client = proxy.connect();
    if (what == connection::kept)
        BOOST_TEST(proxy.ask(client, get) == 200u);
    proxy.upstream.requests.clear();
    proxy.upstream.answer = [&, first = true](std::string const&) mutable -> std::optional<reply> {
        return std::exchange(first, false) ? reply{drop.said, true} : ok("again");
    };
    client.send(request);
    proxy.settle();
    answer = client.take();
    return proxy.upstream.requests.size();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_request_whose_server_drops_it)

namespace data = boost::unit_test::data;

// The proxy sends it again if its method is idempotent, it has no body, and the server closed a kept connection without
// a byte of a response: the server may have closed it before the request arrived.
BOOST_DATA_TEST_CASE(is_sent_again_or_not,
                     data::make(methods) * data::make(bodies) * data::make(drops), m, b, d) {
    for (auto const what : {connection::made_for_it, connection::kept}) {
        BOOST_TEST_CONTEXT((what == connection::kept ? "kept connection" : "new connection")) {
            local_proxy proxy(forwards);
            bool const again = m.is_idempotent && std::string(b.text).empty() &&
                               std::string(d.said).empty() && what == connection::kept;
            std::string answer;
            auto const n = deliveries(proxy, text_of(m, b), d, what, answer);
            BOOST_TEST(n == (again ? 2u : 1u));
            if (again)
                BOOST_TEST(status_of(answer) == 200u);
            else if (std::string(d.said).empty())
                BOOST_TEST(status_of(answer) == 502u);
            else
                BOOST_TEST(answer.find("again") == answer.npos);
        }
    }
}

BOOST_AUTO_TEST_CASE(is_the_same_the_second_time) {
    local_proxy proxy(forwards);
    std::string answer;
    std::string const request = "GET /a?b=c HTTP/1.1\r\nHost: test\r\nX-Field: y\r\n\r\n";
    BOOST_REQUIRE(deliveries(proxy, request, drops[0], connection::kept, answer) == 2u);
    BOOST_TEST(proxy.upstream.requests[0] == proxy.upstream.requests[1]);
}

// It is not sent a third time if the second connection drops it too.
BOOST_AUTO_TEST_CASE(is_sent_at_most_twice) {
    local_proxy proxy(forwards);
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, get) == 200u);
    proxy.upstream.requests.clear();
    proxy.upstream.answer = [](std::string const&) { return reply{"", true}; };
    BOOST_TEST(proxy.ask(client, get) == 502u);
    BOOST_TEST(proxy.upstream.requests.size() == 2u);
}

// Rates count the requests that the upstream gets; seats count its concurrent requests.
BOOST_AUTO_TEST_CASE(is_counted_twice_by_rates_and_once_by_seats) {
    local_proxy proxy(R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM"]

[[limit]]
name = "rate"
rule = "3/60s"
queue = "patience 0s"

[[limit]]
name = "seats"
rule = "1 seats"
queue = "patience 0s"

[[route]]
upstream = "a"
limits = ["rate", "seats"]
)");
    std::string answer;
    BOOST_TEST(deliveries(proxy, std::string(get), drops[0], connection::kept, answer) == 2u);
    BOOST_TEST(status_of(answer) == 200u);
    proxy.upstream.answer = [](std::string const&) { return ok(); };
    BOOST_TEST(proxy.ask() == 429u);
    proxy.pass(60s);
    BOOST_TEST(proxy.ask() == 200u);
}

BOOST_AUTO_TEST_CASE(keeps_its_seat_while_it_is_sent_again) {
    local_proxy proxy(forwards + R"(limits = ["seats"]
[[limit]]
name = "seats"
rule = "1 seats"
queue = "patience 0s"
)");
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, get) == 200u);
    proxy.upstream.requests.clear();
    proxy.upstream.answer = [first = true](std::string const&) mutable -> std::optional<reply> {
        return std::exchange(first, false) ? std::optional(reply{"", true}) : std::nullopt;
    };
    BOOST_TEST(proxy.ask(client, get) == 0u);
    BOOST_TEST(proxy.upstream.requests.size() == 2u);
    BOOST_TEST(proxy.ask() == 503u);
    proxy.upstream.connections.back().send(ok().text);
    proxy.settle();
    BOOST_TEST(status_of(client.take()) == 200u);
}

// A dry run delays no request.
BOOST_AUTO_TEST_CASE(is_sent_again_beyond_a_dry_run) {
    local_proxy proxy(R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM"]

[[limit]]
name = "dry_run"
rule = "2/60s"
queue = "patience 0s"
dry_run = true

[[route]]
upstream = "a"
limits = ["dry_run"]
)");
    std::string answer;
    BOOST_TEST(deliveries(proxy, std::string(get), drops[0], connection::kept, answer) == 2u);
    BOOST_TEST(status_of(answer) == 200u);
}

// It is not sent again if the rate has no permit left.
BOOST_AUTO_TEST_CASE(is_not_sent_again_beyond_a_rate) {
    local_proxy proxy(R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM"]

[[limit]]
name = "first"
rule = "9/60s"
queue = "patience 0s"

[[limit]]
name = "second"
rule = "2/60s"
queue = "patience 0s"

[[route]]
path = "/only-first"
upstream = "a"
limits = ["first"]

[[route]]
upstream = "a"
limits = ["first", "second"]
)");
    std::string answer;
    BOOST_TEST(deliveries(proxy, std::string(get), drops[0], connection::kept, answer) == 1u);
    BOOST_TEST(status_of(answer) == 502u);
    // The permits of the other rate were refunded.
    proxy.upstream.answer = [](std::string const&) { return ok(); };
    auto client = proxy.connect();
    for (int i = 0; i != 7; ++i)
        BOOST_TEST(proxy.ask(client, "GET /only-first HTTP/1.1\r\nHost: test\r\n\r\n") == 200u);
    BOOST_TEST(proxy.ask(client, "GET /only-first HTTP/1.1\r\nHost: test\r\n\r\n") == 429u);
}

BOOST_AUTO_TEST_SUITE_END()
