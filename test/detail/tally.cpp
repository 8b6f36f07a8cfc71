#include <weir/detail/tally.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <array>

using weir::errc;
using weir::detail::tally;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(detail_tally)

BOOST_AUTO_TEST_CASE(has_a_count_for_each_refusal) {
    using field = std::uint64_t weir::stats::*;
    using stats = weir::stats;
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
    tally counts;
    for (std::size_t i = 0; i != refusals.size(); ++i) {
        for (std::size_t times = 0; times <= i; ++times)
            counts.refuse(refusals[i].why);
    }
    for (std::size_t i = 0; i != refusals.size(); ++i)
        BOOST_TEST((counts.done().*refusals[i].count) == i + 1);
    BOOST_TEST(counts.done().granted == 0U);
}

BOOST_AUTO_TEST_CASE(adds_up_the_waits_of_those_who_were_granted) {
    tally counts;
    counts.grant(3s);
    counts.grant(1s);
    counts.grant_at_once();
    counts.overdue();
    BOOST_TEST(counts.done().granted == 3U);
    BOOST_TEST(counts.done().granted_at_once == 1U);
    BOOST_TEST(counts.done().waited_total == 4s);
    BOOST_TEST(counts.done().waited_max == 3s);
    BOOST_TEST(counts.done().overdue == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
