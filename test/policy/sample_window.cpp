#include <weir/policy/sample_window.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>

using namespace std::chrono_literals;
using weir::amount;
using weir::duration;
using weir::time_point;
using weir::policy::sample_window;
using weir::policy::seat_sample;

BOOST_AUTO_TEST_SUITE(a_sample_window)

namespace {

constexpr time_point noon{12h};

// Releases at `now` a permit that was granted `latency` before.
std::optional<seat_sample> served(sample_window& w, time_point now, duration latency,
                                  amount in_flight = 1) {
    return w.add(now - latency, now, in_flight, false);
}
std::optional<seat_sample> dropped(sample_window& w, time_point now, duration latency,
                                   amount in_flight = 1) {
    return w.add(now - latency, now, in_flight, true);
}

}  // namespace

BOOST_AUTO_TEST_CASE(reports_the_mean_latency_the_most_in_flight_and_any_drop) {
    sample_window w(0s, 3, 0s);
    BOOST_TEST(!served(w, noon, 10ms, 4));
    BOOST_TEST(!served(w, noon + 1ms, 20ms, 9));
    auto const first = served(w, noon + 2ms, 60ms, 8);
    BOOST_TEST_REQUIRE(first.has_value());
    BOOST_TEST(first->latency == 30ms);
    BOOST_TEST(first->in_flight == 9);
    BOOST_TEST(!first->dropped);
    BOOST_TEST(first->count == 3);

    // Dropped requests are not part of the mean: a request that is rejected at once was not served fast.
    BOOST_TEST(!served(w, noon + 1s, 40ms, 2));
    BOOST_TEST(!dropped(w, noon + 1s, 1us, 3));
    auto const second = served(w, noon + 1s, 50ms, 1);
    BOOST_TEST_REQUIRE(second.has_value());
    BOOST_TEST(second->latency == 45ms);
    BOOST_TEST(second->in_flight == 3);
    BOOST_TEST(second->dropped);
    BOOST_TEST(second->count == 3);
}

BOOST_AUTO_TEST_CASE(reports_no_latency_if_everything_was_dropped) {
    sample_window w(0s, 1, 0s);
    auto const seen = dropped(w, noon, 5s);
    BOOST_TEST_REQUIRE(seen.has_value());
    BOOST_TEST(seen->latency == 0s);
    BOOST_TEST(seen->dropped);
}

BOOST_AUTO_TEST_CASE(lasts_for_its_shortest_time) {
    sample_window w(1s, 1, 0s);
    BOOST_TEST(!served(w, noon, 10ms));
    BOOST_TEST(!served(w, noon + 1s - 1ns, 10ms));
    auto const seen = served(w, noon + 1s, 10ms);
    BOOST_TEST_REQUIRE(seen.has_value());
    BOOST_TEST(seen->count == 3);
    BOOST_TEST(served(w, noon + 2s, 3s).has_value());
    BOOST_TEST(!served(w, noon + 3s - 1ns, 10ms));  // and not longer, whatever the latency
    BOOST_TEST(served(w, noon + 3s, 10ms).has_value());
}

BOOST_AUTO_TEST_CASE(lasts_for_twice_the_latency_of_the_window_before_but_at_most_a_second) {
    sample_window w(10ms, 1, 0s);
    BOOST_TEST(!served(w, noon - 10ms, 100ms));
    BOOST_TEST(served(w, noon, 100ms).has_value());
    BOOST_TEST(!served(w, noon + 200ms - 1ns, 1ms));
    BOOST_TEST(served(w, noon + 200ms, 1ms).has_value());  // the mean is 1 ms
    BOOST_TEST(!served(w, noon + 210ms - 1ns, 2s));
    BOOST_TEST(served(w, noon + 210ms, 2s).has_value());
    BOOST_TEST(!served(w, noon + 1210ms - 1ns, 2s));
    BOOST_TEST(served(w, noon + 1210ms, 2s).has_value());
}

