#pragma once

#include <weir/policy/rate_tree.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/time.hpp>

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/rate_tree_maker.hpp"
#include "support/rate_tree_oracle.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace support {

/// Returns how many random trees a test makes: WEIR_TREES of them, or 500.
[[nodiscard]] inline std::uint64_t number_of_trees() {
    auto const* const wanted = std::getenv("WEIR_TREES");
    return wanted ? std::stoull(wanted) : 500;
}

/// A tree beside its oracle: each call goes to both, and checks that they agree.
class rate_tree_world {
public:
    rate_tree_world(weir::rate_tree_options const& options, weir::time_point start)
        : tree(options), oracle(options), now(start), nodes_(oracle.nodes().size()) {
        find_named(0, weir::policy::rate_tree::root());
    }

    struct grant {
        std::size_t leaf;
        weir::amount count;
        weir::ticket ticket;
        std::size_t from;  // in the oracle
    };

    void pass(std::int64_t nanoseconds) {
        oracle.pass(nanoseconds);
        now += weir::duration(nanoseconds);
    }

    /// Returns the node of the tree; adds it and the keys above it if it is new.
    weir::policy::tree_node node(std::size_t i) {
        if (!nodes_[i]) {
            auto const above = node(oracle.nodes()[i].parent);
            nodes_[i] = tree.add(above);
            BOOST_TEST_REQUIRE(nodes_[i].has_value());
            oracle.nodes()[i].is_added = true;
        }
        return *nodes_[i];
    }
    [[nodiscard]] std::size_t some_leaf(random_source& random) const {
        for (;;) {
            auto const i = random.index_in(oracle.nodes());
            if (oracle.is_leaf(i))
                return i;
        }
    }

    /// Takes the permits if they are free.
    std::optional<grant> ask(std::size_t leaf, weir::amount n) {
        auto const at = node(leaf);
        auto const from = oracle.grantor(leaf, n);
        bool const is_ready = n <= tree.capacity(at) && tree.ready_at(at, n, now) <= now;
        BOOST_TEST_REQUIRE(is_ready == from.has_value());
        BOOST_TEST_REQUIRE((tree.remaining(at, now) >= n) == is_ready);
        auto const taken = tree.try_take(at, n, now);
        BOOST_TEST_REQUIRE(taken.has_value() == is_ready);
        if (!is_ready)
            return {};
        oracle.take(leaf, n, *from);
        BOOST_TEST_REQUIRE(*taken == oracle.levels(leaf, *from));
        return grant{leaf, n, *taken, *from};
    }
    /// Takes the permits even if they are not free.
    grant charge(std::size_t leaf, weir::amount n) {
        auto const from = oracle.grantor(leaf, n).value_or(oracle.debtor(leaf));
        oracle.take(leaf, n, from);
        auto const taken = tree.take(node(leaf), n, now);
        BOOST_TEST_REQUIRE(taken == oracle.levels(leaf, from));
        return {leaf, n, taken, from};
    }
    void refund(grant const& g, weir::amount n) {
        tree.refund(node(g.leaf), n, g.ticket, now);
        oracle.put_back(g.leaf, n, g.from);
    }
    void forget(std::size_t i) {
        if (!nodes_[i] || !oracle.nodes()[i].path.ends_with('*'))
            return;
        bool const is_forgotten = tree.forget(*nodes_[i], now);
        BOOST_TEST_REQUIRE(is_forgotten == oracle.is_like_new(i));
        if (is_forgotten) {
            nodes_[i].reset();
            oracle.nodes()[i].is_added = false;
        }
    }
    void configure(weir::rate_tree_options const& options) {
        tree.configure(options, now);
        rate_tree_oracle next(options);
        next.take_over(oracle);
        std::vector<std::optional<weir::policy::tree_node>> kept(next.nodes().size());
        for (std::size_t i = 0; i != kept.size(); ++i) {
            for (std::size_t old = 0; old != nodes_.size(); ++old) {
                if (is_same(next, i, oracle, old))
                    kept[i] = nodes_[old];
            }
        }
        oracle = std::move(next);
        nodes_ = std::move(kept);
        find_named(0, weir::policy::rate_tree::root());
    }

    void check_levels() {
        for (std::size_t i = 0; i != nodes_.size(); ++i) {
            if (!nodes_[i])
                continue;
            auto const& n = oracle.nodes()[i];
            auto const stats = tree.stats(*nodes_[i], now);
            BOOST_TEST_CONTEXT("node " << n.path) {
                BOOST_TEST_REQUIRE(stats.saved == oracle.permits(n.least));
                BOOST_TEST_REQUIRE(
                    stats.may_take == (n.most ? oracle.permits(n.most) : weir::max_amount));
                BOOST_TEST_REQUIRE(stats.debt == oracle.debt(i));
                if (oracle.is_leaf(i))
                    BOOST_TEST_REQUIRE(tree.capacity(*nodes_[i]) == oracle.most_at_once(i));
            }
        }
    }
    /// Compares `ready_at` with a search nanosecond by nanosecond, and checks that the permits remain free.
    void check_ready_at(std::size_t leaf, weir::amount n) {
        auto const told = tree.ready_at(node(leaf), n, now);
        auto ahead = oracle;
        auto at = now;
        for (; !ahead.grantor(leaf, n); at += weir::duration(1))
            ahead.pass(1);
        BOOST_TEST_REQUIRE(told == at);
        for (int i = 0; i != 40; ++i) {
            ahead.pass(1);
            BOOST_TEST_REQUIRE(ahead.grantor(leaf, n).has_value());
        }
    }

    weir::policy::rate_tree tree;
    rate_tree_oracle oracle;
    weir::time_point now;

private:
    void find_named(std::size_t i, weir::policy::tree_node at) {
        nodes_[i] = at;
        oracle.nodes()[i].is_added = true;
        for (auto c : oracle.nodes()[i].children) {
            auto const& path = oracle.nodes()[c].path;
            if (auto const found = tree.find(at, path.substr(path.rfind('/') + 1)))
                find_named(c, *found);
        }
    }
    static bool is_same(rate_tree_oracle const& a, std::size_t i, rate_tree_oracle const& b,
                        std::size_t j) {
        for (;;) {
            auto const& one = a.nodes()[i];
            auto const& other = b.nodes()[j];
            if (one.path != other.path || one.key != other.key)
                return false;
            if (i == 0 || j == 0)
                return i == j;
            i = one.parent;
            j = other.parent;
        }
    }

    std::vector<std::optional<weir::policy::tree_node>> nodes_;
};

}  // namespace support
