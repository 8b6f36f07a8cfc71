#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/rate_tree_requests.hpp"
#include "support/rate_tree_turns_world.hpp"
#include "support/rate_tree_world.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using namespace std::chrono_literals;
using support::number_of_trees;
using support::random_source;
using support::rate_tree_maker;
using support::rate_tree_requests;
using support::rate_tree_turns_world;
using weir::amount;
using weir::duration;
using weir::rate_tree_options;
using weir::time_point;
using weir::policy::rate_tree;
using weir::policy::tree_node;

BOOST_AUTO_TEST_SUITE(rate_tree_turns_)

namespace {

constexpr time_point noon{12h};

rate_tree parse(std::string_view text) {
    return rate_tree(rate_tree_options::parse(text));
}
tree_node at(rate_tree const& tree, std::string const& name) {
    return tree.find(rate_tree::root(), name).value();
}

}  // namespace

BOOST_AUTO_TEST_CASE(it_grants_in_the_order_of_its_words) {
    std::int64_t lent = 0;
    support::for_each_seed(1, number_of_trees(), [&](random_source& random) {
        rate_tree_turns_world world(rate_tree_maker(random).make());
        if (random.one_in(2))
            world.keep_open();
        bool const charges = random.one_in(3);
        for (int step = 0; step != 200; ++step) {
            auto const leaf = world.some_leaf(random);
            auto const n = random.between(1, random.one_in(2) ? 1 : world.capacity(leaf));
            if (random.one_in(12))
                world.erase_some(random);
            else if (random.one_in(10))
                world.refund_some(random);
            else if (charges && random.one_in(40))
                world.charge(leaf, n + 3);
            else if (random.one_in(3))
                world.try_take(leaf, n);
            else if (random.one_in(2))
                world.push(leaf, n);
            world.pop_all();
            world.pass(random.one_in(12) ? random.between(0, 200) : random.between(0, 4));
        }
        lent += world.lent();
    });
    BOOST_TEST(lent > 0);
}

// ---- Shares

BOOST_AUTO_TEST_CASE(waiting_children_borrow_by_their_weights) {
    rate_tree_requests queue(parse("tree / 100/1s burst 10, /a 30/1s burst 2, /a/* most 90/1s, "
                                   "/b most 90/1s weight 3, /c most 10/1s burst 1 weight 32"));
    auto const a = at(queue.tree(), "a");
    std::vector<tree_node> const leaves{
        queue.add(a).value(), queue.add(a).value(), at(queue.tree(), "b"), at(queue.tree(), "c")};
    for (std::size_t i = 0; i != leaves.size(); ++i) {
        queue.push(leaves[i], 1, i, noon);
        queue.push(leaves[i], 1, i, noon);
    }
    std::vector<amount> granted(4);
    for (auto now = noon; now < noon + 100s; now = queue.next_at()) {
        while (auto const g = queue.pop(now)) {
            ++granted[g->asked.id];
            queue.push(g->asked.leaf, 1, g->asked.id, now);
        }
    }
    // 30 a second are the least of `a`, and 10 the most of `c`. The other 60 go to `a` and `b` as 1 to 3.
    BOOST_TEST(std::abs(granted[0] + granted[1] - 100 * (30 + 15)) <= 12);
    BOOST_TEST(std::abs(granted[0] - granted[1]) <= 2);
    BOOST_TEST(std::abs(granted[2] - 100 * 45) <= 12);
    BOOST_TEST(std::abs(granted[3] - 100 * 10) <= 2);
}

