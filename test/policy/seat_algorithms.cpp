#include <weir/policy/seat_algorithms.hpp>

#include "support/printing.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <set>
#include <stdexcept>

using namespace std::chrono_literals;
using support::says;
using weir::aimd_options;
using weir::amount;
using weir::duration;
using weir::gradient2_options;
using weir::max_amount;
using weir::vegas_options;
using weir::policy::aimd;
using weir::policy::exponential_mean;
using weir::policy::gradient2;
using weir::policy::probe_clock;
using weir::policy::seat_sample;
using weir::policy::vegas;

BOOST_AUTO_TEST_SUITE(policy_seat_algorithms)

namespace {

using nonsense = std::invalid_argument;

// A sample, and the number of seats after it.
struct row {
    duration latency;
    amount in_flight;
    bool dropped;
    amount seats;
};

template <class Algorithm>
void check(Algorithm& a, std::initializer_list<row> table) {
    int line = 0;
    for (auto const& r : table) {
        BOOST_TEST_CONTEXT("row " << ++line) {
            a.update({.latency = r.latency, .in_flight = r.in_flight, .dropped = r.dropped});
            BOOST_TEST(a.seats() == r.seats);
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(the_algorithm_aimd)

BOOST_AUTO_TEST_CASE(adds_one_and_takes_a_tenth) {
    aimd a({.seats = 30, .slow_start = 0, .timeout = 100ms});
    BOOST_TEST(a.seats() == 30);
    check(a, {
                 {10ms, 30, false, 31},
                 {10ms, 15, false, 31},  // less than half is in use
                 {10ms, 16, false, 32},  // half is in use
                 {100ms, 32, false, 33},
                 {101ms, 33, false, 29},  // 33 * 0.9 = 29.7
                 {10ms, 0, true, 26},
                 {10ms, 26, true, 23},
                 {10ms, 23, true, 20},
                 {10ms, 20, true, 20},  // the minimum
             });
}

BOOST_AUTO_TEST_CASE(doubles_in_the_beginning_until_something_is_dropped) {
    aimd a({.seats = 20});
    check(a, {
                 {10ms, 20, false, 40},
                 {10ms, 19, false, 40},
                 {10ms, 40, false, 80},
                 {10ms, 80, true, 72},
                 {10ms, 72, false, 73},
             });
}

BOOST_AUTO_TEST_CASE(doubles_only_up_to_slow_start) {
    aimd a({.seats = 20, .slow_start = 50});
    check(a, {{10ms, 20, false, 40}, {10ms, 40, false, 50}, {10ms, 50, false, 51}});
}

BOOST_AUTO_TEST_CASE(never_exceeds_the_maximum) {
    aimd a({.seats = 20, .max = 70});
    check(a, {{10ms, 20, false, 40}, {10ms, 40, false, 70}, {10ms, 70, false, 70}});
    aimd wide({.seats = max_amount, .max = max_amount});
    check(wide, {{10ms, max_amount, false, max_amount}});
}

BOOST_AUTO_TEST_CASE(rejects_invalid_options_by_name) {
    BOOST_CHECK_EXCEPTION(aimd({.min = 0}), nonsense,
                          says("weir::aimd: min is 0, but must be from 1 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(aimd({.min = 30, .max = 29}), nonsense,
                          says("weir::aimd: max is 29, but must be from 30 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(aimd({.seats = 19}), nonsense,
                          says("weir::aimd: seats is 19, but must be from 20 to 200"));
    BOOST_CHECK_EXCEPTION(
        aimd({.slow_start = -1}), nonsense,
        says("weir::aimd: slow_start is -1, but must be from 0 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(aimd({.backoff = 1}), nonsense,
                          says("weir::aimd: backoff is 1, but must be from 0.5 to 0.99"));
    BOOST_CHECK_EXCEPTION(aimd({.backoff = std::numeric_limits<double>::quiet_NaN()}), nonsense,
                          says("weir::aimd: backoff is nan, but must be from 0.5 to 0.99"));
    BOOST_CHECK_EXCEPTION(aimd({.timeout = 0s}), nonsense,
                          says("weir::aimd: timeout is 0s, but must be at least 1ns"));
    BOOST_CHECK_EXCEPTION(aimd({.window = -1ns}), nonsense,
                          says("weir::aimd: window is -1ns, but must be from 0s to 24h"));
    BOOST_CHECK_EXCEPTION(aimd({.samples = 0}), nonsense,
                          says("weir::aimd: samples is 0, but must be from 1 to 1000000"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(the_algorithm_vegas)

BOOST_AUTO_TEST_CASE(keeps_the_queue_between_three_and_six) {
    vegas a({.seats = 50, .slow_start = 0});
    check(a, {
                 {100ms, 50, false, 50},  // the first sample sets the no-load latency
                 {102ms, 50, false, 56},  // ceil(50 * 2 / 102) = 1 in the queue: 6 more
                 {106ms, 56, false, 56},  // ceil(3.17) = 4, neither too few nor too many
                 {103ms, 56, false, 57},  // ceil(1.63) = 2: 1 more
                 {113ms, 57, false, 56},  // ceil(6.56) = 7: 1 fewer
                 {111ms, 56, false, 56},  // ceil(5.55) = 6
                 {102ms, 27, false, 56},  // less than half is in use
                 {102ms, 28, false, 57},  // ceil(1.10) = 2
                 {102ms, 0, true, 56},    // a drop counts whatever is in use
                 {90ms, 56, false, 56},   // a new minimum; nothing else changes
                 {100ms, 56, false, 56},  // ceil(5.6) = 6
                 {101ms, 56, false, 55},  // ceil(6.1) = 7
             });
}

BOOST_AUTO_TEST_CASE(takes_steps_of_the_decimal_logarithm) {
    vegas a({.seats = 500, .slow_start = 0});
    check(a, {
                 {100ms, 500, false, 500},
                 {100ms, 500, false, 512},      // 6 * 2
                 {101ms, 512, false, 512},      // ceil(5.07) = 6
                 {100'500us, 512, false, 514},  // ceil(2.55) = 3 is below 3 * 2: 2 more
                 {103ms, 514, false, 512},      // ceil(14.97) = 15 is above 6 * 2: 2 fewer
             });
}

BOOST_AUTO_TEST_CASE(doubles_in_the_beginning_until_there_is_a_queue) {
    vegas a({.seats = 20});
    check(a, {
                 {100ms, 20, false, 20},
                 {100ms, 20, false, 40},
                 {100ms, 19, false, 40},  // less than half is in use
                 {100ms, 40, false, 80},
                 {105ms, 80, false, 160},  // ceil(3.8) = 4 is not above 6
                 {160ms, 160, false, 80},  // 60 seem to queue: half of the seats for a window
                 {100ms, 80, false, 160},
                 {160ms, 160, false, 106},  // 60 did queue up; 6 may stay
                 {105ms, 106, false, 106},  // ceil(5.05) = 6
             });
}

BOOST_AUTO_TEST_CASE(netflix_concurrency_limits_35_is_as_fast_as_slow_start_makes_it) {
    int with = 0;
    for (vegas a({.seats = 20, .max = 10'000}); a.seats() < 1'000; ++with)
        a.update({.latency = 100ms, .in_flight = a.seats()});
    int without = 0;
    for (vegas a({.seats = 20, .max = 10'000, .slow_start = 0}); a.seats() < 1'000; ++without)
        a.update({.latency = 100ms, .in_flight = a.seats()});
    BOOST_TEST(with == 1 + 6);  // 20 * 2^6
    BOOST_TEST(without > 80);
}

BOOST_AUTO_TEST_CASE(makes_a_part_of_each_step_if_it_is_smoothed) {
    vegas a({.seats = 50, .slow_start = 0, .smoothing = 0.5});
    check(a, {{100ms, 50, false, 50}, {100ms, 50, false, 53}, {100ms, 53, false, 56}});
}

BOOST_AUTO_TEST_CASE(measures_the_no_load_latency_again_with_half_of_the_seats) {
    vegas a({.seats = 50, .slow_start = 0, .probe = 30});
    a.update({.latency = 100ms, .in_flight = 50, .count = 750});
    a.update({.latency = 106ms, .in_flight = 50, .count = 749});
    BOOST_TEST(a.seats() == 50);
    a.update({.latency = 106ms, .in_flight = 50});
    BOOST_TEST(a.seats() == 25);
    a.update({.latency = 200ms, .in_flight = 25});
    BOOST_TEST(a.seats() == 50);
    a.update({.latency = 200ms, .in_flight = 50});
    BOOST_TEST(a.seats() == 56);  // no queue
}

BOOST_AUTO_TEST_CASE(envoy_46532_probes_with_half_and_not_with_the_minimum) {
    vegas wide({.seats = 100, .min = 3, .slow_start = 0, .probe = 1});
    wide.update({.latency = 100ms, .in_flight = 100, .count = 100});
    BOOST_TEST(wide.seats() == 50);
    vegas narrow({.seats = 100, .min = 80, .slow_start = 0, .probe = 1});
    narrow.update({.latency = 100ms, .in_flight = 100, .count = 100});
    BOOST_TEST(narrow.seats() == 80);
}

BOOST_AUTO_TEST_CASE(netflix_concurrency_limits_165_keeps_the_no_load_latency_within_its_bounds) {
    vegas a({.seats = 50, .slow_start = 0, .probe = 1, .no_load_max = 120ms});
    a.update({.latency = 500ms, .in_flight = 50, .count = 50});
    BOOST_TEST(a.seats() == 25);
    a.update({.latency = 500ms, .in_flight = 25});
    a.update({.latency = 140ms, .in_flight = 50});
    BOOST_TEST(a.seats() == 49);  // ceil(50 * 20 / 140) = 8

    vegas b({.seats = 50, .slow_start = 0, .no_load_min = 80ms});
    check(b, {{10ms, 50, false, 50}, {85ms, 50, false, 50}});  // ceil(50 * 5 / 85) = 3
}

// One reply from a cache has set the no-load latency: the number falls until the next probe, at most 30 samples for
// each of 50 seats later.
BOOST_AUTO_TEST_CASE(envoy_10647_recovers_from_a_number_that_is_too_small) {
    vegas a({.seats = 50, .slow_start = 0, .probe = 30});
    a.update({.latency = 1ms, .in_flight = 50});
    amount least = 50;
    int windows = 0;
    do {
        a.update({.latency = 100ms, .in_flight = a.seats()});
        least = std::min(least, a.seats());
    } while (++windows != 30 * 50 && (least > 10 || a.seats() < 50));
    BOOST_TEST(least <= 10);
    BOOST_TEST(a.seats() >= 50);
}

BOOST_AUTO_TEST_CASE(first_finds_out_whether_the_queue_or_the_service_is_slow) {
    vegas slower({.seats = 50, .slow_start = 0});
    slower.update({.latency = 100ms, .in_flight = 50, .count = 200});
    slower.update({.latency = 200ms, .in_flight = 50});
    BOOST_TEST(slower.seats() == 25);
    slower.update({.latency = 200ms, .in_flight = 25});
    BOOST_TEST(slower.seats() == 50);
    slower.update({.latency = 200ms, .in_flight = 50});
    BOOST_TEST(slower.seats() == 56);  // the service

    vegas queued({.seats = 50, .slow_start = 0});
    queued.update({.latency = 100ms, .in_flight = 50, .count = 200});
    queued.update({.latency = 200ms, .in_flight = 50});
    BOOST_TEST(queued.seats() == 25);
    queued.update({.latency = 100ms, .in_flight = 25});
    BOOST_TEST(queued.seats() == 50);
    queued.update({.latency = 200ms, .in_flight = 50, .count = 100});
    BOOST_TEST(queued.seats() == 31);  // 25 have queued up: all but 6 are removed
    queued.update({.latency = 150ms, .in_flight = 31, .count = 100});
    BOOST_TEST(queued.seats() == 30);  // 11 have: a step
}

BOOST_AUTO_TEST_CASE(decreases_by_a_factor_if_that_is_more) {
    vegas a({.seats = 100, .slow_start = 0, .backoff = 0.5});
    check(a, {{10ms, 100, false, 100}, {20ms, 100, false, 50}, {20ms, 50, true, 25}});
}

BOOST_AUTO_TEST_CASE(ignores_the_latency_of_a_window_with_only_drops) {
    vegas a({.seats = 50, .slow_start = 0});
    check(
        a,
        {{0ms, 50, true, 49}, {100ms, 49, false, 49}, {0ms, 49, true, 48}, {100ms, 48, false, 54}});
}

BOOST_AUTO_TEST_CASE(rejects_invalid_options_by_name) {
    BOOST_CHECK_EXCEPTION(vegas({.seats = 1001}), nonsense,
                          says("weir::vegas: seats is 1001, but must be from 1 to 1000"));
    BOOST_CHECK_EXCEPTION(vegas({.smoothing = 0}), nonsense,
                          says("weir::vegas: smoothing is 0, but must be from 0.001 to 1"));
    BOOST_CHECK_EXCEPTION(vegas({.probe = 0}), nonsense,
                          says("weir::vegas: probe is 0, but must be from 1 to 1000000"));
    BOOST_CHECK_EXCEPTION(vegas({.no_load_min = 0ns}), nonsense,
                          says("weir::vegas: no_load_min is 0s, but must be at least 1ns"));
    BOOST_CHECK_EXCEPTION(vegas({.no_load_min = 2us, .no_load_max = 1us}), nonsense,
                          says("weir::vegas: no_load_max is 1us, but must be at least 2us"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(the_algorithm_gradient2)

BOOST_AUTO_TEST_CASE(compares_a_window_with_the_mean_of_many) {
    gradient2 a({.seats = 100, .slow_start = 0});
    check(a, {
                 {100ms, 100, false, 100},  // 100.8: a fifth of 4
                 {100ms, 100, false, 101},  // 101.6
                 {250ms, 101, false, 99},   // mean 150, gradient 0.9: 101.6 - 0.2 * 10.16 = 99.568
                 {100ms, 49, false, 99},    // less than half is in use; mean 137.5
                 {10ms, 99, false, 100},    // 100.368; mean 112, which is far above: 106.4
                 {180ms, 100, false, 100},  // mean 118.67, gradient 0.98889: 100.145
                 {100ms, 0, true, 90},      // 90.13
             });
}

BOOST_AUTO_TEST_CASE(netflix_concurrency_limits_134_does_not_grow_while_it_is_cut) {
    gradient2 a({.seats = 100, .slow_start = 0, .tolerance = 1, .probe = 1'000});
    a.update({.latency = 98ms, .in_flight = 100});
    BOOST_TEST(a.seats() == 100);  // 100.8
    auto before = a.seats();
    for (int i = 0; i != 8; ++i) {  // the gradient is from 0.99 to 0.998
        a.update({.latency = 100ms, .in_flight = 100});
        BOOST_TEST(a.seats() <= before);
        before = a.seats();
    }
    BOOST_TEST(a.seats() == 100);  // 100.07
}

BOOST_AUTO_TEST_CASE(measures_the_no_load_latency_again_with_half_of_the_seats) {
    gradient2 a({.seats = 100, .slow_start = 0, .queue = 0, .probe = 3});
    check(a, {
                 {100ms, 100, false, 100},
                 {100ms, 100, false, 100},
                 {150ms, 100, false, 50},
                 {80ms, 50, false, 100},
                 {150ms, 100, false, 80},  // mean 80.23, gradient 0.8023, in one step
             });
}

BOOST_AUTO_TEST_CASE(doubles_in_the_beginning_until_the_gradient_falls) {
    gradient2 a({.seats = 20});
    check(a, {
                 {100ms, 20, false, 40},
                 {100ms, 19, false, 40},
                 {100ms, 40, false, 80},
                 {100ms, 80, false, 160},
                 {400ms, 160, false, 80},  // mean 160, gradient 0.6: half of the seats for a window
                 {100ms, 80, false, 160},  // mean 100 from now on
                 {200ms, 160, false, 120},  // mean 100.33, gradient 0.7525: 120.4
                 {150ms, 120, false, 121},  // mean 100.5, gradient 1: 121.2
                 {160ms, 121, false, 119},  // mean 100.7, gradient 0.944: 119.84
             });
}

namespace {

// Has seen ten windows of 100 ms, and one of 300 ms.
gradient2 suspicious(amount slow_start) {
    gradient2 a({.seats = 100, .slow_start = slow_start, .queue = 0, .probe = 80});
    for (int i = 0; i != 10; ++i)
        a.update({.latency = 100ms, .in_flight = 100});
    BOOST_TEST(a.seats() == 100);
    a.update({.latency = 0ms, .in_flight = 100, .dropped = true});
    BOOST_TEST(a.seats() == 90);
    a.update({.latency = 300ms, .in_flight = 90});
    BOOST_TEST(a.seats() == 45);
    return a;
}

}  // namespace

BOOST_AUTO_TEST_CASE(first_finds_out_whether_the_queue_or_the_service_is_slow) {
    auto queued = suspicious(0);
    check(queued, {{100ms, 45, false, 90}, {300ms, 90, false, 45}});  // gradient 0.503
    auto slower = suspicious(0);
    check(slower, {{300ms, 45, false, 90}, {300ms, 90, false, 90}});
}

BOOST_AUTO_TEST_CASE(doubles_again_when_the_service_became_slower) {
    auto a = suspicious(100);
    check(a, {{300ms, 45, false, 90}, {300ms, 90, false, 100}});
}

BOOST_AUTO_TEST_CASE(rejects_invalid_options_by_name) {
    BOOST_CHECK_EXCEPTION(gradient2({.seats = 10}), nonsense,
                          says("weir::gradient2: seats is 10, but must be from 20 to 200"));
    BOOST_CHECK_EXCEPTION(gradient2({.tolerance = 0.9}), nonsense,
                          says("weir::gradient2: tolerance is 0.9, but must be from 1 to 10"));
    BOOST_CHECK_EXCEPTION(
        gradient2({.queue = -1}), nonsense,
        says("weir::gradient2: queue is -1, but must be from 0 to 1000000000000000"));
    BOOST_CHECK_EXCEPTION(gradient2({.smoothing = 1.5}), nonsense,
                          says("weir::gradient2: smoothing is 1.5, but must be from 0.001 to 1"));
    BOOST_CHECK_EXCEPTION(gradient2({.backoff = 0.4}), nonsense,
                          says("weir::gradient2: backoff is 0.4, but must be from 0.5 to 1"));
    BOOST_CHECK_EXCEPTION(gradient2({.long_window = 0}), nonsense,
                          says("weir::gradient2: long_window is 0, but must be from 1 to 1000000"));
    BOOST_CHECK_EXCEPTION(gradient2({.probe = 0}), nonsense,
                          says("weir::gradient2: probe is 0, but must be from 1 to 1000000"));
    BOOST_CHECK_EXCEPTION(gradient2({.ignore_below = -1ns}), nonsense,
                          says("weir::gradient2: ignore_below is -1ns, but must be at least 0s"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(the_parts_of_the_algorithms)

BOOST_AUTO_TEST_CASE(a_mean_is_plain_at_first_and_forgets_afterwards) {
    exponential_mean mean(3, 2);
    BOOST_TEST(mean.add(10) == 10);
    BOOST_TEST(mean.add(20) == 15);
    BOOST_TEST(mean.add(25) == 20);  // a half: 2 / (3 + 1)
    mean.scale(0.5);
    BOOST_TEST(mean.add(20) == 15);
    mean.set(40);
    BOOST_TEST(mean.add(20) == 30);

    exponential_mean early(3, 5);
    early.set(40);
    BOOST_TEST(early.add(20) == 30);
}

BOOST_AUTO_TEST_CASE(envoy_8337_probes_of_several_limiters_are_at_different_times) {
    std::set<amount> lengths;
    for (std::uint64_t noise = 0; noise != 1'000; ++noise) {
        probe_clock clock;
        clock.restart(noise);
        amount passed = 0;
        for (; !clock.is_due(100); ++passed)
            clock.pass(1);
        lengths.insert(passed);
    }
    BOOST_TEST(*lengths.begin() >= 50);
    BOOST_TEST(*lengths.begin() <= 52);
    BOOST_TEST(*lengths.rbegin() <= 100);
    BOOST_TEST(*lengths.rbegin() >= 99);
    BOOST_TEST(lengths.size() > 45U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
