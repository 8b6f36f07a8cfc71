#include "limiting/tree.hpp"
#include "support/random.hpp"
#include "world.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using support::limit_of;
using support::test_gate;
using support::visit;
using test_tree = limiting::tree_limit<support::test_world>;

namespace {

// A time after which a request with the default patience no longer waits.
constexpr auto too_long = 1s + weir::queue_options().tolerance;

constexpr std::uint64_t ann = 1;
constexpr std::uint64_t bob = 2;

config::limit tree_of(std::string const& nodes, std::string const& queue = "",
                      std::string const& name = "tree") {
    auto c = limit_of(name, "1/1s", queue);
    c.key = {{}};
    c.tree = weir::rate_tree_options::parse("tree " + nodes);
    return c;
}

// The limits of a route, one of them a tree with a leaf for each client.
struct route_with_tree {
    void add(config::limit const& c, support::test_world::keys keys = {}) {
        auto const ex = context.get_executor();
        support::test_world::place const place;
        if (c.tree)
            all.push_back(std::make_shared<test_tree>(ex, c, keys, place));
        else
            all.push_back(std::make_shared<support::test_limit>(ex, c, place));
    }
    void pass(weir::duration d) { weir::testing::run_for(context, d); }
    [[nodiscard]] std::string order() const {
        std::string names;
        test_gate const gate(all);
        for (auto const& l : gate.all())
            names += l->configuration().name + ' ';
        return names;
    }
    // How many requests of a client one of the limits would grant now.
    [[nodiscard]] int left(std::size_t number, std::uint64_t client = ann) const {
        auto& l = *all[number];
        weir::error_code ignored;
        std::vector<weir::permit> taken;
        support::test_world::request_info const who{.client = client};
        auto const at = l.selection()->of(who);
        do
            taken.push_back(l.try_enter(who, at, ignored));
        while (taken.back());
        for (auto& permit : taken)
            permit.refund();
        return static_cast<int>(taken.size()) - 1;
    }

