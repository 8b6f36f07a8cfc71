#include <weir/policy/rate_tree.hpp>
#include <weir/policy/token_bucket.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/rate_tree_world.hpp"
#include "support/says.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using support::number_of_trees;
using support::random_source;
using support::rate_tree_maker;
using support::rate_tree_world;
using support::says;
using weir::amount;
using weir::duration;
using weir::max_amount;
using weir::rate;
using weir::rate_tree_node;
using weir::rate_tree_options;
using weir::time_point;
using weir::policy::rate_tree;
using weir::policy::token_bucket;
using weir::policy::tree_node;

BOOST_AUTO_TEST_SUITE(rate_tree_)

namespace {

constexpr time_point noon{12h};

rate_tree parse(std::string_view text) {
    return rate_tree(rate_tree_options::parse(text));
}
tree_node at(rate_tree const& tree, std::vector<std::string> const& names) {
    auto node = rate_tree::root();
    for (auto const& name : names)
        node = tree.find(node, name).value();
    return node;
}
bool try_take(rate_tree& tree, tree_node leaf, amount n, time_point now) {
    return tree.try_take(leaf, n, now).has_value();
}

std::int64_t some_pause(random_source& random) {
    return random.one_in(30)  ? random.between(0, 400)
           : random.one_in(3) ? random.between(0, 20)
                              : random.between(0, 2);
}
amount some_count(random_source& random, amount most) {
    return random.one_in(2) ? 1 : random.between(1, std::max<amount>(most + (most < 9), 1));
}

// Requests, refunds, charges and forgotten keys at random.
void play(rate_tree_world& world, random_source& random, int steps, bool charges) {
    std::vector<rate_tree_world::grant> grants;
    for (int i = 0; i != steps; ++i) {
        world.pass(some_pause(random));
        auto const leaf = world.some_leaf(random);
        auto const most = world.tree.capacity(world.node(leaf));
        if (charges && random.one_in(60)) {
            grants.push_back(world.charge(leaf, random.between(1, 12)));
        } else if (!grants.empty() && random.one_in(8)) {
            auto& g = grants[random.index_in(grants)];
            auto const n = random.between(1, g.count);
            world.refund(g, n);
            g.count -= n;
            if (g.count == 0)
                std::erase_if(grants, [](auto const& one) { return one.count == 0; });
        } else if (random.one_in(40)) {
            world.check_ready_at(leaf, random.between(1, most));
        } else if (random.one_in(20)) {
            auto const key = random.index_in(world.oracle.nodes());
            if (std::ranges::none_of(grants, [&](auto const& g) { return g.leaf == key; }))
                world.forget(key);
        } else if (auto const g = world.ask(leaf, some_count(random, most))) {
            grants.push_back(*g);
        }
        world.check_levels();
    }
}

// A separate bucket for a rate: it has a permit for each one that is granted within the rate.
token_bucket bucket(rate const& r, amount burst) {
    token_bucket made({.rate = r, .burst = burst});
    made.begin(noon);
    return made;
}
bool has(token_bucket const& b, amount n, time_point now) {
    return n <= b.capacity() && b.ready_at(n, 0, now) <= now;
}

}  // namespace

// ---- Against the oracle

BOOST_AUTO_TEST_CASE(it_decides_as_its_words_at_every_nanosecond) {
    support::for_each_seed(1, number_of_trees(), [](random_source& random) {
        rate_tree_world world(rate_tree_maker(random).make(), noon);
        play(world, random, 250, random.one_in(2));
    });
}

BOOST_AUTO_TEST_CASE(other_options_keep_what_the_kept_nodes_have) {
    int changed = 0;
    support::for_each_seed(1, number_of_trees(), [&](random_source& random) {
        rate_tree_world world(rate_tree_maker(random).make(), noon);
        for (int i = 0; i != 6; ++i) {
            play(world, random, 30, random.one_in(3));
            auto const before = world.tree.options();
            try {
                world.configure(rate_tree_maker(random).make());
                ++changed;
            } catch (std::invalid_argument const&) {
                BOOST_TEST(to_string(world.tree.options()) == to_string(before));
            }
            world.check_levels();
        }
    });
    BOOST_TEST(changed > 0);
}

