#include "admin/exposition.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <limits>

BOOST_AUTO_TEST_SUITE(admin_exposition)

BOOST_AUTO_TEST_CASE(samples_follow_the_head_of_their_family) {
    admin::exposition out;
    out.family("up", "Whether it runs.", admin::metric::gauge);
    out.add(1.0);
    out.family("requests_total", "Requests.", admin::metric::counter);
    out.add(std::uint64_t{7}, {{"result", "answered"}, {"reason", ""}});
    out.add(std::uint64_t{0}, {{"result", "rejected"}, {"reason", "rate"}});
    BOOST_TEST(out.text() ==
               "# HELP up Whether it runs.\n"
               "# TYPE up gauge\n"
               "up 1\n"
               "# HELP requests_total Requests.\n"
               "# TYPE requests_total counter\n"
               "requests_total{result=\"answered\",reason=\"\"} 7\n"
               "requests_total{result=\"rejected\",reason=\"rate\"} 0\n");
}

BOOST_AUTO_TEST_CASE(a_family_without_a_sample_is_left_out) {
    admin::exposition out;
    out.family("keys", "Keys.", admin::metric::gauge);
    BOOST_TEST(out.text().empty());
    out.family("up", "Up.", admin::metric::gauge);
    out.add(0.0);
    out.family("last", "Last.", admin::metric::gauge);
    BOOST_TEST(out.text() == "# HELP up Up.\n# TYPE up gauge\nup 0\n");
}

BOOST_AUTO_TEST_CASE(buckets_end_with_infinity) {
    admin::exposition out;
    out.family("wait_seconds", "Waits.", admin::metric::histogram);
    out.add({.buckets = {{.end = 0.0025, .count = 2}, {.end = 60, .count = 5}},
             .count = 6,
             .sum = 99.5},
            {{"limit", "a"}});
    BOOST_TEST(out.text() ==
               "# HELP wait_seconds Waits.\n"
               "# TYPE wait_seconds histogram\n"
               "wait_seconds_bucket{limit=\"a\",le=\"0.0025\"} 2\n"
               "wait_seconds_bucket{limit=\"a\",le=\"60\"} 5\n"
               "wait_seconds_bucket{limit=\"a\",le=\"+Inf\"} 6\n"
               "wait_seconds_sum{limit=\"a\"} 99.5\n"
               "wait_seconds_count{limit=\"a\"} 6\n");
}

BOOST_AUTO_TEST_CASE(a_value_of_a_label_is_escaped) {
    admin::exposition out;
    out.family("up", "Up.", admin::metric::gauge);
    out.add(1.0, {{"server", "a\\b \"c\"\nd \xe2\x98\x95"}});
    BOOST_TEST(out.text().ends_with("up{server=\"a\\\\b \\\"c\\\"\\nd \xe2\x98\x95\"} 1\n"));
}

BOOST_AUTO_TEST_CASE(numbers_are_exact) {
    admin::exposition out;
    out.family("n", "N.", admin::metric::gauge);
    out.add(std::numeric_limits<std::uint64_t>::max());
    out.add(1732370703.123456);
    out.add(0.1);
    BOOST_TEST(out.text().ends_with("\nn 18446744073709551615\nn 1732370703.123456\nn 0.1\n"));
}

BOOST_AUTO_TEST_SUITE_END()
