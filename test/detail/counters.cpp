#include <weir/detail/counters.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <array>

using weir::errc;
using weir::detail::counters;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(detail_counters)

BOOST_AUTO_TEST_CASE(have_a_count_for_each_rejection) {
    using stats = weir::limiter_stats;
    using field = std::uint64_t stats::*;
    struct rejection {
        weir::error_code why;
        field count;
    };
    std::array const rejections{
        rejection{errc::no_permit, &stats::no_permit},
        rejection{errc::timed_out, &stats::timed_out},
        rejection{errc::deadline_unreachable, &stats::deadline_unreachable},
        rejection{errc::queue_full, &stats::queue_full},
        rejection{errc::shed, &stats::shed},
        rejection{errc::exceeds_capacity, &stats::exceeds_capacity},
        rejection{errc::closed, &stats::closed},
        rejection{boost::asio::error::operation_aborted, &stats::cancelled},
    };
    counters counted;
    for (std::size_t i = 0; i != rejections.size(); ++i) {
        for (std::size_t times = 0; times <= i; ++times) {
            if (times % 2 == 0)
                counted.reject(rejections[i].why);
            else
                counted.reject(rejections[i].why, 1s);
        }
    }
    for (std::size_t i = 0; i != rejections.size(); ++i)
        BOOST_TEST((counted.done().*rejections[i].count) == i + 1);
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
    BOOST_TEST(done.granted_immediately == 2U);
    BOOST_TEST(done.permits_granted == 17);
    BOOST_TEST(done.waited_total == 4s);
    BOOST_TEST(done.waited_max == 3s);
    BOOST_TEST(done.rejected_waited_total == 0s);
    BOOST_TEST(done.overdue == 1U);
}

BOOST_AUTO_TEST_CASE(add_up_the_waits_of_requests_that_were_rejected_after_a_wait) {
    counters counted;
    counted.reject(errc::timed_out, 2s);
    counted.reject(errc::shed, 5s);
    counted.reject(boost::asio::error::operation_aborted, 1s);
    counted.reject(errc::queue_full);
    auto const& done = counted.done();
    BOOST_TEST(done.rejected_waited_total == 8s);
    BOOST_TEST(done.rejected_waited_max == 5s);
    BOOST_TEST(done.waited_total == 0s);
    BOOST_TEST(done.waited_max == 0s);
}

BOOST_AUTO_TEST_SUITE_END()
