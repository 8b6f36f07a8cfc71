#include <weir/detail/time_orders.hpp>

#include "support/printing.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

using namespace std::chrono_literals;
using namespace weir::detail;
using weir::never;
using weir::queue_options;
using weir::queue_order;
using weir::time_point;

BOOST_AUTO_TEST_SUITE(orders)

namespace {

constexpr time_point at(weir::duration d) {
    return time_point(1h + d);
}

template <class Order>
Order made(queue_options const& options) {
    Order order;
    order.configure(options, never);
    return order;
}

}  // namespace

BOOST_AUTO_TEST_CASE(fifo_and_lifo_do_not_ask_for_the_time) {
    for (auto const now : {time_point::min(), at(0s), never}) {
        BOOST_TEST(!order::fifo::newest_first(now));
        BOOST_TEST(order::lifo::newest_first(now));
        BOOST_TEST(!order::fifo::gives_up(time_point::min(), now));
        BOOST_TEST(!order::lifo::gives_up(time_point::min(), now));
        BOOST_TEST(order::fifo::next_event(at(0s), now) == never);
        BOOST_TEST(order::lifo::next_event(at(0s), now) == never);
    }
    BOOST_TEST(order::fifo::foresees());
    BOOST_TEST(!order::lifo::foresees());
}

BOOST_AUTO_TEST_CASE(adaptive_lifo_reverses_after_an_interval_without_an_empty_queue) {
    auto order = made<order::adaptive_lifo>({.interval = 100ms});
    order.begin(at(0s));
    BOOST_TEST(order.next_event(at(0s), at(0s)) == at(100ms) + 1ns);
    BOOST_TEST(!order.newest_first(at(100ms)));
    BOOST_TEST(order.newest_first(at(100ms) + 1ns));
    BOOST_TEST(order.next_event(at(0s), at(100ms) + 1ns) == never);
    order.grant(50ms, at(200ms));  // one request is granted, but others still wait
    BOOST_TEST(order.newest_first(at(200ms)));

    order.end();
    order.begin(at(300ms));
    BOOST_TEST(!order.newest_first(at(400ms)));
    BOOST_TEST(order.newest_first(at(401ms)));
}

BOOST_AUTO_TEST_CASE(adaptive_lifo_that_is_selected_late_counts_from_the_oldest) {
    order::adaptive_lifo order;
    order.configure({.interval = 100ms}, at(0s));
    BOOST_TEST(!order.newest_first(at(100ms)));
    BOOST_TEST(order.newest_first(at(101ms)));
}

BOOST_AUTO_TEST_CASE(codel_drops_no_request_while_one_of_an_interval_was_in_time) {
    auto order = made<order::codel>({.target = 5ms, .interval = 100ms});
    order.begin(at(0s));
    order.grant(5ms, at(5ms));
    order.grant(80ms, at(85ms));
    BOOST_TEST(!order.gives_up(at(10ms), at(99ms)));
    // The interval has ended.
    BOOST_TEST(!order.gives_up(at(10ms), at(100ms)));
    BOOST_TEST(!order.gives_up(at(10ms), at(199ms)));
}

BOOST_AUTO_TEST_CASE(codel_drops_requests_older_than_twice_the_target_under_overload) {
    auto order = made<order::codel>({.target = 5ms, .interval = 100ms});
    order.begin(at(0s));
    order.grant(5ms + 1ns, at(6ms));
    order.grant(60ms, at(90ms));
    BOOST_TEST(!order.gives_up(at(0s), at(100ms) - 1ns));
    BOOST_TEST(order.next_event(at(0s), at(50ms)) == at(100ms));

    BOOST_TEST(order.gives_up(at(0s), at(100ms)));
    BOOST_TEST(!order.gives_up(at(90ms), at(100ms)));
    BOOST_TEST(order.next_event(at(99ms), at(100ms)) == at(109ms) + 1ns);
    BOOST_TEST(!order.gives_up(at(99ms), at(109ms)));
    BOOST_TEST(order.gives_up(at(99ms), at(109ms) + 1ns));
    BOOST_TEST(order.next_event(at(199ms), at(195ms)) == at(200ms));

    // One request in time, and the next interval is a good one.
    order.grant(3ms, at(150ms));
    BOOST_TEST(order.gives_up(at(100ms), at(199ms)));
    BOOST_TEST(!order.gives_up(at(100ms), at(200ms)));
}

