// The relay of a request to the upstream, and of the response to the client.

#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

// Files of this folder are compiled together.
namespace requests_that_are_relayed {
namespace {

using namespace std::chrono_literals;
using support::field_of;
using support::get;
using support::local_proxy;
using support::ok;
using support::reply;
using support::status_of;

constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";

struct one_client {
    std::string answer(std::string_view request) {
        client.send(request);
        proxy.settle();
        return client.take();
    }

    local_proxy proxy{"[timeouts]\nupstream = \"3s\"\n" + support::forwards};
    support::wire client = proxy.connect();
};

}  // namespace

BOOST_AUTO_TEST_SUITE(a_request)

// The upstream may still process it.
BOOST_FIXTURE_TEST_CASE(that_timed_out_at_the_upstream_is_not_sent_again, one_client) {
    BOOST_TEST(status_of(answer(get)) == 200u);
    proxy.upstream.requests.clear();
    proxy.upstream.answer = [](std::string const&) { return std::nullopt; };
    BOOST_TEST(answer(get) == "");
    proxy.pass(3s + 2 * net::watchdog::round);
    BOOST_TEST(status_of(client.take()) == 504u);
    proxy.pass(10s);
    BOOST_TEST(proxy.upstream.requests.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(gets_100_if_its_client_waits_for_it, one_client) {
    BOOST_TEST(answer("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n"
                      "Expect: 100-continue\r\n\r\n") == go_on);
    BOOST_TEST(status_of(answer("hello")) == 200u);
    BOOST_REQUIRE(proxy.upstream.requests.size() == 1u);
    BOOST_TEST(proxy.upstream.requests.front().ends_with("\r\n\r\nhello"));
    BOOST_TEST(field_of(proxy.upstream.requests.front(), "Expect") == "");
}

BOOST_FIXTURE_TEST_CASE(gets_no_100_if_its_client_already_sent_a_part_of_the_body, one_client) {
    BOOST_TEST(answer("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n"
                      "Expect: 100-continue\r\n\r\nhel") == "");
    BOOST_TEST(status_of(answer("lo")) == 200u);
}

BOOST_FIXTURE_TEST_CASE(with_an_incomplete_body_is_invalid, one_client) {
    client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhel");
    client.end();
    proxy.settle();
    BOOST_TEST(status_of(client.take()) == 400u);
    BOOST_TEST(proxy.upstream.requests.empty());
}

// The proxy responds to requests that arrived before it started to shut down.
BOOST_FIXTURE_TEST_CASE(that_arrived_before_the_shutdown_gets_a_response, one_client) {
    client.send(get);
    proxy.worker().drain();
    proxy.settle();
    auto const answer = client.take();
    BOOST_TEST(status_of(answer) == 200u);
    BOOST_TEST(field_of(answer, "Connection") == "close");
    BOOST_TEST(client.ended());
}

BOOST_FIXTURE_TEST_CASE(after_the_last_one_does_not_disturb_its_response, one_client) {
    auto const last = answer("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\nGET /more");
    BOOST_TEST(status_of(last) == 200u);
    BOOST_TEST(client.ended());
    // The proxy still reads, so it does not reset the connection.
    BOOST_CHECK_NO_THROW(client.send(" HTTP/1.1\r\n"));
    BOOST_TEST(proxy.upstream.requests.size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_response)

// The proxy sends its own 100.
BOOST_FIXTURE_TEST_CASE(that_is_interim_is_forwarded_unless_it_is_100, one_client) {
    proxy.upstream.answer = [](std::string const&) {
        return reply{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" +
                     ok("whole").text};
    };
    auto const text = answer(get);
    BOOST_TEST(text.starts_with("HTTP/1.1 103 Early Hints\r\n"));
    BOOST_TEST(text.find("\r\nLink: </a>\r\n") != text.npos);
    BOOST_TEST(text.find("100 Continue") == text.npos);
    BOOST_TEST(text.find("HTTP/1.1 200 OK\r\n") != text.npos);
    BOOST_TEST(text.ends_with("whole"));
}

// HTTP/1.0 has no interim responses.
BOOST_FIXTURE_TEST_CASE(that_is_interim_is_not_sent_to_a_client_of_http_1_0, one_client) {
    proxy.upstream.answer = [](std::string const&) {
        return reply{"HTTP/1.1 103 Early Hints\r\n\r\n" + ok("whole").text};
    };
    auto const text = answer("GET / HTTP/1.0\r\nHost: test\r\n\r\n");
    BOOST_TEST(status_of(text) == 200u);
    BOOST_TEST(text.ends_with("whole"));
}

// The proxy does not wait for the rest of the body, and sends `Connection: close` to the client.
BOOST_FIXTURE_TEST_CASE(that_rejects_an_incomplete_body_ends_the_connection, one_client) {
    proxy.upstream.answer = nullptr;
    BOOST_TEST(answer("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhel") == "");
    BOOST_REQUIRE(proxy.upstream.connections.size() == 1u);
    proxy.upstream.connections.front().send(
        "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    proxy.settle();
    auto const text = client.take();
    BOOST_TEST(status_of(text) == 413u);
    BOOST_TEST(field_of(text, "Connection") == "close");
    BOOST_TEST(text.ends_with("no"));
    BOOST_TEST(client.ended());
    BOOST_TEST(proxy.upstream.open() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace requests_that_are_relayed
