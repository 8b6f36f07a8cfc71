#include <weir/detail/wait_recorder.hpp>

#include "support/allocations.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

using namespace std::chrono_literals;
using weir::wait_histogram;
using weir::detail::wait_recorder;

BOOST_AUTO_TEST_SUITE(detail_wait_recorder)

BOOST_AUTO_TEST_CASE(has_no_memory_before_the_first_wait) {
    auto const before = support::bytes_in_use.load();
    wait_recorder recorder;
    BOOST_TEST((recorder.recorded() == wait_histogram()));
    BOOST_TEST(support::bytes_in_use == before);
    recorder.prepare();
    BOOST_TEST(support::bytes_in_use - before <= 304 + support::added_by_malloc);
    BOOST_TEST((recorder.recorded() == wait_histogram()));
}

// Each of many waits is in the same range, which is the worst case.
BOOST_AUTO_TEST_CASE(counts_each_wait_at_every_width) {
    wait_recorder recorder;
    wait_histogram expected;
    for (int i = 0; i != 70'000; ++i) {
        recorder.prepare();
        recorder.add(i == 0 ? 3h : 1ms);
        expected.add(i == 0 ? 3h : 1ms);
        if (i < 3 || (i > 250 && i < 260) || i > 65'530) {
            if (recorder.recorded() != expected)
                BOOST_FAIL("after wait " << i);
        }
    }
    BOOST_TEST(recorder.recorded().count() == 70'000U);
    BOOST_TEST((recorder.recorded() == expected));
}

// The waits of many requests end after all of them have begun.
BOOST_AUTO_TEST_CASE(reserves_space_for_each_wait_that_has_begun) {
    wait_recorder recorder;
    for (int i = 0; i != 70'000; ++i)
        recorder.prepare();
    auto const before = support::bytes_in_use.load();
    for (int i = 0; i != 70'000; ++i)
        recorder.add(5us);
    BOOST_TEST(support::bytes_in_use == before);
    BOOST_TEST(recorder.recorded().count() == 70'000U);
    BOOST_TEST(recorder.recorded().count_in(wait_histogram::range_of(5us)) == 70'000U);
}

BOOST_AUTO_TEST_CASE(keeps_what_it_has_if_memory_is_exhausted) {
    wait_recorder recorder;
    for (int i = 0; i != 255; ++i) {
        recorder.prepare();
        recorder.add(1s);
    }
    BOOST_CHECK_THROW(support::with_failing_allocation(0, [&] { recorder.prepare(); }),
                      std::bad_alloc);
    BOOST_TEST(recorder.recorded().count() == 255U);
    recorder.prepare();
    recorder.add(1s);
    BOOST_TEST(recorder.recorded().count() == 256U);
}

BOOST_AUTO_TEST_SUITE_END()
