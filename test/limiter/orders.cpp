#include <weir/order.hpp>
#include <weir/seats.hpp>
#include <weir/testing.hpp>
#include <weir/token_bucket.hpp>

#include "support/says.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

using namespace support;
using weir::errc;
using weir::permit;
using weir::queue_options;
using weir::queue_order;
using weir::when_full;

// Checks by hand which request each order grants next. The tolerance is 0, so deadlines are exact.

namespace {

template <class Queue>
using seats_with = weir::basic_limiter<weir::policy::seats, asio::any_io_executor,
                                       weir::testing::basic_timer<asio::any_io_executor>, Queue>;

// One seat, and requests that arrive one after the other.
struct kitchen_with {
    explicit kitchen_with(queue_options options)
        : kitchen(ctx, {.seats = 1}, exact(options)), seat(kitchen.try_enter()) {}

    static queue_options exact(queue_options options) {
        options.tolerance = 0s;
        return options;
    }

    void come(int n, weir::patience wait = {}) {
        for (int i = 0; i != n; ++i) {
            guests.emplace_back(kitchen, wait);
            settle(ctx);
        }
    }
    void come(weir::request const& r) {
        guests.emplace_back(kitchen, r);
        settle(ctx);
    }
    // Passes the seat to the next request, which keeps it.
    void hand_over() {
        seat.leave();
        settle(ctx);
        for (auto& guest : guests) {
            if (guest.granted() && guest.seat())
                seat = std::move(guest.seat());
        }
    }
    // The state of each request: granted (s), waiting (w), or dropped by the order (d).
    [[nodiscard]] std::string states() const {
        std::string all;
        for (auto const& guest : guests)
            all += guest.waiting()              ? 'w'
                   : guest.granted()            ? 's'
                   : guest.rejected(errc::shed) ? 'd'
                                                : 'x';
        return all;
    }

