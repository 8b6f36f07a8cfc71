#include <weir/policy/smooth_warming_up.hpp>

#include "support/printing.hpp"
#include "support/renew.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using support::begun;
using support::renew;
using support::says;
using weir::carry_over;
using weir::duration;
using weir::rate;
using weir::smooth_warming_up_options;
using weir::time_point;
using weir::policy::smooth_warming_up;

BOOST_AUTO_TEST_SUITE(the_smooth_warming_up_limit)

namespace {

constexpr time_point noon{12h};

using waits = std::vector<duration>;

// Returns how long each caller waits if each comes as soon as the one before is served.
waits wait_for(smooth_warming_up& limit, int callers, time_point& now) {
    waits result;
    for (int i = 0; i != callers; ++i) {
        auto const ready = limit.ready_at(1, 0, now);
        result.push_back(ready - now);
        now = ready;
        limit.take(1, now);
    }
    return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(starts_cold_and_gets_warm) {
    auto limit = begun<smooth_warming_up>({.rate = {2, 1s}, .warm_up = 4s}, noon);
    auto now = noon;
    waits const cold{0ms, 1375ms, 1125ms, 875ms, 625ms, 500ms, 500ms, 500ms};
    BOOST_TEST(wait_for(limit, 8, now) == cold, boost::test_tools::per_element());
    now += 4500ms;  // cold again
    BOOST_TEST(wait_for(limit, 8, now) == cold, boost::test_tools::per_element());
    now += 2500ms;  // half cold
    waits const warm{0ms, 500ms, 500ms, 500ms};
    BOOST_TEST(wait_for(limit, 4, now) == warm, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(takes_the_warm_up_time_from_cold_to_warm) {
    for (double const factor : {1., 2., 3., 10., 1e6}) {
        auto limit = begun<smooth_warming_up>(
            {.rate = {1000, 1s}, .warm_up = 10s, .cold_factor = factor}, noon);
        // All permits above the threshold.
        auto const sloped = 2 * 10'000 / (1 + factor);
        limit.take(static_cast<weir::amount>(sloped), noon);
        auto const took = limit.ready_at(1, 0, noon) - noon;
        auto const rest = (sloped - std::floor(sloped)) * 1ms;
        BOOST_TEST((std::chrono::abs(took + rest - 10s) < 1us || factor > 1000));
    }
}

BOOST_AUTO_TEST_CASE(is_a_plain_rate_with_no_warm_up_or_nothing_to_warm_up) {
    for (smooth_warming_up_options const& options : std::vector<smooth_warming_up_options>{
             {.rate = {5, 1s}, .warm_up = 0s},
             {.rate = {5, 1s}, .warm_up = 0s, .cold_factor = 1},
             {.rate = {5, 1s}, .warm_up = 4s, .cold_factor = 1},
             {.rate = {5, 1s}, .warm_up = 1ns, .cold_factor = 1e6},
         }) {
        auto limit = begun<smooth_warming_up>(options, noon);
        auto now = noon;
        for (auto const idle : {0ns, 1ns, duration(1min), duration(24h * 365)}) {
            now += idle;
            auto const waited = wait_for(limit, 10, now);
            for (std::size_t i = 1; i != waited.size(); ++i)
                BOOST_TEST(waited[i] - 200ms <= 1ns);
        }
        renew(limit, {.rate = {5, 1s}, .warm_up = 4s}, now);
        renew(limit, options, now);
        BOOST_TEST(limit.ready_at(1, 0, now) == now + 200ms);
    }
}

BOOST_AUTO_TEST_CASE(has_no_bursts) {
    auto limit = begun<smooth_warming_up>({.rate = {5, 1s}}, noon);
    limit.take(1, noon);
    BOOST_TEST(limit.remaining(noon + 24h) == 1);
    limit.take(1, noon + 24h);
    BOOST_TEST((limit.ready_at(1, 0, noon + 24h) > noon + 24h));
}

BOOST_AUTO_TEST_CASE(carries_over_the_cold_by_carry_over) {
    auto limit = begun<smooth_warming_up>({.rate = {2, 1s}, .warm_up = 4s}, noon);
    auto now = noon;
    wait_for(limit, 8, now);
    now = limit.ready_at(1, 0, now);
    auto const next_interval = [&](smooth_warming_up_options const& options) {
        auto copy = limit;
        renew(copy, options, now);
        copy.take(1, now);
        return copy.ready_at(1, 0, now) - now;
    };
    using enum carry_over;
    BOOST_TEST(next_interval({.rate = {2, 1s}, .warm_up = 4s, .carry_over = as_is}) == 500ms);
    BOOST_TEST(next_interval({.rate = {4, 1s}, .warm_up = 4s, .carry_over = proportional}) ==
               250ms);
    BOOST_TEST(next_interval({.rate = {2, 1s}, .warm_up = 4s, .carry_over = reset}) == 1375ms);

    // It was always warm, and stays warm until it has been idle.
    for (auto const how : {as_is, proportional, reset}) {
        auto plain = begun<smooth_warming_up>({.rate = {2, 1s}, .warm_up = 0s}, noon);
        renew(plain, {.rate = {2, 1s}, .warm_up = 4s, .carry_over = how}, noon);
        plain.take(1, noon);
        BOOST_TEST(plain.ready_at(1, 0, noon) == noon + (how == reset ? 1375ms : 500ms));
    }
}

BOOST_AUTO_TEST_CASE(rejects_invalid_options_by_name_and_is_unchanged) {
    using nonsense = std::invalid_argument;
    auto const nan = std::numeric_limits<double>::quiet_NaN();
    auto const infinite = std::numeric_limits<double>::infinity();
    BOOST_CHECK_EXCEPTION(smooth_warming_up({.rate = {0, 1s}}), nonsense,
                          says("weir::smooth_warming_up: permits of rate is 0, but must be from 1 "
                               "to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(
        smooth_warming_up({.warm_up = -1ns}), nonsense,
        says("weir::smooth_warming_up: warm_up is -1ns, but must be at least 0s"));
    BOOST_CHECK_EXCEPTION(
        smooth_warming_up({.cold_factor = 0.5}), nonsense,
        says("weir::smooth_warming_up: cold_factor is 0.5, but must be from 1 to 1000000"));
    BOOST_CHECK_EXCEPTION(
        smooth_warming_up({.cold_factor = nan}), nonsense,
        says("weir::smooth_warming_up: cold_factor is nan, but must be from 1 to 1000000"));
    BOOST_CHECK_EXCEPTION(
        smooth_warming_up({.cold_factor = infinite}), nonsense,
        says("weir::smooth_warming_up: cold_factor is inf, but must be from 1 to 1000000"));

    auto limit = begun<smooth_warming_up>({.rate = {2, 1s}, .warm_up = 4s}, noon);
    limit.take(1, noon);
    BOOST_CHECK_THROW(renew(limit, {.cold_factor = 0}, noon + 1s), nonsense);
    BOOST_TEST(limit.ready_at(1, 0, noon) == noon + 1375ms);
}

BOOST_AUTO_TEST_SUITE_END()
