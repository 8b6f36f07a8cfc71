#include "proxy/reach.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(proxy_next_entry)

BOOST_AUTO_TEST_CASE(follows_only_if_a_seat_may_become_free) {
    proxy::next_entry next;
    BOOST_TEST(!next.follows(false, 1s, 0s));
    BOOST_TEST(next.follows(true, 1s, 0s));
}

BOOST_AUTO_TEST_CASE(does_not_follow_when_the_patience_is_over) {
    proxy::next_entry next;
    BOOST_TEST(!next.follows(true, 0s, 1s));
}

BOOST_AUTO_TEST_CASE(follows_each_wait) {
    proxy::next_entry next;
    for (auto waited = 0ms; waited != 100ms; ++waited)
        BOOST_TEST(next.follows(true, 1s, waited));
}

// The pause of a server that cannot be reached may end just then, so one such wait must not end the request.
BOOST_AUTO_TEST_CASE(follows_waits_that_end_at_once_some_times) {
    proxy::next_entry next;
    for (auto waited = 1ms; waited != 3ms; ++waited) {  // a wait begins the count again
        BOOST_TEST(next.follows(true, 1s, waited));
        for (int i = 0; i != 10; ++i)
            BOOST_TEST(next.follows(true, 1s, waited));
    }
    BOOST_TEST(!next.follows(true, 1s, 2ms));
}

BOOST_AUTO_TEST_SUITE_END()
