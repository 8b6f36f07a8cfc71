#include <weir/detail/fair_queue.hpp>
#include <weir/detail/priority_queue.hpp>

#include "support/fair_line.hpp"
#include "support/order_oracle.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using namespace support::fair;

BOOST_AUTO_TEST_SUITE(a_fair_queue)

BOOST_AUTO_TEST_CASE(serves_the_flows_in_the_order_in_which_they_began_to_wait) {
    line l;
    for (char const key : std::string("aaaabbc"))
        l.come(static_cast<std::uint64_t>(key));
    BOOST_TEST(l.serve_all() == "abcabaa");
}

// Computed by hand. The tags are a 2, b 1, c 3. After b: b 2, and a began to wait first. After a at 2: a 4. After b: b 3,
// and c began to wait before b was served. After c: b at 3, then b 4 against a 4, where a was served longest ago.
BOOST_AUTO_TEST_CASE(counts_permits_and_not_requests) {
    line l;
    for (int i = 0; i != 3; ++i)
        l.come('a', 2);
    for (int i = 0; i != 5; ++i)
        l.come('b', 1);
    l.come('c', 3);
    BOOST_TEST(l.serve_all() == "babcbabba");
}

// Computed by hand. The tags of a are 1/2, 1, 3/2, and of b 1, 2, 3.
BOOST_AUTO_TEST_CASE(grants_permits_in_proportion_to_the_weights) {
    line l;
    for (int i = 0; i != 6; ++i)
        l.come(of('a', 1, 2));
    for (int i = 0; i != 3; ++i)
        l.come(of('b'));
    BOOST_TEST(l.serve_all() == "abaabaaba");
}

// A request for a range counts as many permits as it is granted.
BOOST_AUTO_TEST_CASE(counts_the_permits_that_were_granted) {
    line l;
    for (int i = 0; i != 3; ++i) {
        l.come('a');
        l.come('b');
    }
    l.serve(*l.next(), 3);
    BOOST_TEST(l.serve_all() == "bbbaa");
}

BOOST_AUTO_TEST_CASE(starts_again_for_a_flow_that_did_not_wait) {
    line l;
    l.come('a');
    l.come('b');
    l.serve(*l.next());
    l.come('a');  // behind b, and behind what b is granted next
    l.come('a');
    l.come('b');
    BOOST_TEST(l.serve_all() == "baba");
    BOOST_TEST(l.next() == nullptr);
}

BOOST_AUTO_TEST_CASE(passes_the_turn_of_a_flow_whose_requests_have_left_to_the_next) {
    line l;
    auto& one = l.come('a');
    l.come('b', 7);
    l.come('c', 7);
    l.queue.erase(one);
    BOOST_TEST(one.asked_for().flow() == 'a');
    BOOST_TEST(l.serve_all() == "bc");
}

BOOST_AUTO_TEST_CASE(restores_the_request_of_an_operation_that_leaves) {
    line l;
    auto& one = l.come(of('a', 4, 32, 7));
    l.come(of('a', 5, 31, 0));
    l.queue.erase(one);
    BOOST_TEST((one.asked_for() == of('a', 4, 32, 7)));
}

// Another operation for the same request, as when a reservation gets its handler.
BOOST_AUTO_TEST_CASE(keeps_the_turn_of_a_request_that_is_replaced) {
    line l;
    auto& one = l.come(of('a', 4, 8));
    l.come(of('b', 1, 1));
    auto& by = *l.guests.emplace_back(std::make_unique<guest>(2, of('a', 1), at(0)));
    by.come_as(one);
    l.queue.replace(one, by);
    BOOST_TEST((l.next() == &by));
    BOOST_TEST(by.weight() == 8);
    l.serve(by);
    BOOST_TEST(l.next()->asked.flow() == 'b');
}

BOOST_AUTO_TEST_CASE(lets_no_newcomer_overtake_a_request_of_its_class) {
    line l;
    l.come(of('a', 5), at(10));
    BOOST_TEST(l.queue.bars(1, at(10)));
    BOOST_TEST(l.queue.bars(of('b', 1, 32), at(10)));
    BOOST_TEST(l.queue.bars(of('b', 1, 1, 4), at(10)));
}

// A class counts as much as one second of wait.
BOOST_AUTO_TEST_CASE(lets_a_newcomer_of_a_lower_class_overtake_those_that_have_not_aged_so_far) {
    line l;
    l.come(of('a', 1, 1, 5), at(10));
    BOOST_TEST(!l.queue.bars(of('b', 1, 1, 3), at(11)));
    BOOST_TEST(l.queue.bars(of('b', 1, 1, 3), at(12)));
    l.come(of('a', 1, 1, 7), at(10));
    BOOST_TEST(!l.queue.bars(of('b', 1, 1, 3), at(11)));
}

