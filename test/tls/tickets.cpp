#include "tls/tickets.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

namespace {

using namespace std::chrono_literals;
using tls::ticket_keys;

ticket_keys::time_point at(std::chrono::seconds after) {
    return ticket_keys::time_point(1000h) + after;
}

bool equal(ticket_keys::key const& a, ticket_keys::key const& b) {
    return a.name == b.name && a.encryption == b.encryption && a.authentication == b.authentication;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_key_stays_for_twelve_hours) {
    ticket_keys keys(at(0s));
    auto const first = keys.current(at(0s));
    BOOST_TEST(equal(keys.current(at(12h - 1s)), first));
    auto const second = keys.current(at(12h));
    BOOST_TEST(!equal(second, first));
    BOOST_TEST(equal(keys.current(at(24h - 1s)), second));
    BOOST_TEST(!equal(keys.current(at(24h)), second));
}

BOOST_AUTO_TEST_CASE(all_parts_of_a_key_are_random) {
    ticket_keys a(at(0s));
    ticket_keys b(at(0s));
    auto const one = a.current(at(0s));
    auto const other = b.current(at(0s));
    BOOST_TEST((one.name != other.name));
    BOOST_TEST((one.encryption != other.encryption));
    BOOST_TEST((one.authentication != other.authentication));
    BOOST_TEST((one.encryption != one.authentication));
}

BOOST_AUTO_TEST_CASE(a_ticket_of_the_previous_key_is_valid_until_the_next_change) {
    ticket_keys keys(at(0s));
    auto const first = keys.current(at(0s));
    auto found = keys.find(first.name, at(12h - 1s));
    BOOST_REQUIRE(found.has_value());
    BOOST_TEST(found->is_current);
    BOOST_TEST(equal(found->key, first));
    found = keys.find(first.name, at(12h));
    BOOST_REQUIRE(found.has_value());
    BOOST_TEST(!found->is_current);
    BOOST_TEST(equal(found->key, first));
    BOOST_TEST(keys.find(first.name, at(24h - 1s)).has_value());
    BOOST_TEST(!keys.find(first.name, at(24h)).has_value());
}

BOOST_AUTO_TEST_CASE(an_old_key_is_not_valid_after_a_time_without_connections) {
    ticket_keys keys(at(0s));
    auto const first = keys.current(at(0s));
    BOOST_TEST(!keys.find(first.name, at(24h)).has_value());
    ticket_keys others(at(0s));
    auto const old = others.current(at(0s));
    BOOST_TEST(others.find(old.name, at(24h - 1s)).has_value());
}

BOOST_AUTO_TEST_CASE(an_unknown_name_has_no_key) {
    ticket_keys keys(at(0s));
    auto name = keys.current(at(0s)).name;
    ++name.back();
    BOOST_TEST(!keys.find(name, at(0s)).has_value());
}
