#include <weir/detail/fair_queue.hpp>

#include "support/order_oracle.hpp"
#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/stand_in.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using weir::amount;
using weir::detail::fair_queue;
using weir::detail::operation;

namespace {

class guest final : public support::stand_in {
public:
    guest(int i, std::uint64_t of, amount n) : index(i), whose(of) { ask_for({n, {.flow = of}}); }
    int index;
    std::uint64_t whose;
};

struct line {
    line() = default;
    ~line() {
        while (auto* const op = queue.oldest())
            queue.erase(*op);
    }
    guest& come(std::uint64_t key, amount n = 1) {
        guests.push_back(std::make_unique<guest>(static_cast<int>(guests.size()), key, n));
        queue.prepare(*guests.back());
        queue.push(*guests.back());
        return *guests.back();
    }
    guest* next() const { return static_cast<guest*>(queue.next({})); }
    void serve(operation& op) {
        queue.grant(op, op.count, {});
        queue.erase(op);
    }
    // Returns the flows in the order of service, as letters.
    std::string serve_all() {
        std::string order;
        while (auto* const op = next()) {
            order += static_cast<char>(op->whose);
            serve(*op);
        }
        return order;
    }
    std::string making_way(weir::request const& r) const {
        std::string order;
        for (auto* op = queue.makes_way(r, nullptr); op; op = queue.makes_way(r, op))
            order += std::to_string(static_cast<guest&>(*op).index) + " ";
        return order;
    }

    fair_queue queue;
    std::vector<std::unique_ptr<guest>> guests;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(a_fair_queue)

BOOST_AUTO_TEST_CASE(serves_the_flows_in_the_order_in_which_they_began_to_wait) {
    line l;
    for (char const key : std::string("aaaabbc"))
        l.come(static_cast<std::uint64_t>(key));
    BOOST_TEST(l.serve_all() == "abcabaa");
}

// Computed by hand. `a` lacks 2: the credit of all rises to 2. `b` gets its 2, and `c` lacks 1 for its 3: then `a`
// has a credit of 1 and `b` of 1. `a` lacks 1, and so on.
BOOST_AUTO_TEST_CASE(counts_permits_and_not_requests) {
    line l;
    for (int i = 0; i != 3; ++i)
        l.come('a', 2);
    for (int i = 0; i != 5; ++i)
        l.come('b', 1);
    l.come('c', 3);
    BOOST_TEST(l.serve_all() == "abbcabbab");
}

BOOST_AUTO_TEST_CASE(starts_again_for_a_flow_that_did_not_wait) {
    line l;
    l.come('a');
    l.come('b');
    l.serve(*l.next());
    l.come('a');  // behind b, with no credit
    l.come('a');
    BOOST_TEST(l.serve_all() == "baa");
    BOOST_TEST(l.next() == nullptr);
}

BOOST_AUTO_TEST_CASE(passes_the_turn_of_a_flow_whose_requests_have_left_to_the_next) {
    line l;
    auto& one = l.come('a');
    l.come('b', 7);
    l.come('c');
    l.queue.erase(one);
    BOOST_TEST(one.asked_for().flow() == 'a');
    BOOST_TEST(l.serve_all() == "bc");
}

BOOST_AUTO_TEST_CASE(lets_no_newcomer_overtake) {
    line l;
    l.come('a', 5);
    BOOST_TEST(l.queue.bars(1, {}));
    BOOST_TEST(l.queue.bars({1, {.flow = 'b'}}, {}));
}

BOOST_AUTO_TEST_CASE(counts_the_permits_that_are_certainly_served_before_a_newcomer) {
    line l;
    BOOST_TEST(l.queue.ahead_of_new(1, {}) == 0);
    auto& one = l.come('a', 10);
    l.come('a', 20);
    l.come('b', 300);
    BOOST_TEST(l.queue.ahead_of_new({1, {.flow = 'a'}}, {}) == 30);
    BOOST_TEST(l.queue.ahead_of_new({1, {.flow = 'b'}}, {}) == 300);
    BOOST_TEST(l.queue.ahead_of_new({1, {.flow = 'c'}}, {}) == 310);
    l.queue.erase(one);
    BOOST_TEST(l.queue.ahead_of_new({1, {.flow = 'c'}}, {}) == 320);
    l.serve_all();
    BOOST_TEST(l.queue.ahead_of_new({1, {.flow = 'c'}}, {}) == 0);
}

BOOST_AUTO_TEST_CASE(drops_the_oldest_of_the_flow_that_asks_for_the_most) {
    line l;
    BOOST_TEST(l.making_way(1) == "");
    l.come('a', 7);
    l.come('b', 3);
    auto& big = l.come('b', 5);
    l.come('b', 1);
    BOOST_TEST(l.making_way({1, {.flow = 'c'}}) == "1 2 3 ");
    l.queue.erase(big);
    BOOST_TEST(l.making_way({1, {.flow = 'b'}}) == "0 ");
}

BOOST_AUTO_TEST_CASE(visits_all_in_order_of_arrival) {
    line l;
    l.come('a');
    auto& gone = l.come('b');
    l.come('a');
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
            BOOST_REQUIRE(l.next()->whose == std::uint64_t{1} << bit);
            l.serve(*l.next());
        }
    }
}