// The next of class 5 is c, by its weight: its age counts, and not the age of a.
BOOST_AUTO_TEST_CASE(compares_the_next_requests_of_the_classes) {
    line l;
    l.come(of('a', 9, 1, 5), at(10));
    l.come(of('c', 9, 9, 5), at(12));
    l.come(of('b', 1, 1, 3), at(13));
    BOOST_TEST(l.next()->asked.flow() == 'b');
    l.serve(*l.next());
    l.come(of('b', 1, 1, 3), at(14));  // as old as c, which came first
    BOOST_TEST(l.serve_all() == "cab");
}

BOOST_AUTO_TEST_CASE(counts_the_permits_that_are_certainly_served_before_a_newcomer) {
    line l;
    BOOST_TEST(l.queue.ahead_of_new(1, {}) == 0);
    auto& one = l.come('a', 10);
    l.come('a', 20);
    l.come('b', 300);
    BOOST_TEST(l.queue.ahead_of_new(of('a'), {}) == 30);
    BOOST_TEST(l.queue.ahead_of_new(of('b'), {}) == 300);
    BOOST_TEST(l.queue.ahead_of_new(of('c', 300), {}) == 310);
    BOOST_TEST(l.queue.ahead_of_new(of('c', 299), {}) == 10);
    BOOST_TEST(l.queue.ahead_of_new(of('c', 9), {}) == 0);
    BOOST_TEST(l.queue.ahead_of_new(of('c', 600, 2), {}) == 310);
    BOOST_TEST(l.queue.ahead_of_new(of('c', 600, 3), {}) == 10);
    BOOST_TEST(l.queue.ahead_of_new(of('c', 300, 1, 7), {}) == 0);  // another class
    l.queue.erase(one);
    BOOST_TEST(l.queue.ahead_of_new(of('c', 300), {}) == 320);
    l.serve_all();
    BOOST_TEST(l.queue.ahead_of_new(of('c', 300), {}) == 0);
}

BOOST_AUTO_TEST_CASE(drops_the_oldest_of_the_flow_that_asks_for_the_most) {
    line l;
    BOOST_TEST(l.making_way(1) == "");
    l.come('a', 7);
    l.come('b', 3);
    auto& big = l.come('b', 5);
    l.come('b', 1);
    BOOST_TEST(l.making_way(of('c')) == "1 2 3 ");
    l.queue.erase(big);
    BOOST_TEST(l.making_way(of('b')) == "0 ");
    l.come(of('c', 20, 8));  // no more than 2.5 for its weight
    BOOST_TEST(l.making_way(of('b')) == "0 ");
}

BOOST_AUTO_TEST_CASE(drops_a_request_of_the_highest_class_and_none_of_a_lower_one) {
    line l;
    l.come(of('a', 99, 1, 2));
    l.come(of('b', 1, 1, 4));
    BOOST_TEST(l.making_way(of('c', 1, 1, 4)) == "1 ");
    BOOST_TEST(l.making_way(of('c', 1, 1, 5)) == "");
    l.serve_all();
    BOOST_TEST(l.making_way(of('c', 1, 1, 0)) == "");
}

BOOST_AUTO_TEST_CASE(visits_all_in_order_of_arrival) {
    line l;
    l.come('a');
    auto& gone = l.come('b');
    l.come(of('a', 1, 1, 0));
    l.come('c');
    l.queue.erase(gone);
    std::string all;
    for (auto* op = l.queue.oldest(); op; op = l.queue.after(*op))
        all += std::to_string(static_cast<guest&>(*op).index);
    BOOST_TEST(all == "023");
}

// Keys that would collide in a hash table of any power-of-two size, and keys that differ in one bit.
BOOST_AUTO_TEST_CASE(distinguishes_all_keys) {
    line l;
    for (int round = 0; round != 3; ++round) {
        for (unsigned bit = 0; bit != 64; ++bit)
            l.come(std::uint64_t{1} << bit);
    }
    for (int round = 0; round != 3; ++round) {
        for (unsigned bit = 0; bit != 64; ++bit) {
            BOOST_REQUIRE(l.next()->asked.flow() == std::uint64_t{1} << bit);
            l.serve(*l.next());
        }
    }
}

// The largest requests, so often that the tags wrap around, with the least and the greatest weight.
BOOST_AUTO_TEST_CASE(is_exact_for_the_largest_amounts) {
    line l;
    l.come(of('a', weir::max_amount));
    for (int i = 0; i != 32; ++i)
        l.come(of('b', weir::max_amount, 32));
    l.come(of('c', weir::max_amount - 1));
    BOOST_TEST(l.serve_all() == std::string(31, 'b') + "cab");
}

BOOST_AUTO_TEST_CASE(takes_104_bytes_for_a_flow) {
    BOOST_TEST(sizeof(weir::detail::fair_group) <= 104U);
}

namespace {

// A queue beside its definition.
struct pair_of_lines {
    explicit pair_of_lines(weir::duration ageing) : l(ageing), truth(ageing) {}

