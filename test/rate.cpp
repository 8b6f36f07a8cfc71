#include <weir/rate.hpp>

#include "support/printing.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <limits>
#include <ostream>
#include <stdexcept>

using namespace std::chrono_literals;
using support::says;
using weir::max_amount;
using weir::rate;

namespace weir {

// In the namespace in which Boost.Test looks for it.
static std::ostream& operator<<(std::ostream& out, rate const& r) {
    return out << to_string(r);
}

}  // namespace weir

BOOST_AUTO_TEST_SUITE(a_rate)

BOOST_AUTO_TEST_CASE(keeps_its_two_numbers) {
    rate const r{100, 3s};
    BOOST_TEST(r.permits() == 100);
    BOOST_TEST(r.period() == 3s);

    BOOST_TEST(rate(7, 21s).permits() == 7);
    BOOST_TEST(rate(0, 1s).permits() == 0);
    BOOST_TEST(rate(max_amount, 1ns).permits() == max_amount);
}

BOOST_AUTO_TEST_CASE(rounds_its_period_up_to_nanoseconds) {
    BOOST_TEST(rate(1, 0.5s).period() == 500ms);
    BOOST_TEST(rate(1, 0.1ns).period() == 1ns);
    BOOST_TEST(rate(1, std::chrono::duration<double>(1.0 / 3)).period() == 333'333'334ns);
    BOOST_TEST(rate(1, std::chrono::hours::max()).period() == weir::forever);
}

BOOST_AUTO_TEST_CASE(throws_with_name_and_value_if_out_of_bounds) {
    BOOST_CHECK_EXCEPTION(
        rate(-1, 1s), std::invalid_argument,
        says("weir::rate: permits is -1, but must be from 0 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(
        rate(max_amount + 1, 1s), std::invalid_argument,
        says("weir::rate: permits is 1000000000000001, but must be from 0 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(rate(1, 0s), std::invalid_argument,
                          says("weir::rate: period is 0s, but must be at least 1ns"));
    BOOST_CHECK_EXCEPTION(rate(1, -1ms), std::invalid_argument,
                          says("weir::rate: period is -1ms, but must be at least 1ns"));
    BOOST_CHECK_EXCEPTION(rate(1, -0.5ns), std::invalid_argument,
                          says("weir::rate: period is 0s, but must be at least 1ns"));
    auto const nan = std::numeric_limits<double>::quiet_NaN();
    BOOST_CHECK_EXCEPTION(rate(1, std::chrono::duration<double>(nan)), std::invalid_argument,
                          says("weir: the duration is NaN"));
}

BOOST_AUTO_TEST_CASE(compares_by_value_and_not_by_its_two_numbers) {
    BOOST_TEST(rate(2, 2s) == rate(1, 1s));
    BOOST_TEST(rate(60, 1min) == rate(1, 1s));
    BOOST_TEST(rate(0, 1s) == rate(0, 1h));
    BOOST_TEST(rate(1, 3s) != rate(1, 4s));

    BOOST_TEST(rate(1, 3s) > rate(1, 4s));
    BOOST_TEST(rate(1, 3s) >= rate(1, 3s));
    BOOST_TEST(rate(1, 3s) < rate(2, 3s));
    BOOST_TEST(rate(1, 3s) <= rate(2, 3s));
    BOOST_TEST(rate(0, 1s) < rate(1, std::chrono::hours::max()));
}

BOOST_AUTO_TEST_CASE(compares_exactly_where_floats_and_64_bits_would_not) {
    BOOST_TEST(rate(1, 3s) > rate(333'333'333, 1'000'000'000s));
    BOOST_TEST(rate(1, 3s) < rate(333'333'334, 1'000'000'000s));
    BOOST_TEST(rate(max_amount, weir::forever) > rate(max_amount - 1, weir::forever));
    BOOST_TEST(rate(max_amount, weir::forever) < rate(max_amount, weir::forever - 1ns));
    BOOST_TEST(rate(max_amount, 1ns) > rate(max_amount - 1, 1ns));
    BOOST_TEST(rate(max_amount, weir::forever) == rate(max_amount, weir::forever));
    BOOST_TEST(rate(max_amount, 1ns) > rate(1, weir::forever));
}

BOOST_AUTO_TEST_CASE(is_written_with_the_largest_exact_unit) {
    BOOST_TEST(to_string(rate(100, 1s)) == "100/1s");
    BOOST_TEST(to_string(rate(1, 3s)) == "1/3s");
    BOOST_TEST(to_string(rate(5, 1500ms)) == "5/1500ms");
    BOOST_TEST(to_string(rate(5, 60s)) == "5/1min");
    BOOST_TEST(to_string(rate(5, 90min)) == "5/90min");
    BOOST_TEST(to_string(rate(5, 48h)) == "5/48h");
    BOOST_TEST(to_string(rate(5, 7us)) == "5/7us");
    BOOST_TEST(to_string(rate(5, 1'000'001ns)) == "5/1000001ns");
    BOOST_TEST(to_string(rate(0, 1ns)) == "0/1ns");
    BOOST_TEST(to_string(rate(max_amount, weir::forever)) == "1000000000000000/forever");
    BOOST_TEST(to_string(rate(1, weir::forever - 1ns)) == "1/9223372036854775806ns");
}

BOOST_AUTO_TEST_SUITE_END()
