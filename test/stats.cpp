#include <weir/stats.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

using weir::keyed_stats;
using weir::limiter_stats;
using namespace std::chrono_literals;

namespace {

limiter_stats one() {
    return {
        .name = "one",
        .granted = 1,
        .granted_immediately = 2,
        .permits_granted = 3,
        .no_permit = 4,
        .timed_out = 5,
        .deadline_unreachable = 6,
        .queue_full = 7,
        .shed = 8,
        .exceeds_capacity = 9,
        .closed = 10,
        .too_many_keys = 11,
        .unavailable = 12,
        .cancelled = 13,
        .would_reject = 27,
        .would_wait = 28,
        .waited_total = 14ns,
        .waited_max = 15ns,
        .rejected_waited_total = 16ns,
        .rejected_waited_max = 17ns,
        .overdue = 18,
        .waiting = 19,
        .waiting_for = 20,
        .oldest_wait = 21ns,
        .live = 22,
        .in_use = 23,
        .capacity = 24,
        .remaining = 25,
        .debt = 26,
        .reset_after = 27ns,
        .paused_for = 28ns};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stats)

BOOST_AUTO_TEST_CASE(a_sum_has_the_counters_and_the_load_of_both) {
    auto other = one();
    other.name = "other";
    other.waited_max = 150ns;
    other.rejected_waited_max = 1ns;
    auto const sum = one() += other;
    BOOST_TEST(sum.granted == 2U);
    BOOST_TEST(sum.granted_immediately == 4U);
    BOOST_TEST(sum.permits_granted == 6);
    BOOST_TEST(sum.no_permit == 8U);
    BOOST_TEST(sum.timed_out == 10U);
    BOOST_TEST(sum.deadline_unreachable == 12U);
    BOOST_TEST(sum.queue_full == 14U);
    BOOST_TEST(sum.shed == 16U);
    BOOST_TEST(sum.exceeds_capacity == 18U);
    BOOST_TEST(sum.closed == 20U);
    BOOST_TEST(sum.too_many_keys == 22U);
    BOOST_TEST(sum.unavailable == 24U);
    BOOST_TEST(sum.cancelled == 26U);
    BOOST_TEST(sum.would_reject == 54U);
    BOOST_TEST(sum.would_wait == 56U);
    BOOST_TEST(sum.waited_total == 28ns);
    BOOST_TEST(sum.waited_max == 150ns);
    BOOST_TEST(sum.rejected_waited_total == 32ns);
    BOOST_TEST(sum.rejected_waited_max == 17ns);
    BOOST_TEST(sum.overdue == 36U);
    BOOST_TEST(sum.waiting == 38U);
    BOOST_TEST(sum.waiting_for == 40);
    BOOST_TEST(sum.live == 44U);
    BOOST_TEST(sum.in_use == 46);
}

BOOST_AUTO_TEST_CASE(a_sum_keeps_what_only_a_single_limiter_has) {
    limiter_stats none;
    none += one();
    BOOST_TEST(none.name.view() == "one");
    BOOST_TEST(none.oldest_wait == 0ns);
    BOOST_TEST(none.capacity == 0);
    BOOST_TEST(none.remaining == 0);
    BOOST_TEST(none.debt == 0);
    BOOST_TEST(!none.reset_after);
    BOOST_TEST(none.paused_for == 0ns);

    auto kept = one();
    kept += limiter_stats{.name = "other", .oldest_wait = 1h, .capacity = 5};
    BOOST_TEST(kept.name.view() == "one");
    BOOST_TEST(kept.oldest_wait == 21ns);
    BOOST_TEST(kept.capacity == 24);
}

BOOST_AUTO_TEST_CASE(a_sum_of_keys_has_all_keys) {
    keyed_stats sum{.total = one(), .keys = 2, .bytes = 300};
    sum += keyed_stats{.total = one(), .keys = 3, .bytes = 100};
    BOOST_TEST(sum.keys == 5U);
    BOOST_TEST(sum.bytes == 400U);
    BOOST_TEST(sum.total.granted == 2U);
}

BOOST_AUTO_TEST_SUITE_END()