// ---- Guarantees

// A separate token bucket for each leaf with a least: the tree grants what it has, at once. Another one for the root
// and for each node with a most: it has the permits for each grant below.
BOOST_AUTO_TEST_CASE(it_keeps_what_it_guarantees) {
    std::int64_t own_grants = 0;
    std::int64_t borrowed = 0;
    support::for_each_seed(1, number_of_trees(), [&](random_source& random) {
        rate_tree_world world(rate_tree_maker(random).make(), noon);
        auto const& nodes = world.oracle.nodes();
        auto const& options = world.tree.options().nodes;
        std::vector<std::optional<token_bucket>> least(nodes.size());
        std::vector<std::optional<token_bucket>> most(nodes.size());
        for (std::size_t i = 0; i != nodes.size(); ++i) {
            auto const& o = *std::ranges::find(options, nodes[i].path, &rate_tree_node::path);
            if (o.least && (world.oracle.is_leaf(i)))
                least[i] = bucket(*o.least, *o.burst);
            if (o.most)
                most[i] = bucket(*o.most, *o.most_burst);
            if (i == 0)
                most[i] = bucket(*o.least, *o.burst);
        }
        for (int step = 0; step != 300; ++step) {
            world.pass(some_pause(random));
            auto const leaf = world.some_leaf(random);
            auto const n = some_count(random, world.tree.capacity(world.node(leaf)));
            bool const is_due = least[leaf] && has(*least[leaf], n, world.now);
            auto const granted = world.ask(leaf, n);
            if (is_due) {
                BOOST_TEST_REQUIRE(granted.has_value());
                least[leaf]->take(n, world.now);
                ++own_grants;
            }
            if (!granted)
                continue;
            borrowed += granted->ticket != 0;
            for (auto i = leaf;; i = nodes[i].parent) {
                if (most[i]) {
                    BOOST_TEST_REQUIRE(has(*most[i], n, world.now));
                    most[i]->take(n, world.now);
                }
                if (i == 0)
                    break;
            }
        }
    });
    BOOST_TEST(own_grants > 0);
    BOOST_TEST(borrowed > 0);
}

// No most limits the waiting request. So the node gets its least, less one request and what its children had saved.
BOOST_AUTO_TEST_CASE(an_inner_node_gets_its_least_while_a_request_below_it_waits) {
    support::for_each_seed(1, number_of_trees() / 10 + 1, [](random_source& random) {
        auto const burst = random.between(1, 4);
        rate_tree_world world(
            {{{.path = "/", .least = rate(9, 10ns), .burst = burst + 12},
              {.path = "/a", .least = rate(3, 10ns), .burst = burst + 4},
              {.path = "/a/x", .least = rate(1, 10ns), .burst = burst},
              {.path = "/a/y", .most = rate(1, 1ns), .most_burst = 100},
              {.path = "/b", .most = rate(1, 1ns), .most_burst = 100}}},
            noon);
        auto const find = [&](std::string const& path) {
            return static_cast<std::size_t>(
                std::ranges::find(world.oracle.nodes(), path,
                                  &support::rate_tree_oracle::node::path) -
                world.oracle.nodes().begin());
        };
        auto const n = random.between(1, 4);
        auto const waiting = find("/a/y");
        amount granted = 0;
        for (std::int64_t t = 0; t != 2'000; ++t) {
            if (random.one_in(2))
                static_cast<void>(world.ask(find("/b"), random.between(1, 6)));
            if (random.one_in(9) && world.ask(find("/a/x"), 1))
                ++granted;
            while (world.ask(waiting, n))
                granted += n;
            BOOST_TEST_REQUIRE(10 * (granted + n + burst) > 3 * t);
            world.pass(1);
        }
    });
}

