#include <weir/detail/any_queue.hpp>

#include "support/allocations.hpp"
#include "support/stand_in.hpp"

#include <boost/test/unit_test.hpp>

#include <new>

using support::stand_in;
using support::with_failing_allocation;
using weir::queue_order;
using weir::detail::any_queue;

namespace {

// Returns which of two requests is served first: the later one, of a lower class, or the one of a flow that has not
// had its turn.
bool goes_by_class(any_queue& queue) {
    stand_in first, second;
    first.number = 1;
    second.number = 2;
    first.ask_for({1, {.priority = 7, .flow = 1}});
    second.ask_for({1, {.priority = 0, .flow = 2}});
    for (auto* const op : {&first, &second}) {
        queue.prepare(*op);
        queue.push(*op);
    }
    bool const by_class = queue.next({}) == &second;
    queue.erase(first);
    queue.erase(second);
    return by_class;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_queue_of_any_order)

BOOST_AUTO_TEST_CASE(adopts_the_new_order_when_none_waits_and_memory_is_available) {
    any_queue queue({.order = queue_order::priority});
    BOOST_TEST(goes_by_class(queue));
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
    BOOST_TEST(!goes_by_class(queue));
    queue.configure({.order = queue_order::priority});
    BOOST_TEST(goes_by_class(queue));
}

// An order uses the class or the flow, never both.
BOOST_AUTO_TEST_CASE(tells_whether_its_order_uses_the_class_and_the_flow) {
    weir::request const plain(1);
    weir::request const classed(1, {.priority = 0});
    weir::request const flowing(1, {.flow = 1});
    auto const uses = [](weir::queue_order order, weir::request const& r) {
        return any_queue::can_use({.order = order}, r);
    };
    using enum weir::queue_order;
    for (auto const order : {fifo, lifo, adaptive_lifo, codel})
        BOOST_TEST((uses(order, plain) && uses(order, classed) && uses(order, flowing)));
    BOOST_TEST((uses(priority, plain) && uses(priority, classed) && !uses(priority, flowing)));
    for (auto const order : {fair, shares})
        BOOST_TEST((uses(order, plain) && !uses(order, classed) && uses(order, flowing)));
}

BOOST_AUTO_TEST_SUITE_END()
