// Connections that start with a header of the PROXY protocol.

#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

// Files of this folder are compiled together.
namespace connections_of_a_balancer {
namespace {

using namespace std::chrono_literals;
using proxy::introduction_failure;
using support::field_of;
using support::get;
using support::local_proxy;
using support::status_of;

using failed = std::map<introduction_failure, std::uint64_t>;

struct behind_a_balancer {
    behind_a_balancer() { proxy.is_introduced = true; }

    // Sends a request, and returns the client that the upstream receives in X-Forwarded-For.
    std::string client_of(support::wire& connection, std::string_view request = get) {
        connection.send(request);
        proxy.settle();
        BOOST_TEST(status_of(connection.take()) == 200u);
        BOOST_REQUIRE(!proxy.upstream.requests.empty());
        return field_of(proxy.upstream.requests.back(), "X-Forwarded-For");
    }

    // How often a connection lacked its header, by reason.
    failed failures() {
        failed found;
        for (auto const why : {introduction_failure::untrusted, introduction_failure::invalid,
                               introduction_failure::timeout, introduction_failure::disconnected})
            if (auto const n = proxy.worker().accounting().counts()[why].value())
                found[why] = n;
        return found;
    }

    local_proxy proxy{support::forwards + R"(limits = ["rate"]
[[limit]]
name = "rate"
rule = "2/60s"
key = "client"
queue = "patience 0s"
[clients]
trusted = ["10.0.0.0/8"]
[timeouts]
header = "10s"
)"};
};

constexpr std::string_view one = "PROXY TCP4 192.0.2.1 10.0.0.9 1000 80\r\n";
constexpr std::string_view other = "PROXY TCP6 2001:db8::1 2001:db8::2 1000 80\r\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(a_balancer)

// The balancer forwards bytes of the client, which the balancer need not understand.
BOOST_FIXTURE_TEST_CASE(does_not_vouch_for_the_fields_of_the_client, behind_a_balancer) {
    auto const forged = "GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-Proto: https\r\n\r\n";
    auto connection = proxy.connect("10.0.0.1");
    connection.send(one);
    BOOST_TEST(client_of(connection, forged) == "192.0.2.1");
    BOOST_TEST(field_of(proxy.upstream.requests.back(), "X-Forwarded-Proto") == "http");
    auto trusted = proxy.connect("10.0.0.1");
    trusted.send("PROXY TCP4 10.0.0.7 10.0.0.9 1000 80\r\n");
    BOOST_TEST(client_of(trusted, forged) == "10.0.0.7");
    BOOST_TEST(field_of(proxy.upstream.requests.back(), "X-Forwarded-Proto") == "https");
}

BOOST_FIXTURE_TEST_CASE(names_the_client_once_per_connection, behind_a_balancer) {
    auto connection = proxy.connect("10.0.0.1");
    connection.send(one);
    proxy.settle();
    BOOST_TEST(!connection.ended());
    BOOST_TEST(client_of(connection) == "192.0.2.1");
    BOOST_TEST(client_of(connection) == "192.0.2.1");
    BOOST_TEST(proxy.ask(connection, get) == 429u);
    auto next = proxy.connect("10.0.0.1");
    BOOST_TEST(client_of(next, std::string(other) + std::string(get)) == "2001:db8::1");
    // A limit per client applies to the client that the balancer names.
    auto third = proxy.connect("10.0.0.2");
    BOOST_TEST(proxy.ask(third, std::string(one) + std::string(get)) == 429u);
}

BOOST_FIXTURE_TEST_CASE(may_make_its_own_requests, behind_a_balancer) {
    auto connection = proxy.connect("10.0.0.1");
    BOOST_TEST(client_of(connection, "PROXY UNKNOWN\r\n" + std::string(get)) == "10.0.0.1");
}

BOOST_FIXTURE_TEST_CASE(must_be_trusted, behind_a_balancer) {
    auto connection = proxy.connect("192.0.2.9");
    connection.send(std::string(one) + std::string(get));
    proxy.settle();
    BOOST_TEST(connection.ended());
    BOOST_TEST(connection.take() == "");
    BOOST_TEST(proxy.upstream.requests.empty());
    BOOST_TEST((failures() == failed{{introduction_failure::untrusted, 1}}));
}

BOOST_FIXTURE_TEST_CASE(must_send_its_header_first, behind_a_balancer) {
    auto connection = proxy.connect("10.0.0.1");
    connection.send(get);
    proxy.settle();
    BOOST_TEST(connection.ended());
    BOOST_TEST(connection.take() == "");
    BOOST_TEST(proxy.upstream.requests.empty());
    BOOST_TEST((failures() == failed{{introduction_failure::invalid, 1}}));
}

BOOST_FIXTURE_TEST_CASE(has_the_header_timeout_for_it, behind_a_balancer) {
    auto connection = proxy.connect("10.0.0.1");
    connection.send(one.substr(0, 5));
    proxy.pass(9999ms);
    BOOST_TEST(!connection.ended());
    proxy.pass(2 * net::watchdog::round + 1ms);
    BOOST_TEST(connection.ended());
    BOOST_TEST((failures() == failed{{introduction_failure::timeout, 1}}));
}

// As its checks do.
BOOST_FIXTURE_TEST_CASE(may_connect_and_send_nothing, behind_a_balancer) {
    proxy.connect("10.0.0.1").close();
    auto silent = proxy.connect("10.0.0.1");
    proxy.pass(11s);
    BOOST_TEST(silent.ended());
    BOOST_TEST(failures().empty());
    auto interrupted = proxy.connect("10.0.0.1");
    interrupted.send(one.substr(0, 5));
    proxy.settle();
    interrupted.close();
    proxy.settle();
    BOOST_TEST((failures() == failed{{introduction_failure::disconnected, 1}}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace connections_of_a_balancer
