#pragma once

#include <weir/amount.hpp>
#include <weir/policy/tree/options.hpp>

#include "support/rate_tree_oracle.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace support {

/// The turns of `policy::rate_tree_turns` from their words: each question looks at all nodes. A weight w counts as 12 / w.
class rate_tree_turns_oracle {
public:
    rate_tree_turns_oracle(rate_tree_oracle& permits, weir::rate_tree_options const& options)
        : permits_(permits) {
        for (auto const& n : nodes())
            share_.push_back(
                12 / std::ranges::find(options.nodes, n.path, &weir::rate_tree_node::path)
                         ->weight.value_or(1));
    }

    struct request {
        weir::amount count;
        std::uint64_t id;
    };

    void push(std::size_t leaf, request const& r) {
        ++events_;
        lines_[leaf].push_back(r);
        each_lender(leaf, [&](std::size_t w) {
            std::vector<std::size_t> path;
            for (auto u = leaf; u != w; u = nodes()[u].parent)
                path.push_back(u);
            for (auto u = path.rbegin(); u != path.rend(); ++u)
                turns_.try_emplace({w, *u}, turn{times_[{w, nodes()[*u].parent}], events_});
        });
    }
    void erase(std::size_t leaf, std::uint64_t id) {
        auto& line = lines_[leaf];
        line.erase(std::ranges::find(line, id, &request::id));
        if (!line.empty())
            return;
        lines_.erase(leaf);
        each_lender(leaf, [&](std::size_t w) {
            for (auto u = leaf; u != w && !waits_below(u); u = nodes()[u].parent) {
                turns_.erase({w, u});
                times_.erase({w, u});
            }
            if (!waits_below(w))
                times_.erase({w, w});
        });
    }
    // The tags move only if the permits are lent.
    void serve(std::size_t leaf, std::size_t by) {
        ++events_;
        for (auto u = leaf; u != by; u = nodes()[u].parent) {
            auto& t = turns_.at({by, u});
            auto& time = times_[{by, nodes()[u].parent}];
            time = std::max(time, t.start + served_.at(u));
            t = {time, events_};
        }
    }

    std::map<std::size_t, std::deque<request>> const& lines() const { return lines_; }
    [[nodiscard]] bool has_own_claim(std::size_t leaf) const {
        auto const& n = nodes()[leaf];
        return n.least && n.least->has >= permits_.in_parts(lines_.at(leaf).front().count);
    }
    [[nodiscard]] bool has_any_own_claim() const {
        return std::ranges::any_of(lines_, [&](auto const& l) { return has_own_claim(l.first); });
    }
    // The leaf whose turn it is at a lender, whether the lender has the permits or not.
    [[nodiscard]] std::optional<std::size_t> next(std::size_t w) { return next_below(w, w); }
    [[nodiscard]] bool can_lend(std::size_t w) {
        auto const leaf = next(w);
        return leaf && permits_.not_saved_by_children(w) >=
                           permits_.in_parts(lines_.at(*leaf).front().count);
    }
    [[nodiscard]] std::size_t depth(std::size_t i) const { return permits_.levels(i, 0); }
    // The greatest depth of a lender that can grant a request.
    [[nodiscard]] std::optional<std::size_t> deepest() {
        std::optional<std::size_t> found;
        for (std::size_t w = 0; w != nodes().size(); ++w) {
            if (!permits_.is_leaf(w) && nodes()[w].least && can_lend(w))
                found = std::max(found.value_or(0), depth(w));
        }
        return found;
    }
    // Remembers the length of each turn of a path, before `n` permits are lent.
    void measure(std::size_t leaf, std::size_t by, weir::amount n) {
        for (auto u = leaf; u != by; u = nodes()[u].parent)
            served_[u] = length(u, n);
    }

private:
    struct turn {
        std::int64_t start = 0;
        std::uint64_t since = 0;
    };

    [[nodiscard]] std::vector<rate_tree_oracle::node> const& nodes() const {
        return std::as_const(permits_).nodes();
    }
    template <class F>
    void each_lender(std::size_t leaf, F f) {
        for (auto w = leaf; w != 0;) {
            w = nodes()[w].parent;
            if (nodes()[w].least)
                f(w);
        }
    }
    [[nodiscard]] bool waits_below(std::size_t u) const {
        return lines_.contains(u) || std::ranges::any_of(nodes()[u].children, [&](std::size_t c) {
                   return waits_below(c);
               });
    }
    [[nodiscard]] std::int64_t length(std::size_t u, weir::amount n) const { return n * share_[u]; }
    [[nodiscard]] std::optional<std::size_t> next_below(std::size_t w, std::size_t p) {
        std::optional<std::size_t> found;
        std::pair<std::int64_t, std::uint64_t> least;
        for (auto u : nodes()[p].children) {
            auto const leaf = permits_.is_leaf(u) ? waiting_leaf(w, u) : next_below(w, u);
            if (!leaf || !permits_.can_take(u, lines_.at(*leaf).front().count))
                continue;
            auto const& t = turns_.at({w, u});
            std::pair const tag(t.start + length(u, lines_.at(*leaf).front().count), t.since);
            if (!found || tag < least) {
                found = leaf;
                least = tag;
            }
        }
        return found;
    }
    // The leaf, if it waits for a request that this lender can ever grant.
    [[nodiscard]] std::optional<std::size_t> waiting_leaf(std::size_t w, std::size_t leaf) const {
        if (!lines_.contains(leaf) || lines_.at(leaf).front().count > permits_.own_burst(w))
            return {};
        for (auto u = leaf; u != w; u = nodes()[u].parent) {
            if (lines_.at(leaf).front().count > permits_.can_borrow(u))
                return {};
        }
        return leaf;
    }

    rate_tree_oracle& permits_;
    std::vector<std::int64_t> share_;
    std::uint64_t events_ = 0;
    std::map<std::size_t, std::deque<request>> lines_;
    std::map<std::pair<std::size_t, std::size_t>, turn> turns_;          // by lender and node
    std::map<std::pair<std::size_t, std::size_t>, std::int64_t> times_;  // by lender and parent
    std::map<std::size_t, std::int64_t> served_;
};

}  // namespace support
