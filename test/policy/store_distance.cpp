#include <weir/policy/fed.hpp>
#include <weir/policy/store_distance.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

BOOST_AUTO_TEST_SUITE(the_distance_of_a_store)

namespace {

using namespace std::chrono_literals;
using weir::amount;
using weir::duration;
using weir::time_point;
using weir::policy::shared_bucket;
using weir::policy::store_distance;

// A process that asks as soon as it may, for the minimum.
struct process {
    shared_bucket bucket;
    duration round_trip;
    store_distance distance{};
    time_point now{1h};
    std::int64_t since = 1'000'000;
    duration pause{};

    // Returns what it asks for. The store books that, after others which it books for `line`.
    amount ask(duration line) {
        auto const n = distance.minimum(bucket, round_trip, now);
        distance.asks(now);
        now += round_trip;
        since += round_trip / 1us;
        auto const wait = line + bucket.time_of(n - 1) * 1us;
        distance.booked(bucket, n, wait / 1us * 1us, since, round_trip, now);
        pause = distance.pause_ends() - now;
        now += pause;
        return n;
    }
};

shared_bucket per_second(amount n, amount burst) {
    return shared_bucket::of({.rate = {n, 1s}, .burst = burst});
}

}  // namespace

BOOST_AUTO_TEST_CASE(near_process_asks_for_one_permit_without_a_pause) {
    process p{per_second(100, 50), 1ms};
    for (int i = 0; i != 100; ++i) {
        BOOST_TEST(p.ask(40ms) == 1);
        BOOST_TEST((p.pause == 0ms));
        p.now += 40ms;
    }
}

BOOST_AUTO_TEST_CASE(high_rate_needs_one_question_per_millisecond) {
    process p{per_second(100'000, 5000), 200us};
    BOOST_TEST(p.ask(8ms) == 100);
    BOOST_TEST(p.ask(8ms) == 100);
    process far{per_second(100'000, 5000), 16ms};
    BOOST_TEST(far.ask(8ms) == 100);
    BOOST_TEST(far.ask(8ms) >= 200);  // two turns of the others, and its pause
    BOOST_TEST(far.ask(8ms) <= 250);
}

// The others get a permit per 40 ms each.
BOOST_AUTO_TEST_CASE(distant_process_gets_as_much_as_the_others_over_time) {
    for (auto const round_trip : {41ms, 60ms, 90ms, 160ms, 390ms}) {
        process p{per_second(100, 50), round_trip};
        auto const first = p.now;
        BOOST_TEST(p.ask(40ms) == 1);
        amount all = 0;
        auto last = first;
        for (int i = 0; i != 200; ++i) {
            last = p.now;
            all += p.ask(40ms);
        }
        auto const share = (last - first) / 40ms;
        BOOST_TEST(all >= share - 1);
        BOOST_TEST(all <= share + 1);
    }
}

BOOST_AUTO_TEST_CASE(distant_process_pauses_for_up_to_a_quarter_of_its_round_trip) {
    process p{per_second(100, 50), 160ms};
    duration least = 1h;
    duration most{};
    for (int i = 0; i != 200; ++i) {
        p.ask(40ms);
        least = std::min(least, p.pause);
        most = std::max(most, p.pause);
    }
    BOOST_TEST((least >= 0ms));
    BOOST_TEST((least < 2ms));
    BOOST_TEST((most > 38ms));
    BOOST_TEST((most <= 40ms));
}

BOOST_AUTO_TEST_CASE(small_burst_is_the_most_to_ask_for_and_a_reason_for_no_pause) {
    process p{per_second(100, 3), 400ms};
    p.ask(10ms);
    for (int i = 0; i != 10; ++i) {
        BOOST_TEST(p.ask(10ms) == 3);
        BOOST_TEST((p.pause == 0ms));
    }
}

// Alone it finds a line as short as a permit takes.
BOOST_AUTO_TEST_CASE(the_rate_is_the_most_to_ask_for) {
    process p{per_second(100, 50), 100ms};
    p.ask(0ms);
    BOOST_TEST(p.ask(0ms) <= 11);
    p.now += 1h;  // nothing was requested
    BOOST_TEST(p.ask(0ms) <= 12);
}

BOOST_AUTO_TEST_CASE(follows_a_line_that_grows) {
    process p{per_second(1000, 500), 100ms};
    for (int i = 0; i != 5; ++i)
        p.ask(5ms);
    BOOST_TEST(p.ask(5ms) >= 20);
    for (int i = 0; i != 100; ++i)
        p.ask(50ms);
    BOOST_TEST(p.ask(50ms) <= 3);
}

BOOST_AUTO_TEST_SUITE_END()
