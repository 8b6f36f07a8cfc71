#include "logs/number.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using logs::status_of;
using logs::time_in;

BOOST_AUTO_TEST_SUITE(a_number_in_a_line)

BOOST_AUTO_TEST_CASE(is_a_status_if_it_has_three_digits) {
    BOOST_TEST((status_of("200") == 200u));
    BOOST_TEST((status_of("000") == 0u));
    BOOST_TEST((status_of("999") == 999u));
    for (std::string_view const text : {"", "20", "2000", "-20", "+20", "20x", " 20", "2:0", "2/0"})
        BOOST_TEST(!status_of(text), text);
}

// The product of a double and a unit may be a little less.
BOOST_AUTO_TEST_CASE(is_a_time_rounded_to_nanoseconds) {
    for (int ms = 0; ms != 5000; ++ms) {
        auto const text =
            std::to_string(ms / 1000) + '.' + std::to_string(1000 + ms % 1000).substr(1);
        BOOST_TEST_REQUIRE((time_in(1s, text) == std::chrono::milliseconds(ms)), text);
    }
    BOOST_TEST((time_in(1ms, "1.5") == 1500us));
    BOOST_TEST((time_in(1us, "0.0004") == 0ns));
    BOOST_TEST((time_in(1us, "0.0006") == 1ns));
}

BOOST_AUTO_TEST_CASE(is_a_time_of_at_most_a_day) {
    BOOST_TEST((time_in(1s, "0") == 0ns));
    BOOST_TEST((time_in(1s, "86400") == 24h));
    BOOST_TEST((time_in(1ms, "86400000") == 24h));
    for (std::string_view const text : {"86400.001", "-0.001", "1e300", "", "-", "x", "1s"})
        BOOST_TEST(!time_in(1s, text), text);
}

BOOST_AUTO_TEST_SUITE_END()