    guest& come(weir::request const& r, weir::time_point now) {
        auto& one = l.come(r, now);
        truth.join(one.index, r, now);
        waiting.push_back(&one);
        return one;
    }
    void serve(amount n) {
        auto* const one = l.next();
        BOOST_REQUIRE(one->index == truth.next());
        l.serve(*one, n);
        truth.grant(n);
        std::erase(waiting, one);
    }
    void leave(guest& one) {
        l.queue.erase(one);
        truth.leave(one.index);
        std::erase(waiting, &one);
    }

    line l;
    support::fair_oracle truth;
    std::vector<guest*> waiting;
};

}  // namespace

BOOST_AUTO_TEST_CASE(selects_the_next_request_as_documented) {
    support::for_each_seed(1, 300, [](support::random_source& random) {
        auto const ageing = random.between(1, 40) * 1s;
        pair_of_lines both(ageing);
        auto const most = random.between(1, 9);
        auto const heaviest = random.one_in(2) ? 1 : random.between(1, 32);
        auto const last = random.between(0, weir::last_priority);
        auto const flows = random.one_in(4) ? 200U : 5U;
        auto const some_request = [&] {
            return weir::request(random.between(1, most),
                                 {.priority = static_cast<int>(random.between(0, last)),
                                  .flow = random.bits() % flows,
                                  .weight = static_cast<int>(random.between(1, heaviest))});
        };
        int now = 0;
        for (int step = 0; step != 200; ++step) {
            now += static_cast<int>(random.between(0, 9));
            auto const newcomer = some_request();
            if (!both.waiting.empty()) {
                BOOST_REQUIRE(both.l.next()->index == both.truth.next());
                BOOST_REQUIRE(both.l.queue.bars(newcomer, at(now)) ==
                              !both.truth.lets_pass(newcomer, at(now)));
                BOOST_REQUIRE(both.l.queue.ahead_of_new(newcomer, at(now)) <=
                              both.truth.ahead_of_new(newcomer));
                auto* const gone = both.l.queue.makes_way(newcomer, nullptr);
                BOOST_REQUIRE((gone != nullptr) == both.truth.somebody_makes_way(newcomer));
                if (gone)
                    BOOST_REQUIRE(
                        both.truth.may_make_way(static_cast<guest&>(*gone).index, newcomer));
                if (gone && random.one_in(8))
                    both.leave(static_cast<guest&>(*gone));
            }
            if (random.between(0, 2) != 0)
                both.come(newcomer, at(now));
            else if (!both.waiting.empty() && random.one_in(3))
                both.leave(*both.waiting[random.index_in(both.waiting)]);
            else if (!both.waiting.empty())
                both.serve(both.l.next()->count + (random.one_in(4) ? random.between(0, 3) : 0));
            BOOST_REQUIRE((both.l.next() == nullptr) == both.truth.empty());
        }
    });
}

// While few flows wait, all that precede a newcomer are counted.
BOOST_AUTO_TEST_CASE(counts_all_that_is_certain_before_a_newcomer) {
    support::for_each_seed(1, 100, [](support::random_source& random) {
        pair_of_lines both(1s);
        for (int step = 0; step != 100; ++step) {
            weir::request const r(
                random.between(1, 9),
                {.flow = random.bits() % 60, .weight = static_cast<int>(random.between(1, 4))});
            BOOST_REQUIRE(both.l.queue.ahead_of_new(r, at(0)) == both.truth.ahead_of_new(r));
            both.come(r, at(0));
            if (random.one_in(2))
                both.serve(both.l.next()->count);
        }
    });
}

BOOST_AUTO_TEST_CASE(is_the_order_priority_for_one_flow) {
    support::for_each_seed(1, 2000, [](support::random_source& random) {
        auto const ageing = random.between(1, 20) * 1s;
        line l(ageing);
        weir::detail::priority_queue other({.ageing = ageing});
        std::vector<std::unique_ptr<guest>> others;
        int now = 0;
        for (int step = 0; step != 60; ++step) {
            now += static_cast<int>(random.between(0, 9));
            weir::request const r(
                random.between(1, 5),
                {.priority = static_cast<int>(random.between(0, weir::last_priority))});
            BOOST_REQUIRE(l.queue.empty() == other.empty());
            if (!l.queue.empty())
                BOOST_REQUIRE(l.queue.bars(r, at(now)) == other.bars(r, at(now)));
            if (l.queue.empty() || random.one_in(2)) {
                l.come(r, at(now));
                others.push_back(std::make_unique<guest>(l.guests.back()->index, r, at(now)));
                other.push(*others.back());
                continue;
            }
            auto* gone = l.next();
            BOOST_REQUIRE(gone->index == static_cast<guest*>(other.next({}))->index);
            auto const index = static_cast<std::size_t>(gone->index);
            if (random.one_in(2)) {
                l.serve(*gone);
                other.grant(*others[index], 1, {});
            } else {
                l.queue.erase(*gone);
            }
            other.erase(*others[index]);
        }
        while (auto* const op = other.oldest())
            other.erase(*op);
    });
}

BOOST_AUTO_TEST_SUITE_END()
