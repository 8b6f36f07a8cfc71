#include <weir/time.hpp>

#include "support/printing.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <ratio>
#include <stdexcept>
#include <type_traits>

using namespace std::chrono_literals;
using weir::duration;
using weir::forever;
using weir::never;
using weir::round_up;
using weir::time_point;

namespace {

template <class Rep>
using seconds_in = std::chrono::duration<Rep>;

template <class Rep, class Period>
void throws_if_it_is_no_number() {
    using length = std::chrono::duration<Rep, Period>;
    auto const nan = std::numeric_limits<Rep>::quiet_NaN();
    auto const says = support::says("weir: the duration is NaN");
    BOOST_CHECK_EXCEPTION((void)round_up(length(nan)), std::invalid_argument, says);
    BOOST_CHECK_EXCEPTION((void)round_up(length(-nan)), std::invalid_argument, says);
    BOOST_CHECK_EXCEPTION((void)weir::patience(length(nan)), std::invalid_argument, says);
}

constexpr time_point at(duration d) {
    return time_point(d);
}

}  // namespace

// All of this works in constant expressions.
static_assert(round_up(2s) == 2'000'000'000ns);
static_assert(round_up(0.5s) == 500ms);
static_assert(weir::later(at(1s), 2s) == at(3s));
static_assert(weir::times(2s, 3) == 6s);
static_assert(weir::patience(1s).is_set() && !weir::patience().is_set());

static_assert(std::is_trivially_copyable_v<weir::patience>);
static_assert(std::is_same_v<time_point::duration, duration>);

BOOST_AUTO_TEST_SUITE(rounding_up)

BOOST_AUTO_TEST_CASE(whole_nanoseconds_do_not_change) {
    BOOST_TEST(round_up(0ns) == 0ns);
    BOOST_TEST(round_up(1ns) == 1ns);
    BOOST_TEST(round_up(-1ns) == -1ns);
    BOOST_TEST(round_up(3us) == 3'000ns);
    BOOST_TEST(round_up(-3ms) == -3'000'000ns);
    BOOST_TEST(round_up(24h) == 86'400'000'000'000ns);
    BOOST_TEST(round_up(std::chrono::days(365)) == 31'536'000'000'000'000ns);
    BOOST_TEST(round_up(forever) == forever);
    BOOST_TEST(round_up(forever - 1ns) == forever - 1ns);
    BOOST_TEST(round_up(-forever) == -forever);
}

BOOST_AUTO_TEST_CASE(a_fraction_of_a_second_that_is_whole_nanoseconds_is_exact) {
    BOOST_TEST(round_up(0.5s) == 500ms);
    BOOST_TEST(round_up(0.1s) == 100ms);
    BOOST_TEST(round_up(1.25ms) == 1'250us);
    BOOST_TEST(round_up(seconds_in<double>(0.5)) == 500ms);
    BOOST_TEST(round_up(seconds_in<float>(0.25F)) == 250ms);
    BOOST_TEST(round_up(-0.5s) == -500ms);
}

BOOST_AUTO_TEST_CASE(a_fraction_of_a_nanosecond_is_rounded_up) {
    BOOST_TEST(round_up(0.5ns) == 1ns);
    BOOST_TEST(round_up(1.000001ns) == 2ns);
    BOOST_TEST(round_up(seconds_in<double>(1.0 / 3)) == 333'333'334ns);
    BOOST_TEST(round_up(seconds_in<long double>(1.0L / 3)) == 333'333'334ns);
    BOOST_TEST(round_up(seconds_in<double>(std::numeric_limits<double>::min())) == 1ns);
    BOOST_TEST(round_up(seconds_in<long double>(std::numeric_limits<long double>::denorm_min())) ==
               1ns);
}

BOOST_AUTO_TEST_CASE(negative_durations_are_rounded_towards_zero) {
    BOOST_TEST(round_up(-0.5ns) == 0ns);
    BOOST_TEST(round_up(-1.5ns) == -1ns);
    BOOST_TEST(round_up(seconds_in<double>(-1.0 / 3)) == -333'333'333ns);
}

BOOST_AUTO_TEST_CASE(whole_numbers_of_odd_units_are_rounded_up_exactly) {
    using thirds = std::chrono::duration<std::int64_t, std::ratio<1, 3>>;
    using frames = std::chrono::duration<std::int64_t, std::ratio<1001, 30000>>;
    using picoseconds = std::chrono::duration<std::int64_t, std::pico>;
    BOOST_TEST(round_up(thirds(1)) == 333'333'334ns);
    BOOST_TEST(round_up(thirds(2)) == 666'666'667ns);
    BOOST_TEST(round_up(thirds(3)) == 1s);
    BOOST_TEST(round_up(thirds(-1)) == -333'333'333ns);
    BOOST_TEST(round_up(frames(1)) == 33'366'667ns);
    BOOST_TEST(round_up(frames(30'000)) == 1001s);
    BOOST_TEST(round_up(picoseconds(1)) == 1ns);
    BOOST_TEST(round_up(picoseconds(1000)) == 1ns);
    BOOST_TEST(round_up(picoseconds(1001)) == 2ns);
    BOOST_TEST(round_up(picoseconds(-999)) == 0ns);
    BOOST_TEST(round_up(picoseconds(-1000)) == -1ns);
}

// The intermediate product must not overflow where the result fits.
BOOST_AUTO_TEST_CASE(large_numbers_of_odd_units_that_fit_are_exact) {
    using thirds = std::chrono::duration<std::int64_t, std::ratio<1, 3>>;
    BOOST_TEST(round_up(thirds(27'000'000'000)) == 9'000'000'000s);
    BOOST_TEST(round_up(thirds(27'000'000'001)) == 9'000'000'000s + 333'333'334ns);
    BOOST_TEST(round_up(thirds(-27'000'000'001)) == -9'000'000'000s - 333'333'333ns);

    using picoseconds = std::chrono::duration<std::int64_t, std::pico>;
    BOOST_TEST(round_up(picoseconds::max()) == 9'223'372'036'854'776ns);
    BOOST_TEST(round_up(picoseconds::min()) == -9'223'372'036'854'775ns);

    using unsigned_picoseconds = std::chrono::duration<std::uint64_t, std::pico>;
    BOOST_TEST(round_up(unsigned_picoseconds::max()) == 18'446'744'073'709'552ns);
}

BOOST_AUTO_TEST_CASE(small_number_types_do_not_overflow) {
    using short_hours = std::chrono::duration<std::int8_t, std::ratio<3600>>;
    using byte_days = std::chrono::duration<std::uint8_t, std::ratio<86400>>;
    BOOST_TEST(round_up(short_hours(127)) == 127h);
    BOOST_TEST(round_up(short_hours(-128)) == -128h);
    BOOST_TEST(round_up(byte_days(255)) == 255 * 24h);
}

BOOST_AUTO_TEST_CASE(a_too_long_duration_becomes_the_maximum) {
    BOOST_TEST(round_up(std::chrono::hours::max()) == forever);
    BOOST_TEST(round_up(std::chrono::minutes::max()) == forever);
    BOOST_TEST(round_up(std::chrono::seconds::max()) == forever);
    BOOST_TEST(round_up(std::chrono::microseconds::max()) == forever);
    BOOST_TEST(round_up(std::chrono::years(300)) == forever);
    BOOST_TEST(round_up(std::chrono::years(290)) < forever);
    BOOST_TEST(round_up(seconds_in<std::uint64_t>::max()) == forever);
    BOOST_TEST(round_up(std::chrono::duration<std::uint64_t, std::nano>::max()) == forever);
    BOOST_TEST(round_up(seconds_in<double>(1e30)) == forever);
    BOOST_TEST(round_up(seconds_in<float>::max()) == forever);
    BOOST_TEST(round_up(seconds_in<long double>::max()) == forever);
    BOOST_TEST(round_up(seconds_in<double>(9'223'372'037.0)) == forever);
}

BOOST_AUTO_TEST_CASE(a_too_negative_duration_becomes_the_minimum) {
    BOOST_TEST(round_up(std::chrono::hours::min()) == -forever);
    BOOST_TEST(round_up(duration::min()) == -forever);
    BOOST_TEST(round_up(seconds_in<double>::min()) == -forever);
    BOOST_TEST(round_up(seconds_in<long double>(-1e4000L)) == -forever);
}

BOOST_AUTO_TEST_CASE(infinity_is_forever) {
    auto const infinity = std::numeric_limits<long double>::infinity();
    BOOST_TEST(round_up(seconds_in<long double>(infinity)) == forever);
    BOOST_TEST(round_up(seconds_in<long double>(-infinity)) == -forever);
    BOOST_TEST(round_up(seconds_in<double>(std::numeric_limits<double>::infinity())) == forever);
    BOOST_TEST(round_up(seconds_in<float>(std::numeric_limits<float>::infinity())) == forever);
}

BOOST_AUTO_TEST_CASE(nan_is_rejected) {
    throws_if_it_is_no_number<float, std::ratio<1>>();
    throws_if_it_is_no_number<double, std::milli>();
    throws_if_it_is_no_number<long double, std::nano>();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(saturating_sums)

BOOST_AUTO_TEST_CASE(later_adds) {
    BOOST_TEST(weir::later(at(0s), 0s) == at(0s));
    BOOST_TEST(weir::later(at(5s), 7s) == at(12s));
    BOOST_TEST(weir::later(at(-5s), 7s) == at(2s));
}

BOOST_AUTO_TEST_CASE(later_is_at_most_never) {
    BOOST_TEST(weir::later(never, 0ns) == never);
    BOOST_TEST(weir::later(never, 1ns) == never);
    BOOST_TEST(weir::later(never, forever) == never);
    BOOST_TEST(weir::later(never - 1ns, 1ns) == never);
    BOOST_TEST(weir::later(never - 1ns, 2ns) == never);
    BOOST_TEST(weir::later(never - 2ns, 1ns) == never - 1ns);
    BOOST_TEST(weir::later(at(0ns), forever) == never);
    BOOST_TEST(weir::later(at(1ns), forever) == never);
    BOOST_TEST(weir::later(at(-1ns), forever) == never);
    BOOST_TEST(weir::later(at(-2ns), forever) == never - 1ns);
    BOOST_TEST(weir::later(time_point::min(), forever) == at(-1ns));
}

BOOST_AUTO_TEST_CASE(times_multiplies) {
    BOOST_TEST(weir::times(0s, 0) == 0s);
    BOOST_TEST(weir::times(forever, 0) == 0s);
    BOOST_TEST(weir::times(0s, std::numeric_limits<std::int64_t>::max()) == 0s);
    BOOST_TEST(weir::times(7s, 3) == 21s);
    BOOST_TEST(weir::times(forever, 1) == forever);
    BOOST_TEST(weir::times(1ns, forever.count()) == forever);
}

BOOST_AUTO_TEST_CASE(times_is_at_most_forever) {
    BOOST_TEST(weir::times(forever, 2) == forever);
    BOOST_TEST(weir::times(forever, forever.count()) == forever);
    BOOST_TEST(weir::times(forever / 2, 2) == forever - 1ns);
    BOOST_TEST(weir::times(forever / 2 + 1ns, 2) == forever);
    BOOST_TEST(weir::times(2ns, forever.count() / 2) == forever - 1ns);
    BOOST_TEST(weir::times(2ns, forever.count() / 2 + 1) == forever);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(patience_of_a_request)

BOOST_AUTO_TEST_CASE(is_unset_by_default) {
    weir::patience const unset;
    BOOST_TEST(!unset.is_set());
    BOOST_TEST(unset.length_or(3s) == 3s);
    BOOST_TEST(unset.length_or(forever) == forever);
}

BOOST_AUTO_TEST_CASE(is_any_chrono_duration_rounded_up) {
    BOOST_TEST(weir::patience(3s).length_or(1s) == 3s);
    BOOST_TEST(weir::patience(0.5ns).length_or(1s) == 1ns);
    BOOST_TEST(weir::patience(std::chrono::hours::max()).length_or(1s) == forever);
    BOOST_TEST(weir::patience(forever).length_or(1s) == forever);
    BOOST_TEST(weir::patience(forever).is_set());

    weir::patience const implicit = 2min;
    BOOST_TEST(implicit.length_or(1s) == 2min);
}

BOOST_AUTO_TEST_CASE(of_zero_and_less_is_zero_and_is_set) {
    BOOST_TEST(weir::patience(0s).is_set());
    BOOST_TEST(weir::patience(0s).length_or(1s) == 0s);
    BOOST_TEST(weir::patience(-0.5ns).length_or(1s) == 0s);
    BOOST_TEST(weir::patience(-5s).length_or(1s) == 0s);
    BOOST_TEST(weir::patience(duration::min()).is_set());
    BOOST_TEST(weir::patience(duration::min()).length_or(1s) == 0s);
    BOOST_TEST(weir::patience(std::chrono::hours::min()).length_or(1s) == 0s);
}

BOOST_AUTO_TEST_SUITE_END()
