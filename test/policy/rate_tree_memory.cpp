#include <weir/policy/rate_tree.hpp>

#include "support/allocations.hpp"
#include "support/printing.hpp"
#include "support/rate_tree_requests.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <new>
#include <optional>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using support::rate_tree_requests;
using weir::rate_tree_options;
using weir::time_point;
using weir::policy::rate_tree;
using weir::policy::tree_node;

BOOST_AUTO_TEST_SUITE(rate_tree_memory)

namespace {

constexpr time_point noon{12h};
constexpr std::size_t keys = 1'000;

rate_tree tree_of(std::string const& leaf) {
    return rate_tree(rate_tree_options::parse(
        "tree / 9000/1s burst 90000, /a 8000/1s burst 9000, /a/* " + leaf + " keys 1000"));
}
std::vector<tree_node> all_keys(rate_tree& tree) {
    std::vector<tree_node> leaves;
    leaves.reserve(keys);
    auto const parent = tree.find(rate_tree::root(), "a").value();
    for (std::size_t i = 0; i != keys; ++i)
        leaves.push_back(tree.add(parent).value());
    return leaves;
}
std::size_t bytes_of_a_leaf(std::string const& leaf) {
    auto tree = tree_of(leaf);
    auto const before = tree.heap_bytes();
    auto const leaves = all_keys(tree);
    return (tree.heap_bytes() - before) / keys;
}

// Makes each allocation of `f` fail, one after the other, and calls `check` after each failure.
template <class F, class Check>
void fail_each_allocation(F f, Check check) {
    bool fails = true;
    for (int k = 0; fails; ++k) {
        bool threw = false;
        fails = support::with_failing_allocation(k, [&] {
            try {
                f();
            } catch (std::bad_alloc const&) {
                threw = true;
            }
        });
        BOOST_TEST_REQUIRE(threw == fails);
        if (fails)
            check();
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_leaf_takes_16_to_52_bytes) {
    BOOST_TEST(bytes_of_a_leaf("most 2/1s") == 16U);
    BOOST_TEST(bytes_of_a_leaf("2/1s") == 36U);
    BOOST_TEST(bytes_of_a_leaf("2/1s most 3/1s") == 52U);
}

BOOST_AUTO_TEST_CASE(requests_allocate_nothing) {
    auto tree = tree_of("2/1s burst 2 most 30/1s burst 30");
    auto const leaves = all_keys(tree);
    support::allocation_count const count;
    for (int round = 0; round != 3; ++round) {
        auto const now = noon + round * 100ms;
        for (auto const leaf : leaves) {
            auto const ticket = tree.take(leaf, 3, now);
            static_cast<void>(tree.ready_at(leaf, 1, now));
            static_cast<void>(tree.remaining(leaf, now));
            tree.refund(leaf, 1, ticket, now);
        }
    }
    for (auto const leaf : leaves)
        BOOST_REQUIRE(tree.forget(leaf, noon + 1h));
    BOOST_TEST(count() == 0U);
}

BOOST_AUTO_TEST_CASE(without_memory_no_key_is_added) {
    auto tree = tree_of("2/1s burst 2");
    auto const parent = tree.find(rate_tree::root(), "a").value();
    std::optional<tree_node> added;
    fail_each_allocation([&] { added = tree.add(parent); },
                         [&] { BOOST_TEST(tree.stats(parent, noon).keys == 0); });
    BOOST_TEST(tree.try_take(added.value(), 2, noon).has_value());
    BOOST_TEST(tree.stats(parent, noon).keys == 1);
}

BOOST_AUTO_TEST_CASE(without_memory_the_options_remain) {
    auto tree = tree_of("2/1s burst 2 most 4/1s burst 9");
    auto const leaves = all_keys(tree);
    for (auto const leaf : leaves)
        tree.take(leaf, 2, noon);
    auto const next = rate_tree_options::parse(
        "tree / 9000/2s burst 80000, /a 4000/1s burst 7000, "
        "/a/* 1/1s burst 2 most 3/2s burst 5 keys "
        "1000, /b 10/1s");
    auto const before = to_string(tree.options());
    fail_each_allocation([&] { tree.configure(next, noon); },
                         [&] {
                             BOOST_TEST_REQUIRE(before.size() == to_string(tree.options()).size());
                             BOOST_TEST_REQUIRE(!tree.find(rate_tree::root(), "b"));
                             BOOST_TEST_REQUIRE(tree.stats(leaves[7], noon).may_take == 7);
                         });
    BOOST_TEST(to_string(tree.options()) == to_string(next));
    BOOST_TEST(tree.find(rate_tree::root(), "b").has_value());
    BOOST_TEST(tree.stats(leaves[7], noon).may_take == 5);
    BOOST_TEST(tree.stats(leaves[7], noon).saved == 0);
}

BOOST_AUTO_TEST_CASE(without_memory_no_request_waits) {
    rate_tree_requests queue(rate_tree(
        rate_tree_options::parse("tree / 9/1s, /a 5/1s burst 2, /a/b 1/1s, /a/* most 1/1s")));
    auto const a = queue.tree().find(rate_tree::root(), "a").value();
    auto const b = queue.tree().find(a, "b").value();
    auto const key = queue.add(a).value();
    BOOST_TEST(queue.try_take(b, 1, noon).has_value());
    fail_each_allocation([&] { queue.push(b, 1, 1, noon); },
                         [&] {
                             BOOST_TEST(queue.size() == 0U);
                             BOOST_TEST(!queue.has_waiting(b));
                             BOOST_TEST(queue.next_at() == weir::never);
                         });
    fail_each_allocation([&] { queue.push(key, 1, 2, noon); },
                         [&] { BOOST_TEST(queue.size() == 1U); });
    auto const next =
        rate_tree_options::parse("tree / 8/1s, /a 5/1s burst 2, /a/b 1/1s, /a/* most 1/1s");
    fail_each_allocation([&] { queue.configure(next, noon); },
                         [&] { BOOST_TEST(queue.size() == 2U); });
    support::allocation_count const count;
    auto now = noon;
    for (int granted = 0; granted != 2; now = queue.next_at()) {
        while (queue.pop(now))
            ++granted;
    }
    BOOST_TEST(count() == 0U);
    BOOST_TEST(queue.next_at() == weir::never);
}

BOOST_AUTO_TEST_SUITE_END()