BOOST_AUTO_TEST_CASE(a_request_that_left_gains_nothing) {
    rate_tree_requests queue(parse("tree / 10/1s burst 2, /a most 10/1s, /b most 10/1s"));
    auto const a = at(queue.tree(), "a");
    auto const b = at(queue.tree(), "b");
    queue.push(a, 1, 0, noon);
    queue.push(a, 1, 0, noon);
    queue.push(b, 1, 1, noon);
    std::vector<amount> granted(2);
    for (auto now = noon; now < noon + 100s; now = queue.next_at()) {
        while (auto const g = queue.pop(now)) {
            ++granted[g->asked.id];
            queue.push(g->asked.leaf, 1, g->asked.id, now);  // `b` leaves at each grant
        }
    }
    BOOST_TEST(std::abs(granted[0] - granted[1]) <= 2);
    BOOST_TEST(granted[0] + granted[1] >= 1'000);
}

BOOST_AUTO_TEST_CASE(a_newcomer_does_not_overtake_a_turn) {
    rate_tree_requests queue(
        parse("tree / 10/1s burst 9, /a 2/1s burst 1, /b most 10/1s burst 9, /c most 10/1s"));
    auto const a = at(queue.tree(), "a");
    auto const b = at(queue.tree(), "b");
    auto const c = at(queue.tree(), "c");
    BOOST_TEST(queue.try_take(b, 4, noon).has_value());
    auto const large = queue.push(b, 5, 1, noon);
    BOOST_TEST(!queue.pop(noon));
    BOOST_TEST(queue.has_waiting(b));
    BOOST_TEST(!queue.try_take(b, 1, noon).has_value());  // it would overtake a request of its leaf
    BOOST_TEST(!queue.try_take(c, 1, noon)
                    .has_value());  // the root has 4 permits, and lends them to `b` next
    BOOST_TEST(queue.try_take(a, 1, noon).has_value());  // its own
    BOOST_TEST(!queue.try_take(a, 1, noon).has_value());
    queue.erase(large, noon);
    BOOST_TEST(queue.size() == 0U);
    BOOST_TEST(queue.next_at() == weir::never);
    BOOST_TEST(queue.try_take(c, 1, noon).has_value());
}

BOOST_AUTO_TEST_CASE(a_leaf_that_its_most_stops_is_passed_over) {
    rate_tree_requests queue(parse("tree / 10/1s burst 9, /a most 1/10s burst 1, /b most 10/1s"));
    auto const a = at(queue.tree(), "a");
    auto const b = at(queue.tree(), "b");
    BOOST_TEST(queue.try_take(a, 1, noon).has_value());
    queue.push(a, 1, 1, noon);
    BOOST_TEST(!queue.pop(noon));
    BOOST_TEST(queue.next_at() == noon + 10s);
    BOOST_TEST(queue.try_take(b, 1, noon).has_value());
    queue.push(b, 3, 2, noon);
    BOOST_TEST(queue.pop(noon).value().asked.id == 2U);
    BOOST_TEST(!queue.pop(noon + 10s - 1ns));
    BOOST_TEST(queue.pop(noon + 10s).value().asked.id == 1U);
}

BOOST_AUTO_TEST_CASE(many_children_do_not_delay_a_turn) {
    rate_tree_requests queue(parse("tree / 1001/1s burst 600, /b most 10000/1s burst 5000, "
                                   "/* 1/1s burst 1 keys 500"));
    auto now = noon;
    for (int i = 0; i != 500; ++i, now += 1ms)
        static_cast<void>(queue.charge(queue.add(rate_tree::root()).value(), 1, now));
    now = noon + 1s - 1ms;  // from now on a child becomes full every millisecond
    auto const b = at(queue.tree(), "b");
    while (queue.try_take(b, 1, now))
        continue;
    queue.push(b, 99, 1, now);
    while (!queue.pop(now)) {
        BOOST_TEST_REQUIRE(queue.next_at() > now);
        now = queue.next_at();
    }
    BOOST_TEST(now < noon + 2s);
    BOOST_TEST(queue.stats(rate_tree::root(), now).lends == 0);  // the turn was not late
}

// ---- Options

BOOST_AUTO_TEST_CASE(requests_wait_on_after_a_change) {
    rate_tree_requests queue(
        parse("tree / 10/1s burst 9, /a most 10/1s, /b most 10/1s, /c most 10/1s"));
    auto const leaf = [&](char const* name) { return at(queue.tree(), name); };
    BOOST_TEST(queue.try_take(leaf("a"), 9, noon).has_value());
    queue.push(leaf("a"), 1, 1, noon);
    auto const second = queue.push(leaf("a"), 2, 2, noon);
    queue.push(leaf("a"), 7, 3, noon);
    queue.push(leaf("b"), 1, 4, noon);
    queue.push(leaf("c"), 1, 5, noon);
    BOOST_CHECK_THROW(queue.configure(rate_tree_options{}, noon), std::invalid_argument);
    BOOST_TEST(queue.size() == 5U);

    auto const removed = queue.configure(
        rate_tree_options::parse("tree / 20/1s burst 5, /a most 10/1s burst 4, /c most 10/1s"),
        noon);
    std::vector<std::uint64_t> ids;
    for (auto const& r : removed)
        ids.push_back(r.id);
    BOOST_TEST((ids == std::vector<std::uint64_t>{3, 4}));  // too large; its leaf is gone
    BOOST_TEST(queue.size() == 3U);
    queue.erase(second, noon);
    ids.clear();
    for (auto now = noon; now < noon + 10s; now = queue.next_at()) {
        while (auto const g = queue.pop(now))
            ids.push_back(g->asked.id);
    }
    BOOST_TEST((ids == std::vector<std::uint64_t>{1, 5}));
}

// Adds the leaves below a node, and one key wherever there may be another.
void find_leaves(rate_tree_requests& queue, tree_node above, std::vector<tree_node>& leaves) {
    if (queue.tree().is_leaf(above))
        leaves.push_back(above);
    for (auto const* name : {"a", "b", "c"}) {
        if (auto const found = queue.tree().find(above, name))
            find_leaves(queue, *found, leaves);
    }
    if (auto const key = queue.add(above))
        find_leaves(queue, *key, leaves);
}

BOOST_AUTO_TEST_CASE(no_change_loses_a_request) {
    support::for_each_seed(1, number_of_trees(), [](random_source& random) {
        rate_tree_requests queue(rate_tree(rate_tree_maker(random).make()));
        std::size_t pushed = 0;
        std::size_t ended = 0;
        auto now = noon;
        for (int round = 0; round != 6; ++round) {
            std::vector<tree_node> leaves;
            find_leaves(queue, rate_tree::root(), leaves);
            for (int i = 0; i != 20 && !leaves.empty();
                 ++i, now += duration(random.between(0, 9))) {
                auto const leaf = leaves[random.index_in(leaves)];
                queue.push(leaf, random.between(1, queue.tree().capacity(leaf)), ++pushed, now);
                while (queue.pop(now))
                    ++ended;
            }
            try {
                ended += queue.configure(rate_tree_maker(random).make(), now).size();
            } catch (std::invalid_argument const&) {}
            BOOST_TEST_REQUIRE(ended + queue.size() == pushed);
        }
        for (; queue.size() != 0; now = queue.next_at()) {
            BOOST_TEST_REQUIRE(now < noon + 1s);
            while (queue.pop(now))
                ++ended;
        }
        BOOST_TEST_REQUIRE(ended == pushed);
    });
}

BOOST_AUTO_TEST_CASE(a_key_with_requests_is_not_forgotten) {
    rate_tree_requests queue(parse("tree / 1/1s burst 1, /a most 1/1s, /* most 1/1s"));
    auto const key = queue.add(rate_tree::root()).value();
    BOOST_TEST(queue.try_take(at(queue.tree(), "a"), 1, noon).has_value());
    auto const place = queue.push(key, 1, 1, noon);
    BOOST_TEST(!queue.forget(key, noon));
    queue.erase(place, noon);
    BOOST_TEST(queue.forget(key, noon));
}

BOOST_AUTO_TEST_CASE(a_tree_of_one_node_is_a_line) {
    rate_tree_requests queue(parse("tree / 1/1s burst 2"));
    auto const root = rate_tree::root();
    BOOST_TEST(queue.try_take(root, 2, noon).has_value());
    queue.push(root, 2, 1, noon);
    queue.push(root, 1, 2, noon);
    BOOST_TEST(!queue.pop(noon));
    BOOST_TEST(queue.next_at() == noon + 2s);
    BOOST_TEST(queue.pop(noon + 2s).value().asked.id == 1U);
    BOOST_TEST(!queue.pop(noon + 2s));
    BOOST_TEST(queue.next_at() == noon + 3s);
    BOOST_TEST(queue.pop(noon + 3s).value().asked.id == 2U);
    BOOST_TEST(queue.next_at() == weir::never);
}

BOOST_AUTO_TEST_SUITE_END()
