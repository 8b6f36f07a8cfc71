#include <weir/format.hpp>
#include <weir/wait_histogram.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

using weir::duration;
using weir::wait_histogram;
using namespace std::chrono_literals;

namespace {

// As documented: never less, and at most an eighth or 128 ns more.
bool is_within_the_error(duration reported, duration exact) {
    return reported >= exact && reported - exact <= std::max<duration>(exact / 8, 128ns);
}

// Returns the wait that the fraction `q` of all waits does not exceed, by sorting.
duration exact_quantile(std::vector<duration> waits, double q) {
    std::ranges::sort(waits);
    auto const rank = std::ceil(q * static_cast<double>(waits.size()));
    return waits[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_wait_histogram)

BOOST_AUTO_TEST_CASE(has_ranges_without_gaps) {
    auto last = duration(-1);
    for (std::size_t i = 0; i != wait_histogram::ranges; ++i) {
        auto const end = wait_histogram::end_of(i);
        BOOST_TEST_REQUIRE(end > last);
        BOOST_TEST_REQUIRE(wait_histogram::range_of(last + 1ns) == i);
        BOOST_TEST_REQUIRE(wait_histogram::range_of(end) == i);
        BOOST_TEST_REQUIRE(is_within_the_error(end, last + 1ns));
        last = end;
    }
    BOOST_TEST((last > 39h && last < 40h));
}

BOOST_AUTO_TEST_CASE(counts_waits_out_of_range_in_the_first_and_last_range) {
    wait_histogram waits;
    waits.add(weir::forever);
    BOOST_TEST((waits.quantile(1) > 39h));
    BOOST_TEST(waits.count_in(wait_histogram::ranges - 1) == 1U);
    waits.add(-1s);
    BOOST_TEST(waits.count_in(0) == 1U);
    BOOST_TEST((waits.quantile(0.5) < 128ns));
}

BOOST_AUTO_TEST_CASE(without_waits_has_quantiles_of_zero) {
    wait_histogram const none;
    BOOST_TEST(none.count() == 0U);
    for (double const q : {0.0, 0.5, 1.0})
        BOOST_TEST(none.quantile(q) == 0ns);
    BOOST_TEST(fmt::to_string(none) == "0 waited");
}

BOOST_AUTO_TEST_CASE(has_the_quantiles_of_sorted_waits) {
    std::mt19937_64 random(20261122);
    std::lognormal_distribution<double> spread(12, 5);
    for (int const n : {1, 2, 3, 10, 99, 100, 101, 5000}) {
        wait_histogram waits;
        std::vector<duration> exact;
        for (int i = 0; i != n; ++i) {
            exact.emplace_back(static_cast<std::int64_t>(std::min(spread(random), 1e14)));
            waits.add(exact.back());
        }
        BOOST_TEST(waits.count() == exact.size());
        for (double const q : {0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0})
            BOOST_TEST(is_within_the_error(waits.quantile(q), exact_quantile(exact, q)),
                       "n = " << n << ", q = " << q);
    }
}

BOOST_AUTO_TEST_CASE(adds_and_subtracts) {
    wait_histogram before;
    before.add(1ms, 3);
    before.add(20ms);
    auto now = before;
    now.add(1s, 2);
    now.add(1ms);
    auto const between = now - before;
    BOOST_TEST(between.count() == 3U);
    BOOST_TEST(is_within_the_error(between.quantile(1), 1s));
    BOOST_TEST(is_within_the_error(between.quantile(0.3), 1ms));
    BOOST_TEST((between + before == now));
    BOOST_TEST((now - now == wait_histogram()));
}

BOOST_AUTO_TEST_CASE(is_written_with_two_digits) {
    wait_histogram waits;
    waits.add(1ms, 89);
    waits.add(1s, 10);
    waits.add(1min);
    BOOST_TEST(fmt::to_string(waits) ==
               "100 waited: half within 1.1ms, 90 % within 1.1s, 99 % within 1.1s, all within 61s");
}

BOOST_AUTO_TEST_SUITE_END()
