#include "tls/names.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::vector<std::size_t> found(tls::names const& all, std::string_view name) {
    auto const list = all.find(name);
    return {list.begin(), list.end()};
}

using list = std::vector<std::size_t>;

}  // namespace

BOOST_AUTO_TEST_CASE(an_exact_name_comes_before_a_wildcard) {
    tls::names all;
    all.add("*.example.org", 0);
    all.add("a.example.org", 1);
    all.add("a.example.org", 2);
    BOOST_TEST(found(all, "a.example.org") == (list{1, 2}));
    BOOST_TEST(found(all, "b.example.org") == (list{0}));
}

BOOST_AUTO_TEST_CASE(the_order_of_certificates_decides_between_equal_names) {
    tls::names all;
    all.add("a.example", 5);
    all.add("a.example", 3);
    all.add("*.example", 4);
    all.add("*.example", 2);
    BOOST_TEST(found(all, "a.example") == (list{5, 3}));
    BOOST_TEST(found(all, "b.example") == (list{4, 2}));
    auto const both = all.find_all("A.example");
    BOOST_TEST(list(both.begin(), both.end()) == (list{5, 3, 4, 2}));
    auto const same = all.with("*.Example");
    BOOST_TEST(list(same.begin(), same.end()) == (list{4, 2}));
    BOOST_TEST(all.find_all("*.example").empty());
}

BOOST_AUTO_TEST_CASE(a_wildcard_matches_exactly_one_label) {
    tls::names all;
    all.add("*.example.org", 0);
    BOOST_TEST(found(all, "x.example.org") == (list{0}));
    for (auto const* const other :
         {"example.org", "y.x.example.org", ".example.org", "xexample.org", "", "x.example.org.",
          "*.example.org", "example.org.x", "."})
        BOOST_TEST(found(all, other) == list(), other);
}

BOOST_AUTO_TEST_CASE(names_are_compared_without_case) {
    tls::names all;
    all.add("A.Example", 0);
    all.add("*.B.EXAMPLE", 1);
    BOOST_TEST(found(all, "a.eXAMPLE") == (list{0}));
    BOOST_TEST(found(all, "X.b.example") == (list{1}));
    // Characters that differ in the same bit are not letters.
    all.add("a[b", 2);
    BOOST_TEST(found(all, "a{b") == list());
}

BOOST_AUTO_TEST_CASE(an_address_is_not_a_name) {
    for (auto const* const address : {"127.0.0.1", "::1", "2001:db8::7", "10.1"})
        BOOST_TEST(tls::names::is_address(address), address);
    for (auto const* const name : {"a", "1.example", "a.1e", "127.0.0.1.example", "", "a."})
        BOOST_TEST(!tls::names::is_address(name), name);
}

BOOST_AUTO_TEST_CASE(only_a_whole_first_label_can_be_a_wildcard) {
    for (auto const* const good :
         {"a", "a.example", "*.example", "xn--bcher-kva.example", "_x.example"})
        BOOST_TEST(tls::names::is_usable(good), good);
    for (auto const* const bad : {"", "*", "*.", "f*.example", "*f.example", "a.*.example",
                                  "*.*.example", "a b", "a\tb", "b\xc3\xbc.example"})
        BOOST_TEST(!tls::names::is_usable(bad), bad);
    BOOST_TEST(!tls::names::is_usable(std::string_view("a\0b", 3)));
}

BOOST_AUTO_TEST_CASE(of_clients_have_one_form) {
    BOOST_TEST(tls::names::normal("A.Example") == "a.example");
    BOOST_TEST(tls::names::normal("xn--A") == "xn--a");
    BOOST_TEST(tls::names::normal("").empty());
    for (auto const* const address : {"127.0.0.1", "::1", "2001:DB8::1", "10.1"})
        BOOST_TEST(tls::names::normal(address).empty());
}
