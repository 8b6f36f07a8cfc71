#include "net/resolve.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/test/unit_test.hpp>

#include <string>

BOOST_AUTO_TEST_SUITE(names)

BOOST_AUTO_TEST_CASE(leads_back_compares_addresses_and_ports) {
    struct row {
        char const *to, *at;
        unsigned short to_port = 80;
        bool back = true;
    };
    for (auto const& [to, at, to_port, back] :
         {row{"127.0.0.1", "127.0.0.1"}, row{"127.0.0.1", "0.0.0.0"}, row{"0.0.0.0", "127.0.0.1"},
          row{"::1", "::"}, row{"::1", "::1"}, row{"127.0.0.1", "127.0.0.1", 81, false},
          row{"127.0.0.2", "127.0.0.1", 80, false}, row{"10.0.0.1", "0.0.0.0", 80, false}}) {
        net::tcp::endpoint const there(net::asio::ip::make_address(to), to_port);
        net::tcp::endpoint const here(net::asio::ip::make_address(at), 80);
        BOOST_TEST(net::leads_back(there, here) == back, to << ":" << to_port << " " << at);
    }
}

BOOST_AUTO_TEST_CASE(an_address_resolves_to_itself) {
    net::error_code ec;
    auto const found = net::resolve("127.0.0.1", "80", ec);
    BOOST_TEST(!ec);
    BOOST_TEST_REQUIRE(found.size() == 1U);
    BOOST_TEST((net::tcp_endpoint(found[0]) ==
                net::tcp::endpoint(net::asio::ip::address_v4::loopback(), 80)));
    BOOST_TEST(net::resolve("127.0.0.1", "no such port", ec).empty());
    BOOST_TEST(bool(ec));
}

BOOST_AUTO_TEST_CASE(unix_sockets_have_a_path) {
    auto const found = net::unix_endpoint("/run/some.sock");
    BOOST_TEST_REQUIRE(found.has_value());
    BOOST_TEST(net::path_of(*found) == "/run/some.sock");
    BOOST_TEST(net::path_of(*net::unix_endpoint(std::string(107, 'x'))) == std::string(107, 'x'));
    BOOST_TEST(!net::unix_endpoint(std::string(108, 'x')).has_value());
    BOOST_TEST(!net::tcp_endpoint(*found).has_value());
    BOOST_TEST(net::leads_back(*found, *found));
    BOOST_TEST(!net::leads_back(*found, *net::unix_endpoint("/run/other.sock")));
    BOOST_TEST(net::path_of(net::tcp::endpoint(net::asio::ip::address_v4::loopback(), 80)).empty());
}

BOOST_AUTO_TEST_SUITE_END()
