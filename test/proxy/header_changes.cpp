// Variables in the headers that a route adds.

#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <vector>

// Files of this folder are compiled together.
namespace changes_of_headers {
namespace {

using support::field_of;
using support::local_proxy;

struct described : local_proxy {
    described()
        : local_proxy(R"(
[clients]
trusted = ["10.0.0.0/8"]

[[upstream]]
name = "a"
servers = ["UPSTREAM"]

[[route]]
path = "/own"
respond = 299
response_headers = { add = { X-All = "{client} {host} {id} {route}" } }

[[route]]
host = "plain.example"
upstream = "a"
request_headers = { add = { X-All = "{{client}}" } }

[[route]]
method = ["GET", "POST"]
upstream = "a"
body_buffer = 0
[route.request_headers.add]
X-All = "{client} {host} {id} {route}"
[route.response_headers.add]
X-All = "{client} {host} {id} {route}"
)") {}

    // The values of X-All that the upstream and the client get. The upstream gets no request if the proxy responds.
    std::vector<std::string> seen(std::string const& request,
                                  std::string const& from = "10.0.0.1") {
        auto client = connect(from);
        client.send(request);
        settle();
        std::vector<std::string> texts;
        if (!upstream.requests.empty())
            texts.push_back(field_of(upstream.requests.back(), "X-All"));
        texts.push_back(field_of(client.take(), "X-All"));
        upstream.requests.clear();
        return texts;
    }
};

std::string get(std::string const& fields, std::string const& path = "/") {
    return "GET " + path + " HTTP/1.1\r\nX-Request-Id: i1\r\n" + fields + "\r\n";
}

using texts = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(variables)

BOOST_FIXTURE_TEST_CASE(describe_the_request, described) {
    BOOST_TEST(seen(get("Host: test:81\r\n")) == texts(2, "10.0.0.1 test i1 GET,POST /"),
               boost::test_tools::per_element());
    BOOST_TEST(seen(get("Host: [::1]:81\r\nX-Forwarded-For: 2001:db8::1\r\n")) ==
                   texts(2, "2001:db8::1 [::1] i1 GET,POST /"),
               boost::test_tools::per_element());
    BOOST_TEST(seen(get("Host: test\r\nX-Forwarded-For: 192.0.2.1\r\n"), "192.0.2.9") ==
                   texts(2, "192.0.2.9 test i1 GET,POST /"),
               boost::test_tools::per_element());
    BOOST_TEST(
        seen("GET / HTTP/1.0\r\nX-Request-Id: i2\r\n\r\n") == texts(2, "10.0.0.1  i2 GET,POST /"),
        boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(are_in_responses_of_the_proxy, described) {
    BOOST_TEST(seen(get("Host: test\r\n", "/own")) == texts(1, "10.0.0.1 test i1 /own"),
               boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(are_only_in_braces_that_are_not_doubled, described) {
    BOOST_TEST(seen(get("Host: plain.example\r\n")).front() == "{client}");
}

// The proxy does not forward a field of the client with the same name.
BOOST_FIXTURE_TEST_CASE(have_no_value_of_another_field, described) {
    BOOST_TEST(
        seen(get("Host: test\r\nx-all: {id}\r\n")) == texts(2, "10.0.0.1 test i1 GET,POST /"),
        boost::test_tools::per_element());
}

// The body overwrites the header in the buffer before the response comes.
BOOST_FIXTURE_TEST_CASE(outlive_the_header_of_the_request, described) {
    upstream.answer = nullptr;
    auto client = connect();
    std::string const name(60, 'h');
    client.send(
        "POST / HTTP/1.1\r\nHost: " + name +
        "\r\nX-Forwarded-For: 2001:db8:1111:2222:3333:4444:5555:6666\r\nX-Request-Id: i1\r\n"
        "Content-Length: 100000\r\n\r\n");
    settle();
    for (int i = 0; i != 10; ++i) {
        client.send(std::string(10'000, 'x'));
        settle();
    }
    upstream.connections.front().send(support::ok().text);
    settle();
    BOOST_TEST(field_of(client.take(), "X-All") ==
               "2001:db8:1111:2222:3333:4444:5555:6666 " + name + " i1 GET,POST /");
}

// Values of a client cannot end the line: neither a host nor an id nor an address has such characters.
BOOST_FIXTURE_TEST_CASE(inject_nothing, described) {
    for (std::string const text :
         {"a\rX-B: 1", "a\nX-B: 1", "a\tX-B: 1", "a X-B: 1", "a%0d%0aX-B: 1"}) {
        for (std::string const name : {"Host", "X-Request-Id", "X-Forwarded-For"}) {
            upstream.requests.clear();
            auto client = connect();
            auto const host = name == "Host" ? "" : "Host: test\r\n";
            client.send("GET / HTTP/1.1\r\n" + (host + name) + ": " + text + "\r\n\r\n");
            settle();
            auto const answer = client.take();
            BOOST_TEST(answer.find("\nX-B:") == answer.npos);
            for (auto const& request : upstream.requests) {
                BOOST_TEST(request.find("\nX-B:") == request.npos);
                auto const value = field_of(request, "X-All");
                auto const is_odd = [](char c) { return c < ' ' || c == 127; };
                BOOST_TEST(std::ranges::none_of(value, is_odd));
            }
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace changes_of_headers