    asio::io_context ctx;
    seats kitchen;
    permit seat;
    std::vector<visit> guests;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_orders)

BOOST_AUTO_TEST_CASE(fifo_grants_in_arrival_order) {
    kitchen_with k({});
    k.come(3);
    k.hand_over();
    BOOST_TEST(k.states() == "sww");
    k.come(1);
    k.hand_over();
    BOOST_TEST(k.states() == "ssww");
    k.hand_over();
    BOOST_TEST(k.states() == "sssw");
}

BOOST_AUTO_TEST_CASE(lifo_grants_the_newest_request) {
    kitchen_with k({.order = queue_order::lifo});
    k.come(3);
    k.hand_over();
    BOOST_TEST(k.states() == "wws");
    k.come(1);
    k.hand_over();
    BOOST_TEST(k.states() == "wwss");
    k.hand_over();
    BOOST_TEST(k.states() == "wsss");
    k.hand_over();
    BOOST_TEST(k.states() == "ssss");
}

BOOST_AUTO_TEST_CASE(lifo_lets_a_newcomer_overtake_if_its_permits_are_free) {
    asio::io_context ctx;
    seats kitchen(ctx, {.seats = 3}, {.order = queue_order::lifo});
    auto two = kitchen.try_enter(2);
    visit big(kitchen, 3);
    settle(ctx);
    BOOST_TEST(big.waiting());
    auto small = kitchen.try_enter();
    BOOST_TEST(bool(small));
    visit other(kitchen, 2);  // newer than the big one, and blocks it
    settle(ctx);
    small.leave();
    settle(ctx);
    BOOST_TEST(other.waiting());
    two.leave();
    settle(ctx);
    BOOST_TEST(other.granted());
    BOOST_TEST(big.waiting());
    other.seat().leave();
    settle(ctx);
    BOOST_TEST(big.granted());
}

BOOST_AUTO_TEST_CASE(lifo_times_out_the_oldest_at_its_deadline) {
    kitchen_with k({.order = queue_order::lifo});
    k.come(1, 1s);
    run_for(k.ctx, 500ms);
    k.come(1, 1s);
    auto const begun = clock::now();
    run_for(k.ctx, 500ms + 1ns);
    BOOST_TEST(k.guests[0].rejected(errc::timed_out));
    BOOST_TEST(k.guests[0].at() == begun + 500ms + 1ns);
    k.hand_over();
    BOOST_TEST(k.states() == "xs");
}

// Found elsewhere: dotnet/runtime#77991.
BOOST_AUTO_TEST_CASE(lifo_of_a_rate_never_returns_a_grant_time_that_can_become_earlier) {
    asio::io_context ctx;
    token_bucket bucket(ctx, {.rate = {1, 1s}, .burst = 1}, {.order = queue_order::lifo});
    auto const now = bucket.try_enter();
    std::vector<visit> guests;
    for (int i = 0; i != 10; ++i)
        guests.emplace_back(bucket);
    // Behind ten others it would be too late, but it is granted before them.
    visit last(bucket, 1s);
    settle(ctx);
    BOOST_TEST(last.waiting());
    run_for(ctx, 1s);
    BOOST_TEST(last.granted());
    visit too_late(bucket, 999ms);
    settle(ctx);
    BOOST_TEST(too_late.rejected(errc::deadline_unreachable));
}

BOOST_AUTO_TEST_CASE(adaptive_lifo_switches_to_lifo_and_back) {
    kitchen_with k({.order = queue_order::adaptive_lifo, .interval = 100ms});
    k.come(4);
    BOOST_TEST(!k.kitchen.try_enter());
    run_for(k.ctx, 100ms);
    k.hand_over();
    BOOST_TEST(k.states() == "swww");
    run_for(k.ctx, 1ns);
    k.hand_over();
    BOOST_TEST(k.states() == "swws");
    k.hand_over();
    k.hand_over();
    BOOST_TEST(k.states() == "ssss");

    // No request waits: arrival order again.
    k.come(2);
    run_for(k.ctx, 100ms);
    k.hand_over();
    BOOST_TEST(k.states() == "sssssw");
}

BOOST_AUTO_TEST_CASE(adaptive_lifo_grants_without_another_event_when_it_switches) {
    asio::io_context ctx;
    seats kitchen(ctx, {.seats = 2},
                  {.order = queue_order::adaptive_lifo, .interval = 100ms, .tolerance = 0s});
    auto const seat = kitchen.try_enter();
    visit big(kitchen, 2);
    visit small(kitchen, 1);
    settle(ctx);
    run_for(ctx, 100ms);
    BOOST_TEST(small.waiting());
    run_for(ctx, 1ns);
    BOOST_TEST(small.granted());
    BOOST_TEST(big.waiting());
}

BOOST_AUTO_TEST_CASE(codel_drops_late_requests_while_the_queue_stands) {
    kitchen_with k({.order = queue_order::codel, .target = 5ms, .interval = 100ms});
    k.come(3);
    run_for(k.ctx, 100ms - 1ns);
    BOOST_TEST(k.states() == "www");
    run_for(k.ctx, 1ns);
    BOOST_TEST(k.states() == "ddd");
    BOOST_TEST(k.kitchen.stats().shed == 3U);

    // No request waits, so the queue does not stand: codel drops none for an interval.
    k.come(2);
    run_for(k.ctx, 99ms);
    BOOST_TEST(k.states() == "dddww");
    k.hand_over();
    BOOST_TEST(k.states() == "dddsw");
    run_for(k.ctx, 1ms);
    BOOST_TEST(k.states() == "dddsd");
}

BOOST_AUTO_TEST_CASE(codel_keeps_a_standing_queue_within_twice_the_target) {
    kitchen_with k({.order = queue_order::codel, .target = 5ms, .interval = 100ms});
    k.come(1);
    run_for(k.ctx, 95ms);
    k.come(1);
    run_for(k.ctx, 5ms);
    BOOST_TEST(k.states() == "dw");
    run_for(k.ctx, 5ms);
    BOOST_TEST(k.states() == "dw");
    run_for(k.ctx, 1ns);
    BOOST_TEST(k.states() == "dd");
}

// Found elsewhere: db_connection#324, #177.
BOOST_AUTO_TEST_CASE(codel_never_drops_a_request_that_can_be_granted) {
    kitchen_with k({.order = queue_order::codel, .target = 5ms, .interval = 100ms});
    k.come(2);
    // The seat is released at the instant at which codel would drop both, before the limiter's timer runs.
    clock::advance_to(clock::now() + 100ms);
    k.seat.leave();
    settle(k.ctx);
    BOOST_TEST(k.guests[0].granted());
    BOOST_TEST(k.guests[1].rejected(errc::shed));
}

BOOST_AUTO_TEST_CASE(a_request_that_codel_would_drop_takes_no_place_of_a_newcomer) {
    kitchen_with k(
        {.max_waiting = 1, .order = queue_order::codel, .target = 5ms, .interval = 100ms});
    k.come(1);
    // A newcomer arrives at the instant of the drop, before the limiter's timer runs.
    clock::advance_to(clock::now() + 100ms);
    k.come(1);
    BOOST_TEST(k.states() == "dw");
}

BOOST_AUTO_TEST_CASE(codel_drops_none_if_all_are_granted_in_time) {
    kitchen_with k({.order = queue_order::codel, .target = 5ms, .interval = 100ms});
    k.come(1);
    for (int i = 0; i != 1000; ++i) {
        k.come(1);
        run_for(k.ctx, 4ms);
        k.hand_over();
    }
    BOOST_TEST(k.kitchen.stats().shed == 0U);
    BOOST_TEST(k.kitchen.stats().waiting == 1U);
}

BOOST_AUTO_TEST_CASE(priority_grants_a_lower_class_first) {
    kitchen_with k({.order = queue_order::priority});
    k.come(1);  // of class 3
    k.come({1, {.priority = 7}});
    k.come({1, {.priority = 2}});
    k.come({1, {.priority = 3}});
    k.hand_over();
    BOOST_TEST(k.states() == "wwsw");
    k.come({1, {.priority = 0}});
    k.hand_over();
    BOOST_TEST(k.states() == "wwsws");
    k.hand_over();
    BOOST_TEST(k.states() == "swsws");
    k.hand_over();
    BOOST_TEST(k.states() == "swsss");
    k.hand_over();
    BOOST_TEST(k.states() == "sssss");
}

// With an ageing of 100 ms, a request of class 7 is ordered as if it had arrived 700 ms later. Every 10 ms one request
// of class 0 arrives and one is granted; five wait from the beginning. These five go before it, and the 69 that arrive
// at 10 ms to 690 ms. So it is the 75th, granted at 750 ms.
BOOST_AUTO_TEST_CASE(
    priority_bounds_the_wait_of_each_class_by_its_ageing_and_the_requests_before_it) {
    kitchen_with k({.order = queue_order::priority, .ageing = 100ms});
    auto const begun = clock::now();
    for (int i = 0; i != 5; ++i)
        k.come({1, {.priority = 0}});
    visit low(k.kitchen, weir::request(1, {.priority = 7}));
    settle(k.ctx);
    while (low.waiting()) {
        run_for(k.ctx, 10ms);
        k.come({1, {.priority = 0}});
        k.hand_over();
    }
    BOOST_TEST(low.granted());
    BOOST_TEST(low.at() == begun + 750ms);
}

BOOST_AUTO_TEST_CASE(priority_lets_a_newcomer_overtake_if_it_goes_first_and_its_permits_are_free) {
    asio::io_context ctx;
    seats kitchen(ctx, {.seats = 3}, {.order = queue_order::priority, .ageing = 1s});
    auto const two = kitchen.try_enter(2);
    visit big(kitchen, 3);
    settle(ctx);
    BOOST_TEST(big.waiting());
    BOOST_TEST(!kitchen.try_enter());
    BOOST_TEST(!kitchen.try_enter({1, {.priority = 4}}));
    BOOST_TEST(bool(kitchen.try_enter({1, {.priority = 2}})));
    visit urgent(kitchen, weir::request(1, {.priority = 0}));
    settle(ctx);
    BOOST_TEST(urgent.granted());
    urgent.leave();
    run_for(ctx, 1s);  // by now it goes before a request of class 2, but not of class 1
    BOOST_TEST(!kitchen.try_enter({1, {.priority = 2}}));
    BOOST_TEST(bool(kitchen.try_enter({1, {.priority = 1}})));
}

BOOST_AUTO_TEST_CASE(priority_evicts_the_oldest_of_the_highest_class) {
    kitchen_with k(
        {.max_waiting = 3, .full = when_full::evict_oldest, .order = queue_order::priority});
    k.come({1, {.priority = 5}});
    k.come({1, {.priority = 4}});
    k.come({1, {.priority = 5}});
    k.come({1, {.priority = 5}});  // of the same class
    BOOST_TEST(k.states() == "dwww");
    k.come({1, {.priority = 0}});
    BOOST_TEST(k.states() == "dwdww");
    k.come({1, {.priority = 4}});
    BOOST_TEST(k.states() == "dwddww");
    k.come({1, {.priority = 5}});  // all others have lower classes
    BOOST_TEST(k.states() == "dwddwwx");
    BOOST_TEST(k.guests.back().rejected(errc::queue_full));
}

BOOST_AUTO_TEST_CASE(priority_counts_requests_of_lower_classes_in_the_expected_wait) {
    asio::io_context ctx;
    token_bucket bucket(ctx, {.rate = {1, 1s}, .burst = 1},
                        {.max_expected_wait = 5s, .order = queue_order::priority});
    auto const now = bucket.try_enter();
    std::vector<visit> guests;
    for (int i = 0; i != 4; ++i)
        guests.emplace_back(bucket, weir::request(1, {.priority = i}));
    visit last(bucket, weir::request(1, {.priority = 3}));  // at 5 s
    visit too_late(bucket, weir::request(1, {.priority = 3}));
    visit urgent(bucket, weir::request(1, {.priority = 0}), 2s);
    visit hopeless(bucket, weir::request(1, {.priority = 1}), 3s);  // would be granted at 4 s
    settle(ctx);
    BOOST_TEST(last.waiting());
    BOOST_TEST(too_late.rejected(errc::queue_full));
    BOOST_TEST((too_late.seat().retry_after() == weir::duration(6s)));
    BOOST_TEST(urgent.waiting());
    BOOST_TEST(hopeless.rejected(errc::deadline_unreachable));
    run_for(ctx, 2s);
    BOOST_TEST(urgent.granted());
}

// Found elsewhere: Netflix/atlas#1955.
BOOST_AUTO_TEST_CASE(fair_alternates_between_flows) {
    kitchen_with k({.order = queue_order::fair});
    for (std::uint64_t const key : {1U, 1U, 1U, 2U, 2U, 3U})
        k.come({1, {.flow = key}});
    k.hand_over();
    BOOST_TEST(k.states() == "swwwww");
    k.hand_over();
    BOOST_TEST(k.states() == "swwsww");
    k.come({1, {.flow = 4}});
    BOOST_TEST(!k.kitchen.try_enter({1, {.flow = 5}}));
    k.hand_over();
    BOOST_TEST(k.states() == "swwswsw");
    k.hand_over();
    BOOST_TEST(k.states() == "sswswsw");
    k.hand_over();
    BOOST_TEST(k.states() == "sswsssw");
    k.hand_over();
    BOOST_TEST(k.states() == "sswssss");
}

// By hand: 12 permits in 6 s, two at a time. The flow of large requests gets one request for 2 permits while the other
// flow gets two for 1.
BOOST_AUTO_TEST_CASE(fair_shares_permits_and_not_requests) {
    asio::io_context ctx;
    token_bucket bucket(ctx, {.rate = {2, 1s}, .burst = 2},
                        {.order = queue_order::fair, .tolerance = 0s});
    auto const now = bucket.try_enter(2);
    std::vector<visit> big, small;
    for (int i = 0; i != 10; ++i)
        big.emplace_back(bucket, weir::request(2, {.flow = 1}));
    for (int i = 0; i != 10; ++i)
        small.emplace_back(bucket, weir::request(1, {.flow = 2}));
    run_for(ctx, 6s);
    auto const granted = [](auto const& guests) {
        return std::ranges::count_if(guests, [](auto const& g) { return g.granted(); });
    };
    BOOST_TEST(granted(big) == 3);
    BOOST_TEST(granted(small) == 6);
}

BOOST_AUTO_TEST_CASE(fair_grants_permits_in_proportion_to_the_weights) {
    kitchen_with k({.order = queue_order::fair});
    for (int i = 0; i != 8; ++i)
        k.come({1, {.flow = 1}});
    for (int i = 0; i != 8; ++i)
        k.come({1, {.flow = 2, .weight = 3}});
    for (int i = 0; i != 8; ++i)
        k.hand_over();
    BOOST_TEST(k.states() == "sswwwwwwssssssww");
}

BOOST_AUTO_TEST_CASE(fair_prefers_a_lower_class_until_the_others_have_aged) {
    kitchen_with k({.order = queue_order::fair, .ageing = 1s});
    k.come({1, {.priority = 5, .flow = 1}});
    run_for(k.ctx, 1500ms);
    k.come({1, {.priority = 5, .flow = 2}});
    k.come(
        {1,
         {.priority = 4, .flow = 1}});  // after the first: that one is older by more than a class
    k.come({1, {.priority = 3, .flow = 3}});
    k.come({1, {.priority = 3, .flow = 3}});
    k.hand_over();
    BOOST_TEST(k.states() == "wwwsw");
    k.hand_over();
    BOOST_TEST(k.states() == "wwwss");
    k.hand_over();
    BOOST_TEST(k.states() == "swwss");
    k.hand_over();
    BOOST_TEST(k.states() == "swsss");
    k.hand_over();
    BOOST_TEST(k.states() == "sssss");
}

// A newcomer of a low class takes a free permit, although a large request of a higher class waits for it.
BOOST_AUTO_TEST_CASE(fair_lets_an_urgent_newcomer_overtake) {
    asio::io_context ctx;
    seats kitchen(ctx, {.seats = 2}, {.order = queue_order::fair});
    auto const held = kitchen.try_enter();
    visit large(kitchen, weir::request(2, {.priority = 4, .flow = 1}));
    settle(ctx);
    BOOST_TEST(!kitchen.try_enter({1, {.priority = 4, .flow = 2, .weight = 32}}));
    BOOST_TEST(!!kitchen.try_enter({1, {.priority = 3, .flow = 2}}));
    visit urgent(kitchen, weir::request(1, {.priority = 0, .flow = 1}));
    settle(ctx);
    BOOST_TEST(urgent.granted());
    BOOST_TEST(large.waiting());
}

// A request that asks for fewer permits than the next one is next, and gets the free permits.
BOOST_AUTO_TEST_CASE(fair_lets_a_smaller_request_of_another_flow_go_first) {
    asio::io_context ctx;
    seats kitchen(ctx, {.seats = 2}, {.order = queue_order::fair});
    auto const held = kitchen.try_enter();
    visit large(kitchen, weir::request(2, {.flow = 1}));
    settle(ctx);
    BOOST_TEST(!kitchen.try_enter({1, {.flow = 2}}));
    visit small(kitchen, weir::request(1, {.flow = 2}));
    settle(ctx);
    BOOST_TEST(small.granted());
    BOOST_TEST(large.waiting());
}

BOOST_AUTO_TEST_CASE(fair_evicts_from_the_flow_with_the_most_waiting_permits) {
    kitchen_with k({.max_waiting = 4, .full = when_full::evict_oldest, .order = queue_order::fair});
    k.come({1, {.flow = 2}});
    for (int i = 0; i != 3; ++i)
        k.come({1, {.flow = 1}});
    k.come({1, {.flow = 3}});
    BOOST_TEST(k.states() == "wdwww");
    for (int i = 0; i != 10; ++i)
        k.come({1, {.flow = 1}});  // evicts a request of the same flow
    BOOST_TEST(k.states() == "wdddwddddddddww");
}

BOOST_AUTO_TEST_CASE(fair_counts_its_flow_or_one_request_of_each_other_flow_in_the_expected_wait) {
    asio::io_context ctx;
    token_bucket bucket(ctx, {.rate = {1, 1s}, .burst = 1},
                        {.max_expected_wait = 3s, .order = queue_order::fair});
    auto const now = bucket.try_enter();
    std::vector<visit> guests;
    for (int i = 0; i != 3; ++i)
        guests.emplace_back(bucket, weir::request(1, {.flow = 1}));
    visit too_late(bucket, weir::request(1, {.flow = 1}));
    visit other(bucket, weir::request(1, {.flow = 2}));
    visit third(bucket, weir::request(1, {.flow = 3}));
    visit too_many(bucket, weir::request(1, {.flow = 4}));
    settle(ctx);
    BOOST_TEST(guests.back().waiting());
    BOOST_TEST(too_late.rejected(errc::queue_full));
    BOOST_TEST((too_late.seat().retry_after() == weir::duration(4s)));
    BOOST_TEST(other.waiting());
    BOOST_TEST(third.waiting());
    BOOST_TEST(too_many.rejected(errc::queue_full));
}

BOOST_AUTO_TEST_CASE(a_change_to_priority_or_fair_takes_effect_when_the_queue_is_empty) {
    kitchen_with k({});
    k.come(2);
    k.kitchen.configure_queue([](queue_options& o) { o.order = queue_order::priority; });
    k.come({1, {.priority = 0}});
    k.hand_over();
    BOOST_TEST(k.states() == "sww");
    k.hand_over();
    k.hand_over();
    BOOST_TEST(k.states() == "sss");
    k.come(1);
    k.come({1, {.priority = 0}});
    k.kitchen.configure_queue([](queue_options& o) { o.order = queue_order::fair; });
    k.hand_over();
    BOOST_TEST(k.states() == "sssws");
    k.hand_over();
    for (std::uint64_t const key : {1U, 1U, 2U})
        k.come({1, {.flow = key}});
    k.kitchen.configure_queue([](queue_options& o) { o.order = queue_order::lifo; });
    k.hand_over();
    k.hand_over();
    BOOST_TEST(k.states() == "ssssssws");
    k.hand_over();
    k.come(2);
    k.hand_over();
    BOOST_TEST(k.states() == "ssssssssws");
}

BOOST_AUTO_TEST_CASE(the_order_can_change_while_requests_wait) {
    kitchen_with k({});
    k.come(3);
    k.kitchen.configure_queue([](queue_options& o) { o.order = queue_order::lifo; });
    k.hand_over();
    BOOST_TEST(k.states() == "wws");
    k.kitchen.configure_queue([](queue_options& o) { o.order = queue_order::fifo; });
    k.hand_over();
    BOOST_TEST(k.states() == "sws");
    k.kitchen.configure_queue([](queue_options& o) {
        o.order = queue_order::codel;
        o.target = 1ms;
        o.interval = 1ms;
    });
    run_for(k.ctx, 3ms);
    BOOST_TEST(k.states() == "sds");
}

BOOST_AUTO_TEST_CASE(a_change_of_options_keeps_the_state_of_the_order) {
    auto const change = [](queue_options& o) { o.max_waiting = 7; };
    // One request always waits, though not always the same one.
    kitchen_with lifo({.order = queue_order::adaptive_lifo, .interval = 100ms});
    lifo.come(1);
    run_for(lifo.ctx, 50ms);
    lifo.come(1);
    lifo.hand_over();
    lifo.kitchen.configure_queue(change);
    run_for(lifo.ctx, 50ms + 1ns);
    lifo.come(1);
    lifo.hand_over();
    BOOST_TEST(lifo.states() == "sws");

    // In this interval one request was granted in time.
    kitchen_with codel({.order = queue_order::codel, .target = 5ms, .interval = 100ms});
    codel.come(2);
    run_for(codel.ctx, 5ms);
    codel.hand_over();
    codel.kitchen.configure_queue(change);
    run_for(codel.ctx, 100ms);
    BOOST_TEST(codel.states() == "sw");
    run_for(codel.ctx, 95ms);
    BOOST_TEST(codel.states() == "sd");
}

BOOST_AUTO_TEST_CASE(
    every_order_handles_requests_that_are_cancelled_rejected_or_exceed_the_capacity) {
    for (auto const order : {queue_order::fifo, queue_order::lifo, queue_order::adaptive_lifo,
                             queue_order::codel, queue_order::priority, queue_order::fair}) {
        for (int const how : {0, 1}) {
            kitchen_with k({.order = order, .target = 1h, .interval = 1ms});
            k.come(100);
            run_for(k.ctx, 2ms);  // longer than the interval
            how == 0 ? k.kitchen.close() : k.kitchen.cancel();
            settle(k.ctx);
            BOOST_TEST(k.states() == std::string(100, 'x'));
            BOOST_TEST(k.kitchen.stats().waiting == 0U);
        }
        asio::io_context ctx;
        seats kitchen(ctx, {.seats = 2}, {.order = order, .target = 1h, .interval = 1ms});
        auto const both = kitchen.try_enter(2);
        std::vector<visit> guests;
        for (int i = 0; i != 100; ++i) {
            auto const how = order == queue_order::fair
                                 ? weir::standing{.flow = static_cast<std::uint64_t>(i % 7)}
                                 : weir::standing{.priority = i % 8};
            guests.emplace_back(kitchen, weir::request(i % 2 + 1, how));
        }
        run_for(ctx, 2ms);
        kitchen.configure({.seats = 1});
        settle(ctx);
        for (std::size_t i = 0; i != guests.size(); ++i) {
            if (i % 2 == 1)
                BOOST_TEST(guests[i].rejected(errc::exceeds_capacity));
            else
                BOOST_TEST(guests[i].waiting());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_type_fixes_its_order_and_rejects_another) {
    asio::io_context ctx;
    seats_with<weir::order::lifo> kitchen(ctx, {.seats = 1});
    auto seat = kitchen.try_enter();
    visit one(kitchen);
    visit two(kitchen);
    settle(ctx);
    seat.leave();
    settle(ctx);
    BOOST_TEST(one.waiting());
    BOOST_TEST(two.granted());

    seats_with<weir::order::priority> classes(ctx, {.seats = 1});
    seats_with<weir::order::fair> turns(ctx, {.seats = 1});
    auto const served_second =
        [&](auto& limiter, weir::request const& first, weir::request const& second) {
            auto taken = limiter.try_enter();
            visit a(limiter, first);
            visit b(limiter, first);
            visit c(limiter, second);
            settle(ctx);
            taken.leave();
            settle(ctx);
            a.granted() ? a.leave() : c.leave();
            settle(ctx);
            return !b.granted();
        };
    BOOST_TEST(served_second(classes, 1, {1, {.priority = 0}}));
    BOOST_TEST(served_second(turns, {1, {.flow = 1}}, {1, {.flow = 2}}));

    using fifo_seats = seats_with<weir::order::fifo>;
    BOOST_CHECK_EXCEPTION(
        fifo_seats(ctx, {.seats = 1}, {.order = queue_order::codel}), std::invalid_argument,
        says("weir::queue_options: order is codel, but the type of this limiter fixes fifo"));
    fifo_seats plain(ctx, {.seats = 1});
    BOOST_CHECK_EXCEPTION(
        plain.configure_queue([](queue_options& o) { o.order = queue_order::lifo; }),
        std::invalid_argument,
        says("weir::queue_options: order is lifo, but the type of this limiter fixes fifo"));
    BOOST_TEST((plain.queueing().order == queue_order::fifo));
}

BOOST_AUTO_TEST_CASE(a_queue_can_be_bounded_in_permits) {
    asio::io_context ctx;
    seats kitchen(ctx, {.seats = 10}, {.max_waiting_permits = 10});
    auto const all = kitchen.try_enter(10);
    visit four(kitchen, 4);
    visit six(kitchen, 6);
    visit one(kitchen, 1);
    settle(ctx);
    BOOST_TEST(four.waiting());
    BOOST_TEST(six.waiting());
    BOOST_TEST(one.rejected(errc::queue_full));
    kitchen.configure_queue([](queue_options& o) { o.full = when_full::evict_oldest; });
    visit five(kitchen, 5);
    settle(ctx);
    BOOST_TEST(four.rejected(errc::shed));
    BOOST_TEST(six.rejected(errc::shed));
    BOOST_TEST(five.waiting());
}

// An aged request of a higher class goes before the newcomer, whose `retry_after` counts it.
BOOST_AUTO_TEST_CASE(a_blocked_newcomer_never_gets_a_retry_after_of_0) {
    asio::io_context ctx;
    token_bucket bucket(ctx, {.rate = {1, 1s}, .burst = 10}, {.order = queue_order::priority});
    auto const all = bucket.try_enter(10);
    visit five(bucket, weir::request(5, {.priority = 3}));
    run_for(ctx, 2s);
    auto const barred = bucket.try_enter({1, {.priority = 2}});
    BOOST_TEST(!barred);
    BOOST_TEST((barred.retry_after() == weir::duration(4s)));
    visit hasty(bucket, weir::request(1, {.priority = 2}), 3s);
    settle(ctx);
    BOOST_TEST(hasty.rejected(errc::deadline_unreachable));
}

BOOST_AUTO_TEST_CASE(at_most_sixteen_are_dropped_for_one) {
    asio::io_context ctx;
    seats kitchen(ctx, {.seats = 20}, {.full = when_full::evict_oldest, .max_waiting_permits = 20});
    auto const all = kitchen.try_enter(20);
    std::vector<visit> guests;
    for (int i = 0; i != 20; ++i)
        guests.emplace_back(kitchen);
    settle(ctx);
    visit seventeen(kitchen, 17);
    settle(ctx);
    BOOST_TEST(seventeen.rejected(errc::queue_full));
    BOOST_TEST(kitchen.stats().waiting == 20U);
    visit sixteen(kitchen, 16);
    settle(ctx);
    BOOST_TEST(sixteen.waiting());
    BOOST_TEST(kitchen.stats().waiting == 5U);
    BOOST_TEST(kitchen.stats().waiting_for == 20);
    BOOST_TEST(guests[15].rejected(errc::shed));
    BOOST_TEST(guests[16].waiting());
}

BOOST_AUTO_TEST_CASE(a_request_with_too_long_an_expected_wait_is_rejected) {
    asio::io_context ctx;
    token_bucket bucket(ctx, {.rate = {1, 1s}, .burst = 1}, {.max_expected_wait = 2s});
    auto const now = bucket.try_enter();
    visit first(bucket);
    visit second(bucket);
    visit third(bucket);
    settle(ctx);
    BOOST_TEST(first.waiting());
    BOOST_TEST(second.waiting());
    BOOST_TEST(third.rejected(errc::queue_full));
    BOOST_TEST((third.seat().retry_after() == weir::duration(3s)));
    run_for(ctx, 1ns);
    visit fourth(bucket);  // 3 s, less a nanosecond
    settle(ctx);
    BOOST_TEST(fourth.rejected(errc::queue_full));
    run_for(ctx, 1s);
    visit fifth(bucket);
    settle(ctx);
    BOOST_TEST(fifth.waiting());
}

BOOST_AUTO_TEST_SUITE_END()
