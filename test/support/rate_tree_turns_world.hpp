#pragma once

#include "support/printing.hpp"
#include "support/random.hpp"
#include "support/rate_tree_oracle.hpp"
#include "support/rate_tree_requests.hpp"
#include "support/rate_tree_turns_oracle.hpp"
#include "support/rate_tree_world.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace support {

/// A queue beside its oracle: each call goes to both, and checks that they agree.
class rate_tree_turns_world {
public:
    explicit rate_tree_turns_world(weir::rate_tree_options const& options)
        : world_(options, weir::time_point(std::chrono::hours(12))),
          turns_(world_.oracle, options),
          queue_(with_all_keys()) {}
    /// Leaves stay open when no request waits in them.
    void keep_open() { queue_.keep_open(); }

    [[nodiscard]] std::size_t some_leaf(random_source& random) const {
        return world_.some_leaf(random);
    }
    [[nodiscard]] weir::amount capacity(std::size_t leaf) {
        return queue_.tree().capacity(world_.node(leaf));
    }

    void push(std::size_t leaf, weir::amount n) {
        auto const id = ++last_id_;
        turns_.push(leaf, {n, id});
        places_[id] = {leaf, queue_.push(world_.node(leaf), n, id, now())};
    }
    void erase_some(random_source& random) {
        if (places_.empty())
            return;
        auto const one =
            std::next(places_.begin(), static_cast<std::ptrdiff_t>(random.index_in(places_)));
        turns_.erase(one->second.first, one->first);
        queue_.erase(one->second.second, now());
        places_.erase(one);
    }
    // A newcomer takes permits that its leaf has saved, or that no turn claims.
    void try_take(std::size_t leaf, weir::amount n) {
        std::optional<std::size_t> from;
        auto& permits = world_.oracle;
        auto const& nodes = permits.nodes();
        if (!turns_.lines().contains(leaf)) {
            if (nodes[leaf].least && nodes[leaf].least->has >= permits.in_parts(n))
                from = leaf;
            for (auto w = leaf; w != 0 && !from && permits.can_take(w, n);) {
                w = nodes[w].parent;
                if (nodes[w].least && n <= permits.own_burst(w) &&
                    permits.not_saved_by_children(w) >= permits.in_parts(n) && !turns_.next(w))
                    from = w;
            }
        }
        auto const ticket = queue_.try_take(world_.node(leaf), n, now());
        BOOST_TEST_REQUIRE(ticket.has_value() == from.has_value());
        if (!ticket)
            return;
        BOOST_TEST_REQUIRE(*ticket == permits.levels(leaf, *from));
        permits.take(leaf, n, *from);
        grants_.push_back({leaf, n, *ticket, *from});
    }
    void charge(std::size_t leaf, weir::amount n) {
        auto const from = world_.oracle.grantor(leaf, n).value_or(world_.oracle.debtor(leaf));
        world_.oracle.take(leaf, n, from);
        auto const ticket = queue_.charge(world_.node(leaf), n, now());
        grants_.push_back({leaf, n, ticket, from});
    }
    void refund_some(random_source& random) {
        if (grants_.empty())
            return;
        auto const i = static_cast<std::ptrdiff_t>(random.index_in(grants_));
        auto const g = grants_[static_cast<std::size_t>(i)];
        world_.oracle.put_back(g.leaf, g.count, g.from);
        queue_.refund(world_.node(g.leaf), g.count, g.ticket, now());
        grants_.erase(grants_.begin() + i);
    }

    // Takes all grants that are due, and checks that each is the right one.
    void pop_all() {
        for (;;) {
            bool const own = turns_.has_any_own_claim();
            auto const deepest = turns_.deepest();
            auto const g = queue_.pop(now());
            BOOST_TEST_REQUIRE(g.has_value() == (own || deepest));
            if (!g)
                break;
            auto const leaf = places_.at(g->asked.id).first;
            auto const& first = turns_.lines().at(leaf).front();
            BOOST_TEST_REQUIRE(first.id == g->asked.id);
            BOOST_TEST_REQUIRE(first.count == g->asked.count);
            auto from = leaf;
            for (auto level = g->ticket; level != 0; --level)
                from = world_.oracle.nodes()[from].parent;
            if (own) {
                BOOST_TEST_REQUIRE(g->ticket == 0U);
                BOOST_TEST_REQUIRE(turns_.has_own_claim(leaf));
            } else {
                BOOST_TEST_REQUIRE(turns_.depth(from) == *deepest);
                BOOST_TEST_REQUIRE(turns_.can_lend(from));
                BOOST_TEST_REQUIRE(turns_.next(from).value() == leaf);
                turns_.measure(leaf, from, first.count);
                turns_.serve(leaf, from);
                ++lent_;
            }
            world_.oracle.take(leaf, g->asked.count, from);
            turns_.erase(leaf, g->asked.id);
            grants_.push_back({leaf, g->asked.count, g->ticket, from});
            places_.erase(g->asked.id);
        }
        BOOST_TEST_REQUIRE(queue_.size() == places_.size());
        BOOST_TEST_REQUIRE(queue_.next_at() > now());
    }
    // Until the queue asks to be called again, nothing may become due.
    void pass(std::int64_t nanoseconds) {
        for (; nanoseconds != 0; --nanoseconds) {
            world_.pass(1);
            if (now() >= queue_.next_at())
                pop_all();
            else
                BOOST_TEST_REQUIRE(!(turns_.has_any_own_claim() || turns_.deepest()));
        }
    }

    [[nodiscard]] std::int64_t lent() const { return lent_; }

private:
    [[nodiscard]] weir::time_point now() const { return world_.now; }
    weir::policy::rate_tree with_all_keys() {
        for (std::size_t i = 0; i != world_.oracle.nodes().size(); ++i)
            static_cast<void>(world_.node(i));
        return world_.tree;
    }

    rate_tree_world world_;
    rate_tree_turns_oracle turns_;
    rate_tree_requests queue_;
    std::uint64_t last_id_ = 0;
    std::map<std::uint64_t, std::pair<std::size_t, rate_tree_requests::place>> places_;
    std::vector<rate_tree_world::grant> grants_;
    std::int64_t lent_ = 0;
};

}  // namespace support
