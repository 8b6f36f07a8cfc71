#include "limiting/tree.hpp"
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

config::limit tree_of(std::string const& nodes, std::string const& queue = "") {
    auto c = limit_of("tree", "1/1s", queue);
    c.key = {{}};
    c.tree = weir::rate_tree_options::parse("tree " + nodes);
    return c;
}

// The limits of a route, one of them a tree with a leaf for each client.
struct route_with_tree {
    void add(config::limit const& c) {
        auto const ex = context.get_executor();
        support::test_world::place const place;
        if (c.tree)
            all.push_back(std::make_shared<test_tree>(ex, c, support::test_world::keys(), place));
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
        auto at = l.selection()->of(who);
        auto const names = l.names_of(who);
        at.names = &names;
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

// A request object may serve for many requests.
BOOST_FIXTURE_TEST_CASE(forgets_the_names_of_a_request, route_with_tree) {
    add(tree_of("/ 9/1h burst 9, /* most 9/1h burst 1", "patience 0s"));
    add(limit_of("quota", "9/1h fixed", "patience 0s"));
    test_gate const gate(all);
    visit one(gate, ann);
    for (auto const client : {bob, ann}) {
        one.entry.reset();
        BOOST_TEST(one.entry.names.empty());
        one.entry.who.client = client;
        BOOST_TEST(gate.enter_at_once(one.entry));
        BOOST_TEST(bool(one.entry.rejected.by) == (client == ann));
    }
}

BOOST_AUTO_TEST_SUITE_END()