BOOST_AUTO_TEST_CASE(codel_is_overloaded_after_an_interval_without_a_grant) {
    auto order = made<order::codel>({.target = 5ms, .interval = 100ms});
    order.begin(at(0s));
    BOOST_TEST(order.gives_up(at(0s), at(100ms)));

    auto gentle = made<order::codel>({.target = 1s, .interval = 100ms});
    gentle.begin(at(0s));
    BOOST_TEST(!gentle.gives_up(at(0s), at(100ms)));
    BOOST_TEST(!gentle.gives_up(at(0s), at(1s)));
    BOOST_TEST(
        !gentle.gives_up(at(0s), at(1100ms)));  // overloaded, but this is not twice the target
    BOOST_TEST(gentle.gives_up(at(0s), at(2s) + 1ns));
}

BOOST_AUTO_TEST_CASE(codel_keeps_its_intervals_if_it_is_asked_late) {
    auto order = made<order::codel>({.target = 5ms, .interval = 100ms});
    order.begin(at(0s));
    BOOST_TEST(order.gives_up(at(0s), at(370ms)));
    BOOST_TEST(order.next_event(at(369ms), at(370ms)) == at(379ms) + 1ns);
    order.grant(1ms, at(375ms));
    BOOST_TEST(order.gives_up(at(0s), at(399ms)));
    BOOST_TEST(!order.gives_up(at(0s), at(400ms)));
    // Two intervals have ended, and no request was granted in the last one.
    order.grant(1ms, at(450ms));
    BOOST_TEST(order.gives_up(at(0s), at(600ms)));
}

BOOST_AUTO_TEST_CASE(codel_is_not_overloaded_while_no_request_waits) {
    auto order = made<order::codel>({.target = 5ms, .interval = 100ms});
    order.begin(at(0s));
    BOOST_TEST(order.gives_up(at(0s), at(100ms)));
    order.end();
    order.begin(at(110ms));
    BOOST_TEST(!order.gives_up(at(110ms), at(209ms)));
    BOOST_TEST(order.gives_up(at(110ms), at(210ms)));

    // A long time later.
    order.end();
    order.begin(at(10s));
    BOOST_TEST(!order.gives_up(at(10s), at(10099ms)));
    BOOST_TEST(order.gives_up(at(10s), at(10100ms)));
}

BOOST_AUTO_TEST_CASE(any_follows_the_options_and_can_change) {
    auto order = made<order::any>({});
    BOOST_TEST(!order.newest_first(at(0s)));
    BOOST_TEST(order.foresees());
    order.configure({.order = queue_order::lifo}, at(0s));
    BOOST_TEST(order.newest_first(at(0s)));
    BOOST_TEST(!order.foresees());
    order.configure({.order = queue_order::adaptive_lifo, .interval = 1s}, at(0s));
    BOOST_TEST(!order.newest_first(at(1s)));
    BOOST_TEST(order.newest_first(at(1s) + 1ns));
    BOOST_TEST(order.next_event(at(0s), at(1s)) == at(1s) + 1ns);
    order.configure({.order = queue_order::codel, .target = 1ms, .interval = 1s}, at(0s));
    BOOST_TEST(!order.newest_first(at(2s)));
    BOOST_TEST(!order.gives_up(at(0s), at(999ms)));
    BOOST_TEST(order.gives_up(at(0s), at(1s)));
    BOOST_TEST(order.foresees());
    // The same order with other options keeps its state.
    order.configure({.order = queue_order::fifo}, at(0s));
    BOOST_TEST(!order.gives_up(at(0s), at(1h)));
}

BOOST_AUTO_TEST_SUITE_END()
