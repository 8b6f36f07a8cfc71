#include <weir/policy/settled_window.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>

using namespace std::chrono_literals;
using weir::amount;
using weir::duration;
using weir::time_point;
using weir::policy::settled_window;

BOOST_AUTO_TEST_SUITE(a_settled_window)

namespace {

constexpr time_point noon{12h};

// The number in progress is the same since noon.
bool ends(settled_window& w, time_point now, duration latency, amount in_progress,
          bool dropped = false) {
    return w.add({.granted = now - latency,
                  .now = now,
                  .in_progress = in_progress,
                  .in_use = in_progress,
                  .dropped = dropped,
                  .work = static_cast<std::uint64_t>(in_progress * (now - noon).count())});
}

}  // namespace

BOOST_AUTO_TEST_CASE(reports_means) {
    settled_window w;
    BOOST_TEST(w.latency() == 0);
    BOOST_TEST(w.throughput() == 0);
    BOOST_TEST(w.turns() == 0);
    BOOST_TEST(w.variance() == 0);
    w.begin(noon, 0);
    BOOST_TEST(ends(w, noon + 1ms, 2us, 4));
    BOOST_TEST(ends(w, noon + 2ms, 2us, 2));
    BOOST_TEST(w.samples() == 2);
    BOOST_TEST(w.served() == 2);
    BOOST_TEST(w.in_progress() == 3);
    BOOST_TEST(w.latency() == 2'000);
    BOOST_TEST(w.throughput() == 3. / 2'000);
    BOOST_TEST(w.variance() == 0);
    BOOST_TEST(w.turns() == 2. / 3);
    BOOST_TEST(w.age(noon + 1s) == 1s);
    BOOST_TEST(!w.has_drops());
    w.begin(noon + 1s, 0);
    BOOST_TEST(w.samples() == 0);
    BOOST_TEST(w.latency() == 0);
}

// Four seats and ten short calls in 2 ms: three seats were in use by calls that have not ended. By Little's law, a call
// takes 800 us on average.
BOOST_AUTO_TEST_CASE(counts_calls_that_have_not_ended_if_latencies_vary) {
    settled_window w;
    w.begin(noon, 0);
    for (int i = 1; i != 11; ++i)
        BOOST_TEST(ends(w, noon + i * 200us, i % 2 == 0 ? 100us : 300us, 4));
    BOOST_TEST(w.variance() == 0.25, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(w.latency() == 800'000);
    BOOST_TEST(w.throughput() == 4. / 800'000);

    // They vary half as much: half of the difference.
    w.begin(noon, 0);
    auto const a_bit = duration(static_cast<duration::rep>(200'000 * std::sqrt(0.125)));
    for (int i = 1; i != 11; ++i)
        BOOST_TEST(ends(w, noon + i * 200us, i % 2 == 0 ? 200us - a_bit : 200us + a_bit, 4));
    BOOST_TEST(w.latency() == 500'000, boost::test_tools::tolerance(1e-4));
}

// Calls of 1, 1 and 4 ms, one after another. An hour passes between them, in which nothing is in progress.
BOOST_AUTO_TEST_CASE(has_no_time_in_which_nothing_is_in_progress) {
    settled_window w;
    std::uint64_t const before = ~std::uint64_t{} - 1'000'000;  // it begins again at 0
    w.begin(noon, before);
    auto const end = [&](time_point now, duration latency, std::uint64_t work) {
        BOOST_TEST(w.add({.granted = now - latency, .now = now, .work = before + work}));
    };
    end(noon + 1ms, 1ms, 1'000'000);
    end(noon + 1h, 1ms, 2'000'000);
    end(noon + 2h, 4ms, 6'000'000);
    BOOST_TEST(w.variance() == 0.5, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(w.latency() == 2'000'000);
    BOOST_TEST(w.throughput() == 1. / 2'000'000);
}

BOOST_AUTO_TEST_CASE(weighs_the_number_in_progress_by_seats_and_the_latency_by_calls) {
    settled_window w;
    w.begin(noon, 0);
    w.add({.granted = noon, .now = noon + 2us, .count = 3, .in_progress = 8, .in_use = 8});
    w.add({.granted = noon + 2us, .now = noon + 4us, .count = 1, .in_progress = 4, .in_use = 4});
    BOOST_TEST(w.in_progress() == 7);
    BOOST_TEST(w.latency() == 2'000);
    BOOST_TEST(w.turns() == 4. / 7);
}

// A rejected call is over sooner than the others, so its seat is used more often: what counts is the time.
BOOST_AUTO_TEST_CASE(leaves_the_time_of_dropped_calls_out_of_the_throughput) {
    settled_window w;
    w.begin(noon, 0);
    BOOST_TEST(ends(w, noon + 1ms, 4us, 2));
    BOOST_TEST(ends(w, noon + 1ms, 4us, 2));
    for (int i = 0; i != 8; ++i)
        BOOST_TEST(ends(w, noon + 1ms, 1us, 2, true));
    BOOST_TEST(w.has_drops());
    BOOST_TEST(w.served() == 2);
    BOOST_TEST(w.latency() == 4'000);
    BOOST_TEST(w.throughput() == 2 * 0.5 / 4'000);
}

BOOST_AUTO_TEST_CASE(waits_until_the_former_number_has_no_effect) {
    settled_window w;
    w.restart(2, noon, 1min);
    BOOST_TEST(!ends(w, noon + 1ms, 1ms, 5));
    BOOST_TEST(!ends(w, noon + 2ms, 1ms, 4));
    BOOST_TEST(!ends(w, noon + 3ms, 1ms, 3));  // two are still in progress
    BOOST_TEST(!ends(w, noon + 4ms, 1ms, 2));
    BOOST_TEST(!ends(w, noon + 5ms, 1ms, 2));
    BOOST_TEST(w.samples() == 0);
    BOOST_TEST(ends(w, noon + 7ms, 4ms, 2));
    BOOST_TEST(w.age(noon + 7ms) == 2ms);
    // A call from before counts from the time at which not more than two were in progress.
    BOOST_TEST(ends(w, noon + 7ms, 1h, 2));
    BOOST_TEST(w.variance() == 0);
    BOOST_TEST(w.latency() == 4'000'000);
    w.begin(noon + 7ms, 0);  // and the next window is without waits
    BOOST_TEST(ends(w, noon + 8ms, 1us, 2));
}

BOOST_AUTO_TEST_CASE(waits_no_longer_than_its_patience) {
    settled_window w;
    w.restart(1, noon, 10ms);
    BOOST_TEST(!ends(w, noon + 10ms - 1ns, 1ms, 5));
    BOOST_TEST(!ends(w, noon + 10ms, 1ms, 4));
    for (int i = 0; i != 3; ++i)
        BOOST_TEST(!ends(w, noon + 11ms, 1ms, 4));
    BOOST_TEST(ends(w, noon + 12ms, 1ms, 4));
}

BOOST_AUTO_TEST_CASE(takes_no_time_for_a_nanosecond) {
    settled_window w;
    w.begin(noon, 0);
    BOOST_TEST(ends(w, noon, 0ns, 1));
    BOOST_TEST(w.latency() == 1);
    BOOST_TEST(w.throughput() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
