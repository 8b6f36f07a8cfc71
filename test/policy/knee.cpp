// The algorithm with the policy alone, in virtual time. `knee_simulation` measures the numbers of the documentation.

#include <weir/policy/knee.hpp>

#include "support/printing.hpp"
#include "support/says.hpp"
#include "support/service_simulation.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using support::says;
using support::service_simulation;
using support::variation;
using weir::amount;
using weir::duration;
using weir::knee_options;
using weir::time_point;
using weir::policy::knee;

BOOST_AUTO_TEST_SUITE(policy_knee)

namespace {

constexpr time_point noon{12h};

variation const& quarter() {
    static variation const v = variation::lognormal(0.25);
    return v;
}

// Checks the latency and the throughput at the service 15 s after a change and later.
void recovers(service_simulation& s, double latency = 1.6) {
    s.run(15s);
    for (int i = 0; i != 9; ++i)
        BOOST_TEST(s.run(5s).times_own() <= 2.0);
    auto const later = s.run(1min);
    BOOST_TEST(later.times_own() <= latency);
    BOOST_TEST(later.throughput() >= 0.95);
}

// Runs until a probe begins, and returns the number before it.
amount reach_probe(service_simulation& s) {
    for (;;) {
        auto const before = s.seats().seats();
        s.run(1ms);
        if (s.seats().seats() <= before / 2)
            return before;
    }
}

// Calls that end with these latencies, each in all seats.
void feed(knee& k, time_point& now, duration latency, int calls) {
    for (int i = 0; i != calls; ++i) {
        now = weir::later(now, latency);
        k.add(
            {.granted = now - latency, .now = now, .in_progress = k.seats(), .in_use = k.seats()});
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(the_knee)

BOOST_AUTO_TEST_CASE(checks_its_options) {
    auto const wrong = [](knee_options const& o, char const* what) {
        BOOST_CHECK_EXCEPTION(knee{o}, std::invalid_argument, says(what));
    };
    wrong({.min = 0}, "weir::knee: min is 0, but must be from 1 to 1000000000000000");
    wrong({.min = 5, .max = 4}, "weir::knee: max is 4, but must be from 5 to 1000000000000000");
    wrong({.seats = 3, .min = 4}, "weir::knee: seats is 3, but must be from 4 to 1000");
    wrong({.headroom = 0.04}, "weir::knee: headroom is 0.04, but must be from 0.05 to 2");
    wrong({.headroom = 2.1}, "weir::knee: headroom is 2.1, but must be from 0.05 to 2");
    wrong({.probing = 0}, "weir::knee: probing is 0, but must be from 0.001 to 0.2");
    wrong({.probing = 0.3}, "weir::knee: probing is 0.3, but must be from 0.001 to 0.2");
    knee const k(knee_options{.seats = 7, .headroom = 2, .probing = 0.2});
    BOOST_TEST(k.seats() == 7);
    BOOST_TEST(k.options().headroom == 2);
}

BOOST_AUTO_TEST_CASE(continues_within_new_bounds) {
    knee k(knee_options{.seats = 40, .max = 100});
    auto now = noon;
    while (!k.is_probing())
        feed(k, now, 1ms, 1);
    for (auto const& bounds : {knee_options{.seats = 60, .min = 60, .max = 90},
                               knee_options{.seats = 2, .min = 1, .max = 3}}) {
        knee other(bounds);
        other.take_over(k, now);
        BOOST_TEST(other.is_probing());
        BOOST_TEST(other.seats() >= bounds.min);
        BOOST_TEST(other.seats() <= bounds.max);
        BOOST_TEST((other.options() == bounds));
        feed(other, now, 1ms, 1'000);
        BOOST_TEST(other.seats() >= bounds.min);
        BOOST_TEST(other.seats() <= bounds.max);
    }
}

BOOST_AUTO_TEST_CASE(stays_within_its_bounds_with_any_latency) {
    for (duration const odd : {0ns, 1ns, duration(24h * 3)}) {
        knee k(knee_options{.max = 50});
        auto now = noon;
        for (int i = 0; i != 20; ++i) {
            feed(k, now, 1ms, 500);
            BOOST_TEST(k.seats() >= 1);
            BOOST_TEST(k.seats() <= 50);
            feed(k, now, odd, 500);
            BOOST_TEST(k.seats() >= 1);
            BOOST_TEST(k.seats() <= 50);
            BOOST_TEST((k.latency() >= 0ns));
            BOOST_TEST((k.latency() <= 24h));
        }
        feed(k, now, 1ms, 20'000);
        BOOST_TEST((k.latency() == 1ms));
    }
}

// Limiters that go by one clock probe together.
BOOST_AUTO_TEST_CASE(probes_at_multiples_of_10_s) {
    service_simulation s(weir::adaptive_options(), {.workers = 16}, quarter(), 1);
    s.run(30s);
    for (int i = 0; i != 5; ++i) {
        reach_probe(s);
        auto const late = s.now().time_since_epoch() % 10s;
        BOOST_TEST((late < 500ms));
        s.run(5s);
    }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(the_knee_before_a_service)

BOOST_AUTO_TEST_CASE(is_found_and_followed) {
    struct kind {
        variation times;
        amount least_workers;
    };
    for (auto const& [times, least] :
         {kind{variation::none(), 2}, kind{quarter(), 2}, kind{variation::lognormal(0.5), 2},
          kind{variation::lognormal(1), 50}}) {
        for (amount const workers : {amount{2}, amount{4}, amount{16}, amount{50}}) {
            if (workers < least)
                continue;
            service_simulation s(weir::adaptive_options(), {.workers = workers}, times, 1);
            auto const latency = workers >= 16 && least == 2 ? 1.4 : 1.6;
            recovers(s, latency);
            s.behind().workers = workers / 2;
            recovers(s, workers >= 32 ? latency : 1.6);
            s.behind().workers = workers;
            recovers(s, latency);
            s.behind().own *= 4;
            if (least == 2)
                recovers(s, latency);
        }
    }
}

// Half of the number is still too much. The probe must lower it further.
BOOST_AUTO_TEST_CASE(is_found_from_far_above) {
    service_simulation s(weir::knee_options{.seats = 40}, {.workers = 4}, quarter(), 1);
    recovers(s);
    service_simulation farther(weir::knee_options{.seats = 1'000}, {.workers = 4}, quarter(), 1);
    farther.run(45s);
    recovers(farther);
}

// The service becomes slower during a probe: the throughput of before and the latency of now do not belong together.
BOOST_AUTO_TEST_CASE(is_not_raised_by_a_probe) {
    service_simulation s(weir::adaptive_options(), {.workers = 16}, quarter(), 1);
    s.run(30s);
    auto const before = reach_probe(s);
    auto const level = s.seats().seats();
    s.behind().own = 80ms;
    while (s.seats().seats() <= level)
        s.run(1ms);
    BOOST_TEST(s.seats().seats() <= before);
}

BOOST_AUTO_TEST_CASE(is_found_again_if_the_service_changes_during_a_probe) {
    for (int const part : {0, 5, 10, 15, 20, 30}) {  // of about 20 parts of a probe
        for (auto const& [workers, own] : {std::pair{8, 20ms}, std::pair{16, 80ms}}) {
            service_simulation s(weir::adaptive_options(), {.workers = 16}, quarter(), 1);
            s.run(30s);
            reach_probe(s);
            s.run(part * 15ms);
            s.behind().workers = workers;
            s.behind().own = own;
            recovers(s);
        }
    }
}

BOOST_AUTO_TEST_CASE(is_kept_while_the_service_stands_still_for_10_s) {
    service_simulation s(weir::adaptive_options(), {.workers = 16}, quarter(), 1);
    s.run(1min);
    s.behind().stands_still = true;
    s.run(1s);
    auto const before = s.seats().seats();
    s.run(9s);
    BOOST_TEST(s.seats().seats() <= std::max<amount>(before, 20));
    s.behind().stands_still = false;
    recovers(s);
}

BOOST_AUTO_TEST_CASE(is_kept_while_it_is_not_needed) {
    service_simulation s(weir::adaptive_options(), {.workers = 16}, quarter(), 1);
    s.run(1min);
    auto const before = s.seats().seats();
    s.offer(250);  // 5 workers
    s.run(10s);
    auto const idle = s.seats().seats();
    s.run(1h);
    BOOST_TEST(s.seats().seats() == idle);
    BOOST_TEST(idle <= before + 5);
    s.offer(0);
    recovers(s);
}

BOOST_AUTO_TEST_CASE(is_found_before_a_service_that_rejects_more_requests_than_workers) {
    service_simulation s(weir::adaptive_options(), {.workers = 16, .most = 16}, quarter(), 1);
    s.run(15s);
    auto const seen = s.run(1min);
    BOOST_TEST(seen.throughput() >= 0.95);
    BOOST_TEST(seen.rejected * 5 <= seen.served);
}

BOOST_AUTO_TEST_CASE(is_found_again_after_a_service_rejected_everything) {
    service_simulation s(weir::adaptive_options(), {.workers = 16}, quarter(), 1);
    s.run(1min);
    s.behind().most = 0;
    s.run(30s);
    BOOST_TEST(s.seats().seats() == 1);
    s.behind().most = 1'000'000;
    recovers(s);
}

BOOST_AUTO_TEST_CASE(is_found_by_two_and_three_limiters_together) {
    for (std::size_t const limiters : {2U, 3U}) {
        service_simulation s(std::vector<weir::adaptive_options>(limiters), {.workers = 60},
                             quarter(), 1);
        s.run(2min);
        std::vector<std::uint64_t> before;
        for (std::size_t i = 0; i != limiters; ++i)
            before.push_back(s.served_of(i));
        auto const seen = s.run(5min);
        BOOST_TEST(seen.times_own() <= 1.6);
        BOOST_TEST(seen.throughput() >= 0.95);
        for (std::size_t i = 0; i != limiters; ++i)
            BOOST_TEST((s.served_of(i) - before[i]) * 2 * limiters >= seen.served);
    }
}

// ---- Long calls.

BOOST_AUTO_TEST_CASE(costs_others_at_most_3_percent_during_and_after_a_long_call) {
    for (amount const workers : {4, 16}) {
        for (duration const held : {duration(1s), duration(10s), duration(1min), duration(1h)}) {
            service_simulation s(weir::adaptive_options(), {.workers = workers}, quarter(), 1);
            s.run(1min);
            s.add_stream(held, false);
            s.run(15s);
            auto const during = s.run(std::max<duration>(held, 1min));
            auto const after = s.run(1min);
            BOOST_TEST(during.throughput() >= 0.97);
            BOOST_TEST(during.times_own() <= 1.6);
            BOOST_TEST(after.throughput() >= 0.97);
            BOOST_TEST(after.times_own() <= 1.6);
        }
    }
}

BOOST_AUTO_TEST_CASE(leaves_the_workers_to_others_beside_10_streams) {
    for (bool const hold_workers : {false, true}) {
        service_simulation s(weir::adaptive_options(), {.workers = 16}, quarter(), 1);
        s.run(1min);
        for (int i = 0; i != 10; ++i)
            s.add_stream(1h, hold_workers);
        s.run(30s);
        BOOST_TEST(s.streams_in_progress() == 10);
        auto const seen = s.run(10min);
        BOOST_TEST(seen.times_own() <= 1.6);
        BOOST_TEST(seen.throughput() >= 0.95);
    }
}

BOOST_AUTO_TEST_CASE(goes_on_if_streams_take_all_seats_of_a_probe) {
    for (amount const workers : {2, 16, 100}) {
        service_simulation s(weir::adaptive_options(), {.workers = workers}, quarter(), 1);
        s.run(30s);
        reach_probe(s);
        auto const level = s.seats().seats();
        for (amount i = 0; i != level; ++i)
            s.add_stream(1h, false);
        s.run(3s);
        BOOST_TEST(s.streams_in_progress() == static_cast<std::size_t>(level));
        for (int i = 0; i != 12; ++i)
            BOOST_TEST(s.run(5s).served >= 100U);
        auto const seen = s.run(5min);
        BOOST_TEST(seen.times_own() <= 1.6);
        BOOST_TEST(seen.throughput() >= 0.95);
    }
}

BOOST_AUTO_TEST_CASE(goes_on_if_streams_take_all_seats) {
    service_simulation s(weir::adaptive_options(), {.workers = 16}, quarter(), 1);
    for (int i = 0; i != 6; ++i)  // of 4 seats
        s.add_stream(1h, false);
    s.run(2min);  // two trials are streams, too
    recovers(s);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
