#include "tool/network_map.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

// Files of this folder are compiled together.
namespace maps_of_networks {
namespace {

std::array<std::uint8_t, 16> bytes(std::string_view address) {
    return tool::network_of(address)->address;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(values_by_network)

BOOST_AUTO_TEST_CASE(are_found_by_the_longest_network) {
    tool::network_map<std::string> map;
    BOOST_TEST(map.empty());
    for (auto const* const text : {"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "0.0.0.0/0", "::/0",
                                   "2001:db8::/32", "2001:db8:0:1::/64"})
        BOOST_TEST(map.add(*tool::network_of(text), text));
    BOOST_TEST(!map.add(*tool::network_of("10.0.0.0/8"), "again"));
    BOOST_TEST(!map.empty());
    struct row {
        std::string_view address, network;
    };
    for (auto const& [address, network] :
         {row{"10.1.2.3", "10.1.2.3"}, row{"10.1.2.4", "10.1.0.0/16"},
          row{"10.2.0.1", "10.0.0.0/8"}, row{"11.0.0.1", "0.0.0.0/0"},
          row{"::ffff:10.9.9.9", "10.0.0.0/8"}, row{"2001:db8:0:1::7", "2001:db8:0:1::/64"},
          row{"2001:db8::7", "2001:db8::/32"}, row{"fe80::1", "::/0"}})
        BOOST_TEST(*map.find(bytes(address)) == network, address);
}

// Unlike IPv4, all of IPv6 is `::/0`.
BOOST_AUTO_TEST_CASE(of_ipv6_are_not_found_by_ipv4_addresses) {
    tool::network_map<int> map;
    map.add(*tool::network_of("::/0"), 6);
    BOOST_TEST((map.find(bytes("10.0.0.1")) == nullptr));
    BOOST_TEST((map.find(bytes("::1")) != nullptr));
    BOOST_TEST((map.find(bytes("::ffff:10.0.0.1")) == nullptr));
}

// The oracle asks each network whether it contains the address.
BOOST_AUTO_TEST_CASE(are_what_a_search_in_all_networks_finds) {
    std::mt19937 random(1);
    auto const bit = [&] { return static_cast<int>(random() % 2); };
    for (int round = 0; round != 200; ++round) {
        std::vector<tool::network> networks;
        tool::network_map<std::size_t> map;
        auto const address = [&] {  // few bits vary, so that networks contain each other
            auto a = bytes("10.0.0.0");
            for (int i : {12, 13, 15})
                a[static_cast<std::size_t>(i)] ^= static_cast<std::uint8_t>(bit() << random() % 8);
            return a;
        };
        for (int i = 0; i != 20; ++i) {
            auto const n =
                tool::network{address(), 128}.first(96 + static_cast<int>(random() % 33));
            if (map.add(n, networks.size()))
                networks.push_back(n);
        }
        for (int i = 0; i != 50; ++i) {
            auto const a = address();
            tool::network const* longest = nullptr;
            for (auto const& n : networks)
                if (n.contains(a) && (!longest || n.prefix > longest->prefix))
                    longest = &n;
            auto const* const found = map.find(a);
            BOOST_TEST((found ? &networks[*found] : nullptr) == longest);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace maps_of_networks
