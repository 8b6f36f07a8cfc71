#include <weir/detail/counters.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <array>

using weir::errc;
using weir::detail::counters;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(detail_counters)

BOOST_AUTO_TEST_CASE(have_a_count_for_each_refusal) {
    using stats = weir::limiter_stats;
    using field = std::uint64_t stats::*;
    struct refusal {
        weir::error_code why;
        field count;
    };
    std::array const refusals{
        refusal{errc::limited, &stats::limited},
        refusal{errc::timed_out, &stats::timed_out},
        refusal{errc::deadline_unreachable, &stats::deadline_unreachable},
        refusal{errc::queue_full, &stats::queue_full},
        refusal{errc::shed, &stats::shed},
        refusal{errc::exceeds_capacity, &stats::exceeds_capacity},
        refusal{errc::closed, &stats::closed},
        refusal{boost::asio::error::operation_aborted, &stats::cancelled},
    };
    counters counted;
    for (std::size_t i = 0; i != refusals.size(); ++i) {
        for (std::size_t times = 0; times <= i; ++times) {
            if (times % 2 == 0)
                counted.refuse(refusals[i].why);
            else
                counted.refuse(refusals[i].why, 1s);
        }
    }
    for (std::size_t i = 0; i != refusals.size(); ++i)
        BOOST_TEST((counted.done().*refusals[i].count) == i + 1);
    BOOST_TEST(counted.done().granted == 0U);
}

BOOST_AUTO_TEST_CASE(add_up_the_permits_and_the_waits_of_requests_that_were_granted) {
    counters counted;
    counted.grant(2, 3s);
    counted.grant(5, 1s);
    counted.grant_at_once(10);
    counted.grant_at_once(0);
    counted.overdue();
    auto const& done = counted.done();
    BOOST_TEST(done.granted == 4U);
    BOOST_TEST(done.granted_at_once == 2U);
    BOOST_TEST(done.permits_granted == 17);
    BOOST_TEST(done.waited_total == 4s);
    BOOST_TEST(done.waited_max == 3s);
    BOOST_TEST(done.refused_waited_total == 0s);
    BOOST_TEST(done.overdue == 1U);
}

BOOST_AUTO_TEST_CASE(add_up_the_waits_of_requests_that_have_waited_in_vain) {
    counters counted;
    counted.refuse(errc::timed_out, 2s);
    counted.refuse(errc::shed, 5s);
    counted.refuse(boost::asio::error::operation_aborted, 1s);
    counted.refuse(errc::queue_full);
    auto const& done = counted.done();
    BOOST_TEST(done.refused_waited_total == 8s);
    BOOST_TEST(done.refused_waited_max == 5s);
    BOOST_TEST(done.waited_total == 0s);
    BOOST_TEST(done.waited_max == 0s);
}

BOOST_AUTO_TEST_SUITE_END()