    boost::asio::io_context context;
    std::vector<std::shared_ptr<support::test_world::limit>> all;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(a_tree_beside_other_limits)

// Whichever limit rejects, the others keep what they have.
BOOST_AUTO_TEST_CASE(grants_with_them_or_not_at_all) {
    for (std::string const patience : {"patience 0s", "patience 1s"})
        for (std::size_t full = 0; full != 3; ++full) {
            BOOST_TEST_CONTEXT(patience << ", full: " << full) {
                route_with_tree l;
                l.add(limit_of("seats", full == 0 ? "1 seats" : "9 seats", patience));
                l.add(tree_of(full == 1 ? "/ 9/1h burst 9, /* most 9/1h burst 1"
                                        : "/ 9/1h burst 9, /* most 9/1h burst 9",
                              patience));
                l.add(limit_of("quota", full == 2 ? "1/1h fixed" : "9/1h fixed", patience));
                test_gate const gate(l.all);
                visit const first(gate, ann);
                BOOST_TEST(first.is_in());
                for (int i = 0; i != 3; ++i) {
                    visit next(gate, ann);
                    for (std::size_t other = 0; other != 3; ++other)
                        BOOST_TEST((other == full || l.left(other) == 8));
                    l.pass(too_long);
                    BOOST_TEST(next.rejected_by() == l.all[full]->configuration().name);
                    BOOST_TEST(next.entry.rejected.number == full);
                }
                for (std::size_t i = 0; i != 3; ++i)
                    BOOST_TEST(l.left(i) == (i == full ? 0 : 8));
            }
        }
}

BOOST_FIXTURE_TEST_CASE(takes_nothing_while_a_request_waits_for_a_seat, route_with_tree) {
    add(tree_of("/ 9/1h burst 9, /* most 9/1h burst 9"));
    add(limit_of("seats", "1 seats"));
    test_gate const gate(all);
    visit holder(gate, ann);
    visit waiter(gate, ann);
    pass(500ms);
    BOOST_TEST(waiter.waits());
    BOOST_TEST(left(0) == 8);
    holder.leave();
    pass(0s);
    BOOST_TEST(waiter.is_in());
    BOOST_TEST((waiter.entry.waited == 500ms));
    BOOST_TEST(left(0) == 7);
    BOOST_TEST(left(1) == 0);
}

// One client waits for its leaf. Another one needs no wait: it gets the seat.
BOOST_FIXTURE_TEST_CASE(leaves_the_seats_free_while_a_request_waits_for_it, route_with_tree) {
    add(limit_of("seats", "1 seats", "patience 5s"));
    add(tree_of("/ 100/1s burst 9, /* most 1/1s burst 1", "patience 5s"));
    test_gate const gate(all);
    visit first(gate, ann);
    first.leave();
    visit waiter(gate, ann);
    pass(500ms);
    BOOST_TEST(waiter.waits());
    visit other(gate, bob);
    BOOST_TEST(other.is_in());
    pass(1s);
    BOOST_TEST(waiter.waits());  // now for the seat
    other.leave();
    pass(0s);
    BOOST_TEST(waiter.is_in());
    BOOST_TEST((waiter.entry.waited == 1500ms));
}

BOOST_FIXTURE_TEST_CASE(is_part_of_their_chain, route_with_tree) {
    add(limit_of("last", "1/1h", "order lifo"));
    add(tree_of("/ 1/1h"));
    add(limit_of("rate", "1/1h"));
    BOOST_TEST(order() == "tree rate last ");
}

BOOST_FIXTURE_TEST_CASE(with_another_order_follows_them, route_with_tree) {
    add(tree_of("/ 9/1h burst 9, /* most 9/1h burst 1", "order lifo"));
    add(limit_of("rate", "9/1h fixed"));
    BOOST_TEST(order() == "rate tree ");
    test_gate const gate(all);
    visit const first(gate, ann);
    visit const other(gate, bob);
    BOOST_TEST(first.is_in());
    BOOST_TEST(other.is_in());
    visit const waiter(gate, ann);
    BOOST_TEST(waiter.waits());
    BOOST_TEST(waiter.entry.passed == 1u);
    pass(too_long);
    BOOST_TEST(waiter.rejected_by() == "tree");
    BOOST_TEST(left(1) == 7);
}

BOOST_FIXTURE_TEST_CASE(takes_its_own_cost, route_with_tree) {
    add(tree_of("/ 9/1h burst 9, /* most 9/1h burst 9", "patience 0s"));
    add(limit_of("quota", "9/1h fixed", "patience 0s"));
    test_gate const gate(all, {{"tree", 4}});
    visit const first(gate, ann);
    visit const second(gate, ann);
    BOOST_TEST(second.is_in());
    BOOST_TEST(visit(gate, ann).rejected_by() == "tree");
    BOOST_TEST(left(0) == 1);
    BOOST_TEST(left(1) == 7);
}

// As after a server without a free seat.
BOOST_FIXTURE_TEST_CASE(takes_of_the_same_leaf_again, route_with_tree) {
    add(tree_of("/ 9/1h burst 9, /* most 9/1h burst 1", "patience 0s"));
    add(limit_of("seats", "1 seats", "patience 0s"));
    test_gate const gate(all);
    visit one(gate, ann);
    one.entry.start_again();
    BOOST_TEST(left(0) == 1);
    weir::error_code ec;
    weir::any_chain_permit permit;
    gate.wait_for_chain(one.entry, [&](weir::error_code found, weir::any_chain_permit p) {
        ec = found;
        permit = std::move(p);
    });
    pass(0s);
    BOOST_TEST(gate.decide(one.entry, ec, permit));
    BOOST_TEST(left(0, ann) == 0);
    BOOST_TEST(left(0, bob) == 1);
}

BOOST_FIXTURE_TEST_CASE(that_has_no_place_for_a_key_rejects, route_with_tree) {
    add(limit_of("seats", "9 seats", "patience 0s"));
    add(tree_of("max_keys 1 / 9/1h burst 9, /* most 9/1h burst 9", "patience 0s"));
    test_gate const gate(all);
    visit const first(gate, ann);
    visit const other(gate, bob);
    BOOST_TEST(other.rejected_by() == "tree");
    BOOST_TEST((other.entry.rejected.ec == weir::errc::too_many_keys));
    BOOST_TEST(left(0) == 8);
}

BOOST_FIXTURE_TEST_CASE(as_a_dry_run_only_counts, route_with_tree) {
    add(limit_of("seats", "9 seats"));
    auto dry_run = tree_of("/ 9/1h burst 9, /* most 9/1h burst 1");
    dry_run.dry_run = true;
    add(dry_run);
    test_gate const gate(all);
    for (auto const client : {ann, ann, bob, ann, bob})
        BOOST_TEST(visit(gate, client).is_in());
    BOOST_TEST(all[1]->stats().granted == 2u);
}

namespace {

constexpr support::test_world::keys hundreds{.by_hundred = true};

}  // namespace

// Each tree has its own names of a request: a client, and its hundred of clients.
BOOST_FIXTURE_TEST_CASE(beside_a_tree_with_another_key_grants_with_it_or_not_at_all,
                        route_with_tree) {
    add(tree_of("/ 99/1h burst 99, /* most 9/1h burst 2", "patience 0s", "clients"));
    add(tree_of("/ 99/1h burst 99, /101 most 9/1h burst 9, /* most 9/1h burst 3", "patience 0s",
                "hundreds"),
        hundreds);
    test_gate const gate(all);
    auto const rejected_by = [&](std::uint64_t client) {
        return visit(gate, client).rejected_by();
    };
    BOOST_TEST(rejected_by(101) == "");
    BOOST_TEST(rejected_by(101) == "");
    for (int i = 0; i != 3; ++i)
        BOOST_TEST(rejected_by(101) == "clients");
    BOOST_TEST(left(1, 102) == 1);  // these took nothing
    BOOST_TEST(rejected_by(102) == "");
    for (int i = 0; i != 3; ++i)
        BOOST_TEST(rejected_by(102) == "hundreds");
    BOOST_TEST(left(0, 102) == 1);
    BOOST_TEST(left(0, 103) == 2);
    BOOST_TEST(rejected_by(201) == "");
    BOOST_TEST(left(1, 299) == 2);
    BOOST_TEST(left(1, 10'100) == 9);  // the node that the options name
    // Requests are counted by the nodes of each tree.
    BOOST_TEST((visit(gate, 10'100).entry.at[1].by != visit(gate, 202).entry.at[1].by));
}

BOOST_FIXTURE_TEST_CASE(beside_a_tree_with_another_key_takes_nothing_while_a_request_waits,
                        route_with_tree) {
    add(tree_of("/ 99/1h burst 99, /* most 1/1s burst 1", "patience 9s", "clients"));
    add(tree_of("/ 99/1h burst 99, /* most 1/4s burst 2", "patience 9s", "hundreds"), hundreds);
    test_gate const gate(all);
    BOOST_TEST(visit(gate, 101).is_in());
    visit const for_a_client(gate, 101);
    BOOST_TEST(for_a_client.waits());
    BOOST_TEST(left(1, 102) == 1);
    visit const another(gate, 102);  // overtakes it
    BOOST_TEST(another.is_in());
    pass(2s);
    BOOST_TEST(for_a_client.waits());  // now for the hundred
    BOOST_TEST(left(0, 101) == 1);
    BOOST_TEST(left(1, 299) == 2);
    pass(2s);
    BOOST_TEST(for_a_client.is_in());
    BOOST_TEST((for_a_client.entry.waited == 4s));
    BOOST_TEST(left(0, 101) == 0);
    BOOST_TEST(left(1, 101) == 0);
}

// The oracle: the same trees alone. The gate grants a request if each of them does; otherwise they get it back.
BOOST_AUTO_TEST_CASE(beside_a_tree_with_another_key_decides_like_both_alone) {
    int granted = 0;
    support::for_each_seed(1, 100, [&](support::random_source& random) {
        auto const shares = [&] {
            auto const some = [&](int least, int most) {
                return std::to_string(random.between(least, most));
            };
            return "/ " + some(1, 40) + "/1s burst " + some(2, 9) + ", /1 1/1s burst 1 most " +
                   some(1, 9) + "/1s burst " + some(2, 5) + ", /* most " + some(1, 9) +
                   "/1s burst " + some(1, 5);
        };
        auto const clients = tree_of(shares(), "patience 0s", "clients");
        auto const groups = tree_of(shares(), "patience 0s", "hundreds");
        route_with_tree both;
        both.add(clients);
        both.add(groups, hundreds);
        test_gate const gate(both.all);
        // On the same clock.
        weir::rate_tree_options const alone[] = {*clients.tree, *groups.tree};
        std::vector<
            weir::basic_rate_tree<support::test_world::executor, support::test_world::timer>>
            trees;
        trees.reserve(2);
        for (auto const& options : alone)
            trees.emplace_back(both.context.get_executor(), options);
        for (int i = 0; i != 300; ++i) {
            auto const client =
                static_cast<std::uint64_t>(random.between(0, 2) * 100 + random.between(0, 3));
            std::string const names[] = {std::to_string(client), std::to_string(client / 100)};
            std::vector<weir::permit> permits;
            bool is_granted = true;
            for (std::size_t n = 0; n != 2; ++n) {
                permits.push_back(trees[n].try_enter({names[n]}));
                is_granted = is_granted && permits.back();
            }
            visit const seen(gate, client);
            BOOST_TEST_REQUIRE(seen.is_in() == is_granted);
            granted += is_granted;
            // If both reject it, the gate names either.
            for (std::size_t n = 0; n != 2; ++n)
                BOOST_TEST_REQUIRE(
                    (seen.rejected_by() != both.all[n]->configuration().name || !permits[n]));
            for (auto& permit : permits)
                is_granted ? permit.leave() : permit.refund();
            both.pass(weir::duration(random.between(0, 60'000'000)));
        }
    });
    BOOST_TEST(granted > 100);
}

// A request object may serve for many requests.
BOOST_FIXTURE_TEST_CASE(selects_the_leaf_of_each_request, route_with_tree) {
    add(tree_of("/ 9/1h burst 9, /* most 9/1h burst 1", "patience 0s"));
    add(limit_of("quota", "9/1h fixed", "patience 0s"));
    test_gate const gate(all);
    visit one(gate, ann);
    for (auto const client : {bob, ann}) {
        one.entry.reset();
        one.entry.who.client = client;
        BOOST_TEST(gate.enter_at_once(one.entry));
        BOOST_TEST(bool(one.entry.rejected.by) == (client == ann));
    }
}

BOOST_AUTO_TEST_SUITE_END()
