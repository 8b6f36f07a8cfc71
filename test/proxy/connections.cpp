#include "local_proxy.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <ostream>
#include <string>

using namespace std::chrono_literals;
using support::forwards;
using support::get;
using support::local_proxy;
using support::ok;
using support::reply;
using support::status_of;

namespace {

struct answer {
    char const* name;
    char const* text;
    bool is_kept;

    friend std::ostream& operator<<(std::ostream& out, answer const& a) { return out << a.name; }
};

constexpr std::array answers{
    answer{"complete", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true},
    answer{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
    answer{"in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
           true},
    answer{"without a body", "HTTP/1.1 204 No Content\r\n\r\n", true},
    answer{"an error", "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", true},
    answer{"after an interim response",
           "HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
    answer{"of 1.0 with keep-alive",
           "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", true},
    answer{"the last", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
           false},
    answer{"of 1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false},
    answer{"with a byte after it", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokX", false},
    answer{"with a response after it",
           "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
           "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
           false},
    answer{"with a byte after its chunks",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nX", false},
    answer{"without a body and with a byte after it", "HTTP/1.1 204 No Content\r\n\r\nX", false},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(a_connection_to_a_server)

namespace data = boost::unit_test::data;

BOOST_DATA_TEST_CASE(is_kept_after_a_response_or_not, data::make(answers), a) {
    local_proxy proxy(forwards);
    proxy.upstream.answer = [&](std::string const&) { return reply{a.text}; };
    auto client = proxy.connect();
    client.send(get);
    proxy.settle();
    auto const first = client.take();
    BOOST_TEST(first.find("evil") == first.npos);
    BOOST_TEST(proxy.upstream.open() == (a.is_kept ? 1u : 0u));
    proxy.upstream.answer = [](std::string const&) { return ok("next"); };
    client.send(get);
    proxy.settle();
    BOOST_TEST(client.take().ends_with("next"));
    BOOST_TEST(proxy.upstream.connections.size() == (a.is_kept ? 1u : 2u));
}

// The end of such a response is the end of the connection.
BOOST_AUTO_TEST_CASE(is_not_kept_if_its_end_delimits_the_response) {
    local_proxy proxy(forwards);
    proxy.upstream.answer = [](std::string const&) {
        return reply{"HTTP/1.1 200 OK\r\n\r\nall of it", true};
    };
    auto client = proxy.connect();
    client.send(get);
    proxy.settle();
    BOOST_TEST(client.take().find("all of it") != std::string::npos);
    BOOST_TEST(proxy.upstream.open() == 0u);
}

BOOST_AUTO_TEST_CASE(is_kept_for_the_configured_time) {
    local_proxy proxy(forwards);
    BOOST_TEST(proxy.ask() == 200u);
    proxy.pass(4900ms);
    BOOST_TEST(proxy.upstream.open() == 1u);
    BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(proxy.upstream.connections.size() == 1u);
    proxy.pass(4900ms);  // from its last use
    BOOST_TEST(proxy.upstream.open() == 1u);
    proxy.pass(300ms);
    BOOST_TEST(proxy.upstream.open() == 0u);
    BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(proxy.upstream.connections.size() == 2u);
}

// Bytes that a server sends without a request would be read as the next response.
BOOST_AUTO_TEST_CASE(is_not_used_again_if_the_server_sent_bytes_without_a_request) {
    local_proxy proxy(forwards);
    BOOST_TEST(proxy.ask() == 200u);
    proxy.upstream.connections.front().send(ok("unasked").text);
    auto client = proxy.connect();
    proxy.upstream.answer = [](std::string const&) { return ok("asked"); };
    client.send(get);
    proxy.settle();
    BOOST_TEST(client.take().ends_with("\r\n\r\nasked"));
    BOOST_TEST(proxy.upstream.connections.size() == 2u);
}

BOOST_AUTO_TEST_CASE(is_not_used_again_if_the_server_closed_it) {
    local_proxy proxy(forwards);
    BOOST_TEST(proxy.ask() == 200u);
    proxy.upstream.connections.front().close();
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nhi") ==
               200u);
    BOOST_TEST(proxy.upstream.requests.size() == 2u);
    BOOST_TEST(proxy.upstream.connections.size() == 2u);
}

BOOST_AUTO_TEST_CASE(is_kept_after_a_body_that_arrives_in_parts) {
    local_proxy proxy(forwards);
    auto client = proxy.connect();
    BOOST_TEST(proxy.ask(client, "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\n1") ==
               0u);
    BOOST_TEST(proxy.ask(client, "2") == 0u);
    BOOST_TEST(proxy.ask(client, "3") == 200u);
    BOOST_TEST(proxy.upstream.requests.back().ends_with("\r\n\r\n123"));
    BOOST_TEST(proxy.ask(client, get) == 200u);
    BOOST_TEST(proxy.upstream.connections.size() == 1u);
}

BOOST_AUTO_TEST_CASE(is_closed_when_the_proxy_stops) {
    local_proxy proxy(forwards);
    BOOST_TEST(proxy.ask() == 200u);
    proxy.pass(1s);
    BOOST_TEST(proxy.upstream.open() == 1u);
    proxy.worker().drain();
    proxy.settle();
    BOOST_TEST(proxy.upstream.open() == 0u);
}

// The proxy reuses the connection that was used last, and opens no more connections than concurrent requests need.
BOOST_AUTO_TEST_CASE(is_shared_by_all_clients) {
    local_proxy proxy(forwards);
    for (int i = 0; i != 5; ++i)
        BOOST_TEST(proxy.ask() == 200u);
    BOOST_TEST(proxy.upstream.connections.size() == 1u);
}

BOOST_AUTO_TEST_CASE(is_one_of_a_limited_number) {
    local_proxy proxy(R"(
[[upstream]]
name = "a"
[[upstream.server]]
address = "UPSTREAM"
seats = 2
max_connections = 2

[[route]]
upstream = "a"
)");
    proxy.upstream.answer = nullptr;
    std::list<support::wire> clients;
    for (int i = 0; i != 4; ++i) {
        clients.push_back(proxy.connect());
        BOOST_TEST(proxy.ask(clients.back(), get) == 0u);
    }
    BOOST_TEST(proxy.upstream.connections.size() == 2u);
    for (int i = 0; i != 2; ++i) {
        for (auto& one : proxy.upstream.connections)
            if (!one.take().empty())
                one.send(ok().text);
        proxy.settle();
    }
    for (auto& client : clients)
        BOOST_TEST(status_of(client.take()) == 200u);
    BOOST_TEST(proxy.upstream.connections.size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

// The server has no seats, so only its connections delay requests.
BOOST_AUTO_TEST_SUITE(a_request_above_the_connections_of_a_server)

namespace {

constexpr auto rounds = 2 * net::watchdog::round;

struct narrow_proxy {
    void answer(support::wire& connection) {
        connection.send(ok().text);
        proxy.settle();
    }
    [[nodiscard]] bool has_asked(support::wire& connection) { return !connection.take().empty(); }

    static inline std::string const to_one = R"(
[timeouts]
upstream = "10s"

[[upstream]]
name = "a"
[[upstream.server]]
address = "UPSTREAM"
max_connections = 1

[[route]]
upstream = "a"
)";
    local_proxy proxy{to_one};
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(waits_in_arrival_order, narrow_proxy) {
    proxy.upstream.answer = nullptr;
    std::list<support::wire> clients;
    for (int i = 0; i != 4; ++i) {
        clients.push_back(proxy.connect());
        clients.back().send("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: test\r\n\r\n");
        proxy.pass(1s);
    }
    for (auto& client : clients) {
        BOOST_TEST(proxy.upstream.open() == 1u);
        auto& used = proxy.upstream.connections.back();
        auto const number = std::to_string(proxy.upstream.connections.size() - 1);
        BOOST_TEST(used.take().starts_with("GET /" + number + " "));
        answer(used);
        BOOST_TEST(status_of(client.take()) == 200u);
    }
}

BOOST_FIXTURE_TEST_CASE(waits_at_most_the_timeout_of_the_upstream, narrow_proxy) {
    proxy.upstream.answer = nullptr;
    auto first = proxy.connect();
    first.send(get);
    proxy.pass(4s);
    auto second = proxy.connect();
    second.send(get);
    proxy.pass(5s);
    proxy.upstream.connections.front().send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1");
    proxy.pass(4999ms);
    BOOST_TEST(second.look() == "");
    proxy.pass(rounds);
    BOOST_TEST(status_of(second.take()) == 504u);
    // The next request does not wait for it.
    auto third = proxy.connect();
    BOOST_TEST(proxy.ask(third, get) == 0u);
    proxy.upstream.connections.front().send("2");
    proxy.settle();
    BOOST_TEST(proxy.upstream.connections.size() == 2u);
    BOOST_TEST(has_asked(proxy.upstream.connections.back()));
}

BOOST_FIXTURE_TEST_CASE(replaces_a_connection_that_would_be_kept, narrow_proxy) {
    BOOST_TEST(proxy.ask() == 200u);
    proxy.upstream.answer = nullptr;
    auto first = proxy.connect();
    auto second = proxy.connect();
    BOOST_TEST(proxy.ask(first, get) == 0u);
    BOOST_TEST(proxy.ask(second, get) == 0u);
    answer(proxy.upstream.connections.front());
    BOOST_TEST(status_of(first.take()) == 200u);
    BOOST_TEST(proxy.upstream.open() == 1u);
    BOOST_TEST(has_asked(proxy.upstream.connections.back()));
}

BOOST_FIXTURE_TEST_CASE(continues_when_a_reload_allows_more_connections, narrow_proxy) {
    proxy.upstream.answer = nullptr;
    std::list<support::wire> clients;
    for (int i = 0; i != 4; ++i) {
        clients.push_back(proxy.connect());
        BOOST_TEST(proxy.ask(clients.back(), get) == 0u);
    }
    BOOST_TEST(proxy.upstream.connections.size() == 1u);
    auto to_three = to_one;
    to_three.replace(to_three.find("max_connections = 1"), 19, "max_connections = 3");
    proxy.reload(to_three);
    proxy.settle();
    BOOST_TEST(proxy.upstream.open() == 3u);
    for (auto& one : proxy.upstream.connections)
        BOOST_TEST(has_asked(one));
}

BOOST_AUTO_TEST_SUITE_END()
