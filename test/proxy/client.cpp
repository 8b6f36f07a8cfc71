// The address of the client of a request.

#include "proxy/client.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/test/unit_test.hpp>

#include <initializer_list>
#include <string>
#include <string_view>

// Files of this folder are compiled together.
namespace clients_of_requests {
namespace {

namespace ip = boost::asio::ip;

config::clients_options trusting(std::initializer_list<std::string_view> networks) {
    config::clients_options c;
    for (auto const n : networks)
        c.trusted.push_back(*tool::network_of(n));
    return c;
}

struct by_x_forwarded_for {
    config::clients_options options = trusting({"10.0.0.0/8", "fd00::/8"});

    // The client of a request from 10.0.0.1 with these fields.
    std::string client(std::string const& fields, char const* peer = "10.0.0.1") {
        auto const text = "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
        http::request_head head;
        BOOST_REQUIRE(!http::parse(text, head));
        return proxy::client_of(options, head, ip::make_address(peer)).to_string();
    }
    std::string of(std::string const& list) { return client("X-Forwarded-For: " + list + "\r\n"); }
};

struct by_forwarded : by_x_forwarded_for {
    by_forwarded() { options.forwarded_by = config::forwarded_by::forwarded; }
    std::string of(std::string const& list) { return client("Forwarded: " + list + "\r\n"); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(the_client_of_a_request)

BOOST_FIXTURE_TEST_CASE(is_the_peer_unless_it_is_trusted, by_x_forwarded_for) {
    BOOST_TEST(client("") == "10.0.0.1");
    BOOST_TEST(client("X-Forwarded-For: 192.0.2.1\r\n", "192.0.2.9") == "192.0.2.9");
    BOOST_TEST(client("X-Forwarded-For: 192.0.2.1\r\n", "fd00::1") == "192.0.2.1");
    BOOST_TEST(client("X-Forwarded-For: 192.0.2.1\r\n", "::ffff:10.0.0.1") == "192.0.2.1");
    options = {};
    BOOST_TEST(of("192.0.2.1") == "10.0.0.1");
}

// The client may have written the addresses to its left.
BOOST_FIXTURE_TEST_CASE(is_the_rightmost_address_that_is_not_trusted, by_x_forwarded_for) {
    BOOST_TEST(of("192.0.2.1, 192.0.2.2") == "192.0.2.2");
    BOOST_TEST(of("192.0.2.1, 192.0.2.2, 10.9.9.9, fd00::5") == "192.0.2.2");
    BOOST_TEST(of("10.0.0.7, 10.0.0.8") == "10.0.0.7");  // all addresses are trusted
    BOOST_TEST(of("192.0.2.1,,  192.0.2.2 ,") == "192.0.2.2");
    BOOST_TEST(client("X-Forwarded-For: 192.0.2.1\r\nx-forwarded-for: 192.0.2.2, 10.0.0.3\r\n") ==
               "192.0.2.2");
    BOOST_TEST(client("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 10.0.0.3\r\n") ==
               "192.0.2.1");
}

BOOST_FIXTURE_TEST_CASE(is_the_nearest_address_right_of_an_invalid_one, by_x_forwarded_for) {
    BOOST_TEST(of("192.0.2.1, unknown, 10.0.0.3") == "10.0.0.3");
    BOOST_TEST(of("192.0.2.1, unknown") == "10.0.0.1");
    BOOST_TEST(of("192.0.2.1, \"192.0.2.2\"") == "10.0.0.1");  // X-Forwarded-For has no quotes
}

BOOST_FIXTURE_TEST_CASE(may_have_a_port, by_x_forwarded_for) {
    for (std::string const port : {"", ":80", ":65535"}) {
        BOOST_TEST(of("192.0.2.1" + port) == "192.0.2.1");
        BOOST_TEST(of("[2001:db8::1]" + port) == "2001:db8::1");
    }
    BOOST_TEST(of("2001:db8::1") == "2001:db8::1");
    for (std::string const wrong :
         {"192.0.2.1:", "192.0.2.1:x", "192.0.2.1:80x", "[2001:db8::1", "[2001:db8::1]80",
          "[2001:db8::1]:", "[2001:db8::1]:x", "2001:db8::1]", "[]"})
        BOOST_TEST(of(wrong) == "10.0.0.1", wrong);
}

BOOST_FIXTURE_TEST_CASE(is_read_from_the_configured_field_only, by_x_forwarded_for) {
    BOOST_TEST(client("Forwarded: for=192.0.2.1\r\n") == "10.0.0.1");
    options.forwarded_by = config::forwarded_by::forwarded;
    BOOST_TEST(of("192.0.2.1") == "10.0.0.1");
    BOOST_TEST(client("Forwarded: for=192.0.2.1\r\n") == "192.0.2.1");
}

BOOST_FIXTURE_TEST_CASE(is_the_value_of_for, by_forwarded) {
    BOOST_TEST(of("for=192.0.2.60;proto=http;by=203.0.113.43") == "192.0.2.60");
    BOOST_TEST(of("proto=http; For=192.0.2.60") == "192.0.2.60");
    BOOST_TEST(of("for=192.0.2.1, for=192.0.2.2") == "192.0.2.2");
    BOOST_TEST(of("for=192.0.2.1, for=10.0.0.2") == "192.0.2.1");
    BOOST_TEST(of("for=\"192.0.2.43:47011\"") == "192.0.2.43");
    BOOST_TEST(of("for=\"[2001:db8:cafe::17]:4711\"") == "2001:db8:cafe::17");
    BOOST_TEST(of("for=\"192.0.2.43:_hidden\"") == "192.0.2.43");
    for (std::string const wrong :
         {"192.0.2.1", "by=192.0.2.1", "for=unknown", "for=_hidden", "for", "for=", "for=\"\""})
        BOOST_TEST(of(wrong) == "10.0.0.1", wrong);
}

// A comma or a semicolon inside quotes is not a separator.
BOOST_FIXTURE_TEST_CASE(is_not_read_from_a_quoted_value, by_forwarded) {
    BOOST_TEST(of("for=192.0.2.1;ext=\"a, for=192.0.2.9\"") == "192.0.2.1");
    BOOST_TEST(of("for=192.0.2.1;ext=\"a;for=192.0.2.9\"") == "192.0.2.1");
    BOOST_TEST(of(R"(for=192.0.2.1;ext="a\", for=192.0.2.9")") == "192.0.2.1");
}

// A client may have opened a quote that it did not close.
BOOST_FIXTURE_TEST_CASE(is_not_read_from_a_malformed_element, by_forwarded) {
    BOOST_TEST(of("for=192.0.2.9;ext=\"a, for=192.0.2.1") == "10.0.0.1");
    BOOST_TEST(of("for=192.0.2.9;ext=a\"b\"") == "10.0.0.1");
    BOOST_TEST(of("for=192.0.2.9;ext=\"a\"b") == "10.0.0.1");
    BOOST_TEST(of("ext=\"a\"b;for=192.0.2.9") == "10.0.0.1");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(the_peer_of_a_unix_socket_is_trusted_if_any_network_is) {
    BOOST_TEST(!proxy::is_trusted({}, {}));
    BOOST_TEST(proxy::is_trusted(trusting({"192.0.2.0/24"}), {}));
    BOOST_TEST(!proxy::is_trusted(trusting({"192.0.2.0/24"}), ip::make_address("192.0.3.1")));
    BOOST_TEST(proxy::is_trusted(trusting({"192.0.2.0/24"}), ip::make_address("192.0.2.255")));
    BOOST_TEST(proxy::name_of({}) == "unknown");
    BOOST_TEST(proxy::name_of(ip::make_address("::1")) == "::1");
    BOOST_TEST(proxy::name_of(ip::make_address("::ffff:192.0.2.1")) == "192.0.2.1");
}

}  // namespace clients_of_requests
