#include "tool/network.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

std::array<std::uint8_t, 16> bytes(std::string_view address) {
    auto const alone = tool::network_of(address);
    BOOST_REQUIRE_MESSAGE(alone && alone->prefix == 128, address);
    return alone->address;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(networks)

BOOST_AUTO_TEST_CASE(are_formatted_as_parsed) {
    for (std::string const text : {"10.0.0.0/8", "10.1.2.3", "0.0.0.0/0", "192.168.1.128/25",
                                   "::/0", "fd00::/8", "::1", "2001:db8:0:1::/64"}) {
        auto const found = tool::network_of(text);
        BOOST_REQUIRE_MESSAGE(found, text);
        BOOST_TEST(to_string(*found) == text);
    }
    BOOST_TEST(to_string(*tool::network_of("10.0.0.1/32")) == "10.0.0.1");
    BOOST_TEST(to_string(*tool::network_of("::ffff:10.0.0.0/104")) == "10.0.0.0/8");
}

BOOST_AUTO_TEST_CASE(reject_invalid_texts) {
    for (std::string_view const text :
         {"", "/", "10.0.0.0/", "/8", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.1/8", "10.0.0/8",
          "::1/129", "fd00::1/8", "localhost", "10.0.0.0/8 ", "10.0.0.0/8/8", "::1%lo"})
        BOOST_TEST(!tool::network_of(text), text);
}

BOOST_AUTO_TEST_CASE(contain_addresses_with_their_prefix) {
    struct row {
        std::string_view network, address;
        bool inside = true;
    };
    for (auto const& [network, address, inside] :
         {row{"10.0.0.0/8", "10.255.255.255"}, row{"10.0.0.0/8", "11.0.0.0", false},
          row{"10.128.0.0/9", "10.128.0.0"}, row{"10.128.0.0/9", "10.127.255.255", false},
          row{"0.0.0.0/0", "1.2.3.4"}, row{"0.0.0.0/0", "::1", false}, row{"::/0", "1.2.3.4"},
          row{"::/0", "fe80::1"}, row{"10.1.2.3", "10.1.2.3"}, row{"10.1.2.3", "10.1.2.2", false},
          row{"10.0.0.0/8", "::ffff:10.1.1.1"}, row{"fd00::/9", "fd7f::1"},
          row{"fd00::/9", "fd80::1", false}, row{"::1", "::1"}, row{"::1", "::2", false}})
        BOOST_TEST(tool::network_of(network)->contains(bytes(address)) == inside,
                   network << " " << address);
}

BOOST_AUTO_TEST_SUITE_END()
