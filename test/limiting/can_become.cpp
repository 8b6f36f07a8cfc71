#include "limiting/limit.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <tuple>

using namespace std::chrono_literals;
using config::limit;
using limiting::can_become;

namespace {

// Does not compile with another number of members: a new member needs a row in the table of `each_member`.
constexpr std::size_t members = 25;
[[maybe_unused]] void count_members(limit const& l) {
    auto const& [name, rule, is_unlimited, tree, key, v4_prefix, v6_prefix, max_keys, max_memory,
                 evict_within, when_full, overrides, byte_overrides, queue, priority, weights,
                 dry_run, cost, count, store, shared_as, prefetch, timeout, on_failure, bandwidth] =
        l;
    static_assert(
        std::tuple_size_v<decltype(std::tie(
            name, rule, is_unlimited, tree, key, v4_prefix, v6_prefix, max_keys, max_memory,
            evict_within, when_full, overrides, byte_overrides, queue, priority, weights, dry_run,
            cost, count, store, shared_as, prefetch, timeout, on_failure, bandwidth))> == members);
}

enum class after : bool { begins_anew, goes_on };

struct change {
    char const* member;
    after then;
    std::function<void(limit&)> make;
};

limit of(std::string const& rule, std::string const& queue = "") {
    limit l;
    l.name = "api";
    l.rule = config::rule_of(rule);
    l.queue = config::queue_of(queue, limit::default_patience);
    return l;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_limit)

BOOST_AUTO_TEST_CASE(can_become_itself) {
    BOOST_TEST(can_become(of("10/1s"), of("10/1s")));
}

// Members that the constructor of a limiter uses are fixed; all other members can be changed in place.
BOOST_AUTO_TEST_CASE(each_member) {
    std::array<change, members> const changes{{
        {"name", after::begins_anew, [](limit& l) { l.name = "other"; }},
        {"rule", after::goes_on, [](limit& l) { l.rule = config::rule_of("11/1s"); }},
        {"key", after::begins_anew, [](limit& l) { l.key = {{}}; }},
        {"v4_prefix", after::begins_anew, [](limit& l) { l.v4_prefix = 24; }},
        {"v6_prefix", after::begins_anew, [](limit& l) { l.v6_prefix = 56; }},
        {"max_memory", after::begins_anew, [](limit& l) { ++l.max_memory; }},
        {"tree", after::begins_anew, [](limit& l) { l.tree.emplace(); }},
        {"is_unlimited", after::goes_on, [](limit& l) { l.is_unlimited = true; }},
        {"max_keys", after::begins_anew, [](limit& l) { ++l.max_keys; }},
        {"evict_within", after::begins_anew, [](limit& l) { l.evict_within = 1s; }},
        {"when_full", after::begins_anew,
         [](limit& l) { l.when_full = config::full_of_keys::reject; }},
        {"overrides", after::goes_on,
         [](limit& l) { l.overrides.emplace_back("10.0.0.1", config::rule_of("20/1s")); }},
        {"byte_overrides", after::goes_on,
         [](limit& l) { l.byte_overrides.emplace_back("10.0.0.1", config::bandwidth()); }},
        {"queue", after::goes_on, [](limit& l) { l.queue.max_waiting = 7; }},
        {"priority", after::begins_anew, [](limit& l) { l.priority = "Priority"; }},
        {"weights", after::begins_anew, [](limit& l) { l.weights.emplace_back("10.0.0.1", 2); }},
        {"dry_run", after::goes_on, [](limit& l) { l.dry_run = true; }},
        {"cost", after::goes_on, [](limit& l) { l.cost.number = 2; }},
        {"count", after::goes_on, [](limit& l) { l.count = {{401, 401}}; }},
        {"store", after::begins_anew, [](limit& l) { l.store = "store"; }},
        {"shared_as", after::begins_anew, [](limit& l) { l.shared_as = "other"; }},
        {"prefetch", after::goes_on, [](limit& l) { l.prefetch = 5; }},
        {"timeout", after::goes_on, [](limit& l) { l.timeout = 1s; }},
        {"on_failure", after::goes_on, [](limit& l) { l.on_failure = weir::fail_open(); }},
        {"bandwidth", after::goes_on, [](limit& l) { l.bandwidth.emplace(); }},
    }};
    std::set<std::string> names;
    for (auto const& one : changes) {
        names.insert(one.member);
        auto const before = of("10/1s");
        auto changed = before;
        one.make(changed);
        BOOST_TEST_CONTEXT(one.member) {
            bool const goes_on = one.then == after::goes_on;
            BOOST_TEST(can_become(before, changed) == goes_on);
            BOOST_TEST(can_become(changed, before) == goes_on);
        }
    }
    BOOST_TEST(names.size() == members);
}

BOOST_AUTO_TEST_CASE(keeps_its_kind) {
    for (std::string const rule :
         {"3 seats", "3 seats rest 2s", "4 knee", "20 vegas", "10/60s", "10/60s sliding",
          "10/60s fixed", "10/day", "10/1s bucket", "10/1s leaky", "10/1s & 100/1min"}) {
        BOOST_TEST_CONTEXT(rule) {
            BOOST_TEST(can_become(of(rule), of(rule)));
            BOOST_TEST(!can_become(of(rule), of("7/7s warming")));
            BOOST_TEST(!can_become(of("7/7s warming"), of(rule)));
        }
    }
    BOOST_TEST(!can_become(of("10/1s & 100/1min"), of("10/1s & 100/1min bucket")));
    BOOST_TEST(!can_become(of("10/1s & 100/1min"), of("10/1s & 100/1min & 1000/1h")));
}

// A queue of some orders cannot be part of a chain, and `fair` needs the clients of all its requests.
BOOST_AUTO_TEST_CASE(may_change_its_order_if_it_stays_in_its_chain_and_fair) {
    std::array const orders{"fifo", "lifo", "adaptive_lifo", "codel", "priority", "fair"};
    auto const needs = [](std::string const& order) {
        return order == "fifo" || order == "priority" ? 0 : order == "fair" ? 1 : 2;
    };
    for (std::string const before : orders)
        for (std::string const now : orders)
            BOOST_TEST_CONTEXT(before << " to " << now) {
                bool const goes_on =
                    can_become(of("10/1s", "order " + before), of("10/1s", "order " + now));
                BOOST_TEST(goes_on == (needs(before) == needs(now)));
            }
}

BOOST_AUTO_TEST_CASE(can_be_chained_without_a_store_and_with_orders_that_chains_obey) {
    BOOST_TEST(limiting::can_be_chained(of("10/1s")));
    for (auto const* const order : {"order fifo", "order priority", "order fair"})
        BOOST_TEST(limiting::can_be_chained(of("10/1s", order)));
    for (auto const* const order : {"order lifo", "order adaptive_lifo", "order codel"})
        BOOST_TEST(!limiting::can_be_chained(of("10/1s", order)));
    auto tree = of("10/1s");
    tree.tree = weir::rate_tree_options::parse("tree / 10/1s");
    BOOST_TEST(limiting::can_be_chained(tree));
    auto at_a_store = of("10/1s");
    at_a_store.store = "store";
    BOOST_TEST(!limiting::can_be_chained(at_a_store));
}

BOOST_AUTO_TEST_SUITE_END()