BOOST_AUTO_TEST_CASE(waits_for_its_fewest_samples) {
    sample_window w(1s, 3, 0s);
    BOOST_TEST(!served(w, noon, 10ms));
    BOOST_TEST(!served(w, noon + 1h, 10ms));
    BOOST_TEST(served(w, noon + 2h, 10ms).has_value());
}

BOOST_AUTO_TEST_CASE(ignores_fast_samples_unless_they_were_dropped) {
    sample_window w(0s, 2, 100us);
    BOOST_TEST(!served(w, noon, 100us - 1ns));
    BOOST_TEST(!served(w, noon, 100us));
    auto const seen = dropped(w, noon, 1us);
    BOOST_TEST_REQUIRE(seen.has_value());
    BOOST_TEST(seen->latency == 100us);
}

BOOST_AUTO_TEST_CASE(envoy_11579_ignores_grants_from_before_a_change_of_the_number) {
    sample_window w(0s, 1, 0s);
    BOOST_TEST(served(w, noon, 100ms).has_value());
    w.number_changed(noon + 1s);
    BOOST_TEST(!served(w, noon + 1300ms, 301ms));
    BOOST_TEST(!dropped(w, noon + 1300ms, 301ms));
    // A later grant begins a window, which lasts for 200 ms.
    BOOST_TEST(!served(w, noon + 1300ms, 300ms));
    BOOST_TEST(!served(w, noon + 1500ms - 1ns, 100ms));
    auto const seen = served(w, noon + 1500ms, 800ms);  // and then all permits count
    BOOST_TEST_REQUIRE(seen.has_value());
    BOOST_TEST(seen->count == 3);
    BOOST_TEST(seen->latency == 400ms);
}

BOOST_AUTO_TEST_CASE(ignores_earlier_grants_released_after_the_change) {
    sample_window w(0s, 1, 0s);
    BOOST_TEST(served(w, noon, 100ms).has_value());
    w.number_changed(noon + 1s);
    BOOST_TEST(!served(w, noon + 1200ms - 1ns, 100ms));
    BOOST_TEST(!served(w, noon + 1200ms, 100ms));  // begins the window
    BOOST_TEST(served(w, noon + 1400ms, 100ms).has_value());
}

// A permit that was held for an hour is in the last window.
BOOST_AUTO_TEST_CASE(waits_at_most_for_its_longest_time_after_a_change) {
    sample_window w(0s, 1, 0s);
    BOOST_TEST(served(w, noon, 1h).has_value());
    w.number_changed(noon);
    BOOST_TEST(!served(w, noon + 1s - 1ns, 100ms));
    BOOST_TEST(!served(w, noon + 1s, 100ms));  // begins the window
    BOOST_TEST(served(w, noon + 2s, 100ms).has_value());

    sample_window longer(3s, 1, 0s);
    BOOST_TEST(!served(longer, noon, 1h));
    BOOST_TEST(served(longer, noon + 3s, 1h).has_value());
    longer.number_changed(noon + 3s);
    BOOST_TEST(!served(longer, noon + 6s - 1ns, 100ms));
    BOOST_TEST(!served(longer, noon + 6s, 100ms));
    BOOST_TEST(served(longer, noon + 9s, 100ms).has_value());
}

BOOST_AUTO_TEST_CASE(restarts_when_the_number_changes_in_it) {
    sample_window w(0s, 2, 0s);
    BOOST_TEST(!served(w, noon, 100ms, 7));
    w.number_changed(noon);
    BOOST_TEST(!served(w, noon + 1ms, 1ms, 2));
    auto const seen = served(w, noon + 1ms, 1ms, 3);
    BOOST_TEST_REQUIRE(seen.has_value());
    BOOST_TEST(seen->in_flight == 3);
    BOOST_TEST(seen->latency == 1ms);
}

BOOST_AUTO_TEST_SUITE_END()
