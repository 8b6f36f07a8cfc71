#include <weir/detail/arrival_queue.hpp>

#include "support/stand_in.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>
#include <vector>

BOOST_AUTO_TEST_SUITE(detail_arrival_queue)

namespace {

using weir::detail::fifo;
using weir::detail::operation;

class guest final : public support::stand_in {
public:
    explicit guest(int n) : name(n) {}

    int name;
};

using names = std::vector<int>;

names everybody(fifo const& queue) {
    names all;
    for (operation* op = queue.oldest(); op; op = queue.after(*op))
        all.push_back(static_cast<guest&>(*op).name);
    return all;
}

struct four_guests {
    guest one{1}, two{2}, three{3}, four{4};
    fifo queue;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(first_come_first_served, four_guests)

BOOST_AUTO_TEST_CASE(has_no_next_request_while_none_waits) {
    BOOST_TEST(queue.next({}) == nullptr);
    BOOST_TEST(queue.oldest() == nullptr);
    BOOST_TEST(queue.newest() == nullptr);
    BOOST_TEST(everybody(queue) == names());
}

BOOST_AUTO_TEST_CASE(serves_in_order_of_arrival_at_any_time) {
    queue.push(one);
    queue.push(two);
    queue.push(three);
    BOOST_TEST(queue.next({}) == &one);
    BOOST_TEST(queue.next(weir::never) == &one);
    BOOST_TEST(queue.oldest() == &one);
    BOOST_TEST(queue.newest() == &three);
    BOOST_TEST(everybody(queue) == (names{1, 2, 3}));

    queue.erase(one);
    BOOST_TEST(queue.next({}) == &two);
    BOOST_TEST(queue.oldest() == &two);
}

BOOST_AUTO_TEST_CASE(allows_any_request_to_leave_and_rejoin_at_the_end) {
    for (guest* g : {&one, &two, &three, &four})
        queue.push(*g);
    queue.erase(three);
    BOOST_TEST(everybody(queue) == (names{1, 2, 4}));
    queue.erase(four);
    queue.erase(one);
    BOOST_TEST(everybody(queue) == names{2});
    queue.push(one);
    BOOST_TEST(everybody(queue) == (names{2, 1}));
    queue.erase(one);
    queue.erase(two);
    BOOST_TEST(queue.oldest() == nullptr);
}

BOOST_AUTO_TEST_CASE(lets_no_newcomer_overtake_even_with_a_small_request) {
    BOOST_TEST(queue.bars(1, {}));
    BOOST_TEST(queue.bars(std::numeric_limits<weir::amount>::max(), {}));
}

BOOST_AUTO_TEST_CASE(counts_the_permits_before_a_newcomer) {
    BOOST_TEST(queue.ahead_of_new(1, {}) == 0);
    for (guest* g : {&one, &two, &three}) {
        g->count = g->name * 10;
        queue.push(*g);
    }
    BOOST_TEST(queue.ahead_of_new(1, {}) == 60);
    BOOST_TEST(queue.ahead_of_new(1'000'000, {}) == 60);
    queue.erase(two);
    BOOST_TEST(queue.ahead_of_new(1, {}) == 40);
    queue.erase(one);
    queue.erase(three);
    BOOST_TEST(queue.ahead_of_new(1, {}) == 0);
}

BOOST_AUTO_TEST_CASE(drops_no_request_and_has_no_events) {
    queue.push(one);
    BOOST_TEST(queue.shed(weir::never) == nullptr);
    BOOST_TEST((queue.next_event({}) == weir::never));
    queue.erase(one);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