BOOST_AUTO_TEST_CASE(what_a_child_leaves_is_lent_once_its_burst_is_full) {
    auto tree = parse("tree / 100/1s burst 22, /a 60/1s burst 10, /b 40/1s burst 10");
    auto const a = at(tree, {"a"});
    auto const b = at(tree, {"b"});
    for (int i = 0; i != 10; ++i)
        BOOST_TEST(try_take(tree, a, 1, noon));
    // The root lends its own two permits. `b` remains full, so `a` gets all permits that come.
    amount granted = 0;
    auto now = noon;
    for (; now < noon + 10s; granted += 1) {
        now = tree.ready_at(a, 1, now);
        tree.take(a, 1, now);
    }
    BOOST_TEST(granted >= 1'000);
    BOOST_TEST(granted <= 1'003);
    // `b` still has its saved permits.
    BOOST_TEST(tree.stats(b, now).saved == 10);
    BOOST_TEST(try_take(tree, b, 10, now));
}

// ---- Mistakes of hierarchical token buckets

BOOST_AUTO_TEST_CASE(children_with_saved_permits_do_not_exceed_the_root) {
    std::string text = "tree / 100/1s burst 101";
    for (auto const* name : {"a", "b", "c", "d"})
        text.append(", /").append(name).append(" 25/1s burst 25");
    support::for_each_seed(1, 20, [&](random_source& random) {
        auto tree = parse(text);
        auto root = bucket(rate(100, 1s), 101);
        auto now = noon;
        for (int i = 0; i != 3'000; ++i) {
            now += random.one_in(50) ? duration(1s) : duration(random.between(0, 20'000'000));
            std::string const name(1, static_cast<char>('a' + random.between(0, 3)));
            auto const leaf = at(tree, {name});
            for (auto n = random.between(1, 30); n != 0 && try_take(tree, leaf, 1, now); --n) {
                BOOST_TEST_REQUIRE(has(root, 1, now));
                root.take(1, now);
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(shares_beyond_the_rate_of_the_parent_are_rejected) {
    BOOST_CHECK_EXCEPTION(
        parse("tree / 100/1s burst 101, /a 40/1s burst 10, /b 40/1s burst 10, /c 40/1s burst 10"),
        std::invalid_argument,
        says("weir::rate_tree: least of / is 100/1s, but must be at least 120/1s, the sum of its "
             "children"));
}

BOOST_AUTO_TEST_CASE(a_debt_is_paid_in_full) {
    auto tree = parse("tree / 100/1s burst 41, /a 25/1s burst 20, /b 25/1s burst 20");
    auto const a = at(tree, {"a"});
    auto const b = at(tree, {"b"});
    auto const charged = tree.take(a, 100'020, noon);
    BOOST_TEST(tree.stats(a, noon).debt == 100'000);
    BOOST_TEST(tree.remaining(a, noon) == 0);
    BOOST_TEST(tree.ready_at(a, 1, noon) ==
               noon + 4'000s);  // it borrows as soon as it owes nothing
    // The debt touches neither the saved permits of others nor their loans.
    BOOST_TEST(try_take(tree, b, 20, noon));
    BOOST_TEST(try_take(tree, b, 1, noon));
    BOOST_TEST(tree.refund(a, 100'020, charged, noon));
    BOOST_TEST(tree.remaining(a, noon) == 20);
}

// ---- Waiting times

BOOST_AUTO_TEST_CASE(ready_at_of_many_children_is_never_too_early) {
    for (amount const keys : {amount{20}, amount{60}, amount{200}}) {
        rate_tree_world world(
            {{{.path = "/", .least = rate(keys + 1, duration(10 * keys)), .burst = 3 * keys + 50},
              {.path = "/b", .most = rate(1, 1ns), .most_burst = 100},
              {.path = "/*", .least = rate(1, duration(10 * keys)), .burst = 3, .keys = keys}}},
            noon);
        auto const& nodes = world.oracle.nodes();
        for (std::size_t i = 2; i != nodes.size(); ++i) {
            world.charge(i, 3);
            world.pass(static_cast<std::int64_t>(i % 17));
        }
        while (world.ask(1, 1))
            continue;
        if (keys <= 60) {
            for (amount n = 1; n <= 50; n += 7)
                world.check_ready_at(1, n);
            continue;
        }
        // More children than the walk looks at.
        auto const told = world.tree.ready_at(world.node(1), 50, world.now);
        BOOST_TEST(told > world.now);
        BOOST_TEST(told <= world.now + duration(10 * keys * (3 * keys + 50)));
        world.pass((told - world.now).count());
        BOOST_TEST(world.oracle.grantor(1, 50).has_value());
        BOOST_TEST(world.tree.ready_at(world.node(1), 50, world.now) == world.now);
    }
}

BOOST_AUTO_TEST_CASE(the_largest_numbers_do_not_overflow) {
    for (auto const now : {time_point::min(), noon, time_point::max() - 2ns}) {
        rate_tree tree({{{.path = "/", .least = rate(2, 1h), .burst = max_amount},
                         {.path = "/a", .least = rate(1, 1h), .burst = max_amount / 2},
                         {.path = "/b", .most = rate(1, 1ns), .most_burst = max_amount}}});
        auto const a = at(tree, {"a"});
        auto const b = at(tree, {"b"});
        BOOST_TEST(tree.capacity(a) == max_amount / 2);
        for (int i = 0; i != 4; ++i) {
            tree.take(a, max_amount, now);
            tree.take(b, max_amount, now);
        }
        BOOST_TEST(tree.stats(a, now).debt == max_amount);
        BOOST_TEST(tree.ready_at(a, 1, now) == weir::never);
        BOOST_TEST(tree.ready_at(b, 1, now) == weir::never);
        BOOST_TEST(tree.remaining(b, now) == 0);
    }
    // Nanoseconds and a year have no common multiple that is too large.
    auto tree = parse("tree / 1/1ns burst 1000, /a 1/8760h burst 1");
    BOOST_TEST(try_take(tree, at(tree, {"a"}), 1, noon));
    BOOST_TEST(tree.ready_at(at(tree, {"a"}), 1, noon) == noon);
}

// ---- Nodes

BOOST_AUTO_TEST_CASE(keys_are_added_and_forgotten) {
    auto tree = parse("tree / 10/1s burst 5, /* most 1/1s burst 2 keys 2, /*/* most 1/1s keys 1");
    auto const root = rate_tree::root();
    BOOST_TEST(!tree.is_leaf(root));
    auto const first = tree.add(root).value();
    auto const second = tree.add(root).value();
    BOOST_TEST((first != second));
    BOOST_TEST(!tree.add(root));
    BOOST_TEST(tree.stats(root, noon).keys == 2);
    auto const below = tree.add(second).value();
    BOOST_TEST(!tree.add(second));
    BOOST_TEST(tree.is_leaf(below));
    BOOST_TEST(!tree.add(below));

    BOOST_TEST(!tree.forget(second, noon));  // it has a key below it
    BOOST_TEST(try_take(tree, below, 1, noon));
    BOOST_TEST(!tree.forget(below, noon));
    BOOST_TEST(!tree.forget(below, noon + 999'999'999ns));
    BOOST_TEST(tree.forget(below, noon + 1s));
    BOOST_TEST(tree.forget(second, noon + 1s));
    BOOST_TEST(tree.forget(first, noon + 1s));
    auto const again = tree.add(root).value();
    BOOST_TEST(tree.remaining(tree.add(again).value(), noon + 1s) == 1);
}

BOOST_AUTO_TEST_CASE(a_tree_of_one_node_is_a_token_bucket) {
    auto tree = parse("tree / 3/7s burst 4");
    auto other = bucket(rate(3, 7s), 4);
    auto now = noon;
    for (int i = 0; i != 1'000; ++i) {
        auto const ready = tree.ready_at(rate_tree::root(), 1 + i % 4, now);
        BOOST_TEST_REQUIRE(ready == other.ready_at(1 + i % 4, 0, now));
        now = ready + duration(i % 3 * 1'000'000'000);
        tree.take(rate_tree::root(), 1 + i % 4, now);
        other.take(1 + i % 4, now);
    }
}

BOOST_AUTO_TEST_SUITE_END()
