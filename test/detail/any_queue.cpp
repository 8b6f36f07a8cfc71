#include <weir/detail/any_queue.hpp>

#include "support/allocations.hpp"
#include "support/stand_in.hpp"

#include <boost/test/unit_test.hpp>

#include <new>

using support::stand_in;
using support::with_failing_allocation;
using weir::queue_order;
using weir::detail::any_queue;

BOOST_AUTO_TEST_SUITE(a_queue_of_any_order)

namespace {

// Returns whether a later request with this standing is served before one of class 7, flow 1 and weight 1.
bool is_served_first(any_queue& queue, weir::standing const& how) {
    stand_in first, second;
    first.number = 1;
    second.number = 2;
    first.ask_for({1, {.priority = 7, .flow = 1}});
    second.ask_for({1, how});
    for (auto* const op : {&first, &second}) {
        queue.prepare(*op);
        queue.push(*op);
    }
    bool const is_first = queue.next({}) == &second;
    queue.erase(first);
    queue.erase(second);
    return is_first;
}

bool goes_by_class(any_queue& queue) {
    return is_served_first(queue, {.priority = 0, .flow = 2});
}
bool goes_by_weight(any_queue& queue) {
    return is_served_first(queue, {.priority = 7, .flow = 2, .weight = 2});
}

}  // namespace

BOOST_AUTO_TEST_CASE(adopts_the_new_order_when_none_waits_and_memory_is_available) {
    any_queue queue({.order = queue_order::priority});
    BOOST_TEST(goes_by_class(queue));
    BOOST_TEST(!goes_by_weight(queue));
    queue.configure({.order = queue_order::fair});
    stand_in op;
    op.ask_for(1);
    int failures = 0;
    for (int k = 0;; ++k) {
        try {
            if (!with_failing_allocation(k, [&] { queue.prepare(op); }))
                break;
        } catch (std::bad_alloc const&) {
            ++failures;
        }
    }
    BOOST_TEST(failures > 0);
    BOOST_TEST(goes_by_class(queue));
    BOOST_TEST(goes_by_weight(queue));
    queue.configure({.order = queue_order::priority});
    BOOST_TEST(goes_by_class(queue));
    BOOST_TEST(!goes_by_weight(queue));
}

BOOST_AUTO_TEST_CASE(tells_whether_its_order_uses_the_standing) {
    weir::request const plain(1);
    weir::request const classed(1, {.priority = 0});
    weir::request const flowing(1, {.flow = 1});
    weir::request const weighty(1, {.weight = 2});
    auto const uses = [](weir::queue_order order, weir::request const& r) {
        return any_queue::can_use({.order = order}, r);
    };
    using enum weir::queue_order;
    for (auto const order : {fifo, lifo, adaptive_lifo, codel, fair}) {
        for (auto const& r : {plain, classed, flowing, weighty})
            BOOST_TEST(uses(order, r));
    }
    BOOST_TEST((uses(priority, plain) && uses(priority, classed)));
    BOOST_TEST((!uses(priority, flowing) && !uses(priority, weighty)));
    BOOST_TEST((uses(shares, plain) && uses(shares, flowing)));
    BOOST_TEST((!uses(shares, classed) && !uses(shares, weighty)));
}

BOOST_AUTO_TEST_SUITE_END()
