#include "limiting/request.hpp"

#include <weir/client_key.hpp>
#include <weir/order.hpp>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <ostream>
#include <string>
#include <string_view>

namespace data = boost::unit_test::data;

namespace {

struct host_case {
    char const* pattern;
    char const* host;
    bool fits;

    friend std::ostream& operator<<(std::ostream& out, host_case const& c) {
        return out << c.pattern << " and " << c.host;
    }
};
constexpr host_case hosts[] = {
    {"", "example.org", true},
    {"", "", true},
    {"example.org", "example.org", true},
    {"example.org", "EXAMPLE.org", true},
    {"example.org", "example.org:8080", true},
    {"example.org", "example.org.", true},
    {"example.org", "example.org.:8080", true},
    {"example.org", "example.com", false},
    {"example.org", "www.example.org", false},
    {"example.org", "", false},
    {"*.example.org", "www.example.org", true},
    {"*.example.org", "a.b.Example.org:80", true},
    {"*.example.org", "example.org", false},
    {"*.example.org", ".example.org", false},
    {"*.example.org", "anexample.org", false},
    {"[::1]", "[::1]", true},
    {"[::1]", "[::1]:8080", true},
    {"[::1]", "[::2]", false},
};

struct priority_case {
    std::string_view value;
    int priority;

    friend std::ostream& operator<<(std::ostream& out, priority_case const& c) {
        return out << c.value;
    }
};
constexpr int unsaid = weir::standing().priority;
constexpr priority_case priorities[] = {
    {"0", 0},          {"7", 7},         {"8", unsaid}, {"x", unsaid},   {"", unsaid},
    {"12", unsaid},    {"u=0", 0},       {"u=7", 7},    {"u=8", unsaid}, {"u=12", unsaid},
    {"u=", unsaid},    {"u=-1", unsaid}, {"i, u=5", 5}, {"i,\tu=5", 5},  {"u=1, i", 1},
    {"u=1,i", 1},      {"u=1;a=2", 1},   {"u=1 ", 1},   {"i", unsaid},   {"i, i", unsaid},
    {"a=u=3", unsaid}, {"u=2, u=6", 2},
};

bool fits(config::route const& r, std::string_view host, std::string_view path,
          std::string_view method) {
    return limiting::fits(r, host, path, method);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(requests)

BOOST_DATA_TEST_CASE(match_a_host, data::make(hosts), c) {
    config::route r;
    r.host = c.pattern;
    BOOST_TEST(fits(r, c.host, "/", "GET") == c.fits);
}

BOOST_AUTO_TEST_CASE(match_a_route_by_host_and_path_and_method) {
    config::route r;
    r.path = "/api";
    r.methods = {"GET", "PUT"};
    BOOST_TEST(fits(r, "", "/api", "GET"));
    BOOST_TEST(fits(r, "", "/api/a", "PUT"));
    BOOST_TEST(!fits(r, "", "/apis", "GET"));
    BOOST_TEST(!fits(r, "", "/", "GET"));
    BOOST_TEST(!fits(r, "", "/api", "POST"));
    BOOST_TEST(!fits(r, "", "/api", "get"));  // methods are case-sensitive
    r.host = "example.org";
    BOOST_TEST(!fits(r, "example.com", "/api", "GET"));
    r = {};  // matches every path, also `*` of OPTIONS
    r.path = "/";
    BOOST_TEST(fits(r, "", "*", "OPTIONS"));
}

BOOST_DATA_TEST_CASE(name_their_priority, data::make(priorities), c) {
    BOOST_TEST(limiting::priority_of(c.value) == c.priority);
}

BOOST_AUTO_TEST_CASE(have_the_address_of_their_key) {
    for (auto const* const text : {"192.0.2.1", "0.0.0.0", "2001:db8:1:2::"}) {
        auto const address = boost::asio::ip::make_address(text);
        BOOST_TEST(limiting::address_of_key(weir::client_key(address)).to_string() == text);
    }
}

BOOST_AUTO_TEST_SUITE_END()