BOOST_AUTO_TEST_CASE(selects_the_next_request_as_documented) {
    support::for_each_seed(1, 300, [](support::random_source& random) {
        line l;
        support::fair_oracle truth;
        std::vector<guest*> waiting;
        auto const most = random.between(1, 9);
        for (int step = 0; step != 300; ++step) {
            if (random.between(0, 2) != 0) {
                auto& one = l.come(random.bits() % 5, random.between(1, most));
                truth.join(one.index, one.whose, one.count);
                waiting.push_back(&one);
            } else if (!waiting.empty()) {
                BOOST_REQUIRE(l.next()->index == truth.next());
                auto* gone = l.next();
                if (random.one_in(3)) {
                    gone = random.one_in(2)
                               ? waiting[random.index_in(waiting)]
                               : static_cast<guest*>(l.queue.makes_way({1, {.flow = 2}}, nullptr));
                    if (gone == l.queue.makes_way(1, nullptr))
                        BOOST_REQUIRE(truth.may_make_way(gone->index));
                    l.queue.erase(*gone);
                    truth.leave(gone->index);
                } else {
                    l.serve(*gone);
                    truth.grant();
                }
                std::erase(waiting, gone);
            }
            BOOST_REQUIRE((l.next() == nullptr) == truth.empty());
        }
    });
}

namespace {

// All flows always wait. The permits of two flows must never differ by more than `times` the largest request.
void stay_near(support::random_source& random, bool leaves, amount times) {
    constexpr std::size_t keys = 4;
    auto const largest = random.between(1, 50);
    line l;
    std::vector<std::vector<guest*>> waiting(keys);
    auto const come = [&](std::size_t k) {
        auto const n = random.one_in(3) ? largest : random.between(1, largest);
        waiting[k].push_back(&l.come(k, n));
    };
    std::vector<amount> granted(keys);
    std::vector<std::vector<amount>> seen;
    for (int step = 0; step != 400; ++step) {
        for (std::size_t k = 0; k != keys; ++k) {
            while (waiting[k].size() < 2)
                come(k);
        }
        auto& next = *l.next();
        auto& own = waiting[next.whose];
        if (leaves && random.one_in(3)) {
            l.queue.erase(next);
        } else {
            granted[next.whose] += next.count;
            l.serve(next);
            seen.push_back(granted);
        }
        own.erase(own.begin());
    }
    for (std::size_t a = 0; a != keys; ++a) {
        for (std::size_t b = 0; b != a; ++b) {
            auto const [least, most] =
                std::ranges::minmax(seen, {}, [&](auto const& sums) { return sums[a] - sums[b]; });
            BOOST_REQUIRE((most[a] - most[b]) - (least[a] - least[b]) <= times * largest);
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(grants_no_flow_more_than_four_times_the_largest_request_above_another) {
    support::for_each_seed(1, 300, [](support::random_source& random) {
        stay_near(random, false, 4);
    });
}

BOOST_AUTO_TEST_CASE(grants_no_flow_more_than_eight_times_that_if_requests_leave) {
    support::for_each_seed(1, 300, [](support::random_source& random) {
        stay_near(random, true, 8);
    });
}

BOOST_AUTO_TEST_SUITE_END()
