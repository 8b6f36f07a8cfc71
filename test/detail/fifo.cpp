#include <weir/detail/fifo.hpp>

#include "support/stand_in.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>
#include <vector>

namespace {

using weir::detail::fifo;
using weir::detail::operation;

class guest final : public support::stand_in {
public:
    explicit guest(int n) : name(n) {}

    int name;
};

using names = std::vector<int>;

names everybody(fifo& queue) {
    names all;
    queue.for_each([&](operation& op) {
        all.push_back(static_cast<guest&>(op).name);
        return true;
    });
    return all;
}

struct four_guests {
    guest one{1}, two{2}, three{3}, four{4};
    fifo queue;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(first_come_first_served, four_guests)

BOOST_AUTO_TEST_CASE(is_nobody_while_nobody_waits) {
    BOOST_TEST(queue.next({}) == nullptr);
    BOOST_TEST(queue.oldest() == nullptr);
    BOOST_TEST(everybody(queue) == names());
}

BOOST_AUTO_TEST_CASE(serves_in_the_order_of_arrival_whatever_the_time) {
    queue.push(one);
    queue.push(two);
    queue.push(three);
    BOOST_TEST(queue.next({}) == &one);
    BOOST_TEST(queue.next(weir::never) == &one);
    BOOST_TEST(queue.oldest() == &one);
    BOOST_TEST(everybody(queue) == (names{1, 2, 3}));

    fifo::erase(one);
    BOOST_TEST(queue.next({}) == &two);
    BOOST_TEST(queue.oldest() == &two);
}

BOOST_AUTO_TEST_CASE(lets_anybody_go_and_come_back_at_the_end) {
    for (guest* g : {&one, &two, &three, &four})
        queue.push(*g);
    fifo::erase(three);
    BOOST_TEST(everybody(queue) == (names{1, 2, 4}));
    fifo::erase(four);
    fifo::erase(one);
    BOOST_TEST(everybody(queue) == names{2});
    queue.push(one);
    BOOST_TEST(everybody(queue) == (names{2, 1}));
    fifo::erase(one);
    fifo::erase(two);
    BOOST_TEST(queue.oldest() == nullptr);
}

BOOST_AUTO_TEST_CASE(lets_no_newcomer_overtake_however_little_they_ask_for) {
    BOOST_TEST(fifo::bars(1));
    BOOST_TEST(fifo::bars(std::numeric_limits<weir::amount>::max()));
}

BOOST_AUTO_TEST_CASE(is_visited_in_order_until_the_visitor_has_enough) {
    for (guest* g : {&one, &two, &three, &four})
        queue.push(*g);
    names seen;
    queue.for_each([&](operation& op) {
        seen.push_back(static_cast<guest&>(op).name);
        return seen.size() != 2;
    });
    BOOST_TEST(seen == (names{1, 2}));
}

BOOST_AUTO_TEST_CASE(may_lose_whoever_is_being_visited) {
    for (guest* g : {&one, &two, &three, &four})
        queue.push(*g);
    names seen;
    queue.for_each([&](operation& op) {
        auto const name = static_cast<guest&>(op).name;
        seen.push_back(name);
        if (name % 2 == 0)
            fifo::erase(op);
        return true;
    });
    BOOST_TEST(seen == (names{1, 2, 3, 4}));
    BOOST_TEST(everybody(queue) == (names{1, 3}));

    queue.for_each([](operation& op) {
        fifo::erase(op);
        return true;
    });
    BOOST_TEST(queue.oldest() == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
