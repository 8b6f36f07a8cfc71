#include <weir/client_key.hpp>

#include "support/says.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <string>

using boost::asio::ip::make_address;
using support::says;
using weir::client_key;

BOOST_AUTO_TEST_SUITE(key_of_a_client)

BOOST_AUTO_TEST_CASE(is_its_address_or_its_network) {
    auto const key = [](char const* address, int v4 = 32, int v6 = 64) {
        return client_key(make_address(address), v4, v6);
    };
    BOOST_TEST(key("192.0.2.1") == 0xffffc0000201U);
    BOOST_TEST(key("192.0.2.1") == key("::ffff:192.0.2.1"));
    BOOST_TEST(key("192.0.2.1") != key("192.0.2.2"));
    BOOST_TEST(key("192.0.2.1", 24) == key("192.0.2.2", 24));
    BOOST_TEST(key("192.0.2.1", 24) == key("::ffff:192.0.2.9", 24));
    BOOST_TEST(key("192.0.2.1", 24) != key("192.0.3.1", 24));
    BOOST_TEST(key("192.0.2.1", 0) == key("10.1.2.3", 0));
    BOOST_TEST(key("2001:db8:1:2::3") == 0x20010db800010002U);
    BOOST_TEST(key("2001:db8:1:2::3") == key("2001:db8:1:2:ffff::"));
    BOOST_TEST(key("2001:db8:1:2::3") != key("2001:db8:1:3::3"));
    BOOST_TEST(key("2001:db8:1:2::3", 32, 48) == key("2001:db8:1:3::3", 32, 48));
    BOOST_TEST(key("2001:db8::", 32, 0) == 0U);
    BOOST_TEST(key("::1") == 0U);
    BOOST_TEST(key("::1") != key("0.0.0.0"));
    BOOST_TEST(key("fe80::1%1") == key("fe80::1%2"));
}

BOOST_AUTO_TEST_CASE(has_prefixes_within_their_bounds) {
    auto const address = make_address("192.0.2.1");
    BOOST_CHECK_EXCEPTION((void)client_key(address, 33), std::invalid_argument,
                          says("weir::client_key: v4_prefix is 33, but must be from 0 to 32"));
    BOOST_CHECK_THROW((void)client_key(address, -1), std::invalid_argument);
    BOOST_CHECK_THROW((void)client_key(address, 32, 65), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
