#include <weir/detail/priority_queue.hpp>

#include "support/order_oracle.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/stand_in.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using weir::detail::operation;
using weir::detail::priority_queue;

BOOST_AUTO_TEST_SUITE(a_priority_queue)

namespace {

class guest final : public support::stand_in {
public:
    guest(char n, int c, weir::time_point when, std::uint64_t i, weir::amount asks = 1) : name(n) {
        ask_for({asks, {.priority = c}});
        since = when;
        number = i;
    }
    char name;
};

constexpr weir::time_point at(weir::duration d) {
    return weir::time_point(1h + d);
}

struct line {
    explicit line(weir::duration ageing = 1s) : queue({.ageing = ageing}) {}
    ~line() {
        while (auto* const op = queue.oldest())
            queue.erase(*op);
    }

    guest& come(char name, int priority, weir::duration when, weir::amount n = 1) {
        guests.push_back(std::make_unique<guest>(name, priority, at(when), guests.size() + 1, n));
        queue.push(*guests.back());
        return *guests.back();
    }
    std::string serve_all() {
        std::string order;
        while (auto* const op = queue.next({})) {
            auto& served = static_cast<guest&>(*op);
            order += served.name;
            queue.grant(served, served.count, {});
            queue.erase(served);
        }
        return order;
    }
    std::string making_way(int priority) const {
        weir::request const r(1, {.priority = priority});
        std::string order;
        for (auto* op = queue.makes_way(r, nullptr); op; op = queue.makes_way(r, op))
            order += static_cast<guest&>(*op).name;
        return order;
    }

    priority_queue queue;
    std::vector<std::unique_ptr<guest>> guests;
};

}  // namespace

BOOST_AUTO_TEST_CASE(serves_a_lower_class_first_and_each_class_in_order_of_arrival) {
    line l;
    l.come('a', 3, 0ms);
    l.come('b', 5, 1ms);
    l.come('c', 0, 2ms);
    l.come('d', 3, 3ms);
    l.come('e', 0, 4ms);
    l.come('f', 7, 5ms);
    BOOST_TEST(l.serve_all() == "ceadbf");
}

// Computed by hand, with an ageing of 1 s: `a` of class 2 is ordered as if it had arrived at 2 s.
BOOST_AUTO_TEST_CASE(counts_each_ageing_as_a_class) {
    line l;
    l.come('f', 7, -4500ms);  // 2.5 s
    l.come('a', 2, 0ms);      // 2 s
    l.come('d', 1, 1500ms);   // 2.5 s, but later than f
    l.come('b', 0, 1999ms);   // 1.999 s
    l.come('c', 0, 2000ms);   // 2 s, but later than a
    l.come('e', 0, 2400ms);   // 2.4 s
    BOOST_TEST(l.serve_all() == "bacefd");
}

BOOST_AUTO_TEST_CASE(lets_a_newcomer_overtake_higher_classes_that_have_not_aged) {
    line l;
    l.come('a', 3, 0ms);
    auto const bars = [&](int priority, weir::duration when) {
        return l.queue.bars({1, {.priority = priority}}, at(when));
    };
    BOOST_TEST(bars(3, 0ms));
    BOOST_TEST(bars(4, 0ms));
    BOOST_TEST(!bars(2, 0ms));
    BOOST_TEST(!bars(2, 999ms));
    BOOST_TEST(bars(2, 1s));
    BOOST_TEST(!bars(0, 2999ms));
    BOOST_TEST(bars(0, 3s));
}

BOOST_AUTO_TEST_CASE(counts_the_permits_that_are_certainly_served_before_a_newcomer) {
    line l;
    l.come('a', 3, 0ms, 10);
    l.come('b', 1, 0ms, 100);
    l.come('c', 5, 0ms, 1000);
    BOOST_TEST(l.queue.ahead_of_new({1, {.priority = 0}}, {}) == 0);
    BOOST_TEST(l.queue.ahead_of_new({1, {.priority = 1}}, {}) == 100);
    BOOST_TEST(l.queue.ahead_of_new({1, {.priority = 4}}, {}) == 110);
    BOOST_TEST(l.queue.ahead_of_new({1, {.priority = 7}}, {}) == 1110);
    // Aged requests go before it.
    BOOST_TEST(l.queue.ahead_of_new({1, {.priority = 2}}, at(999ms)) == 100);
    BOOST_TEST(l.queue.ahead_of_new({1, {.priority = 2}}, at(1s)) == 110);
    BOOST_TEST(l.queue.ahead_of_new({1, {.priority = 2}}, at(3s)) == 1110);
}

BOOST_AUTO_TEST_CASE(drops_the_oldest_of_the_highest_class_but_none_of_a_lower_than_the_newcomers) {
    line l;
    BOOST_TEST(l.making_way(0) == "");
    l.come('a', 3, 0ms);
    l.come('b', 5, 1ms);
    l.come('c', 3, 2ms);
    l.come('d', 5, 3ms);
    l.come('e', 1, 4ms);
    BOOST_TEST(l.making_way(0) == "bdace");
    BOOST_TEST(l.making_way(3) == "bdac");
    BOOST_TEST(l.making_way(4) == "bd");
    BOOST_TEST(l.making_way(6) == "");
}

BOOST_AUTO_TEST_CASE(visits_all_in_order_of_arrival) {
    line l;
    l.come('a', 3, 0ms);
    auto& b = l.come('b', 5, 1ms);
    l.come('c', 0, 2ms);
    l.queue.erase(b);
    std::string all;
    for (auto* op = l.queue.oldest(); op; op = l.queue.after(*op))
        all += static_cast<guest&>(*op).name;
    BOOST_TEST(all == "ac");
}

// Compares each pair with the documented rule.
BOOST_AUTO_TEST_CASE(serves_no_request_before_one_that_precedes_it) {
    support::for_each_seed(1, 200, [](support::random_source& random) {
        auto const ageing = weir::duration(random.between(1, 20));
        line l(ageing);
        weir::duration now{};
        std::vector<guest*> waiting;
        for (int step = 0; step != 200; ++step) {
            now += weir::duration(random.between(0, 5));
            if (random.between(0, 2) != 0) {
                waiting.push_back(&l.come('x', static_cast<int>(random.between(0, 7)), now));
                continue;
            }
            if (waiting.empty())
                continue;
            auto* const next = static_cast<guest*>(l.queue.next(at(now)));
            for (auto const* const one : waiting) {
                if (one->number < next->number)
                    BOOST_REQUIRE(!support::older_goes_first(
                        one->priority, one->since, next->priority, next->since, ageing));
                else if (one->number > next->number)
                    BOOST_REQUIRE(support::older_goes_first(
                        next->priority, next->since, one->priority, one->since, ageing));
            }
            auto* const gone = random.one_in(4) ? waiting[random.index_in(waiting)] : next;
            l.queue.erase(*gone);
            std::erase(waiting, gone);
        }
    });
}

BOOST_AUTO_TEST_SUITE_END()
