#pragma once

#include <weir/amount.hpp>
#include <weir/policy/tree/options.hpp>
#include <weir/rate.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace support {

/// The rule of `policy::rate_tree` from its words: every node of the tree, and every key that may ever be added, gets
/// its permits at every nanosecond. A permit is `unit` parts, so that each of these is a whole number of parts.
class rate_tree_oracle {
public:
    using parts = std::int64_t;

    struct bucket {
        weir::amount burst = 0;
        parts each_ns = 0;
        parts most = 0;
        parts has = 0;
    };
    struct node {
        std::string path;
        std::size_t parent = 0;  // of the root: 0
        std::vector<std::size_t> children;
        std::optional<bucket> least;
        std::optional<bucket> most;
        std::size_t key = 0;  // which of the keys of `*` below its parent
        bool is_added = false;
    };

    explicit rate_tree_oracle(weir::rate_tree_options const& options) {
        for (auto const& n : options.nodes) {
            for (auto const& r : {n.least, n.most}) {
                if (r)
                    unit_ = std::lcm(
                        unit_, r->period().count() / std::gcd(r->permits(), r->period().count()));
            }
        }
        add("/", 0, 0, options);
    }

    std::vector<node>& nodes() { return nodes_; }
    std::vector<node> const& nodes() const { return nodes_; }
    [[nodiscard]] bool is_leaf(std::size_t i) const { return nodes_[i].children.empty(); }

    void pass(std::int64_t nanoseconds) {
        for (; nanoseconds != 0; --nanoseconds) {
            for (auto& n : nodes_) {
                fill(n.least, n.least ? n.least->each_ns : 0);
                fill(n.most, n.most ? n.most->each_ns : 0);
            }
        }
    }

    /// Returns the node that has saved the permits: the leaf or the lender.
    [[nodiscard]] std::optional<std::size_t> grantor(std::size_t leaf, weir::amount n) const {
        auto const wanted = n * unit_;
        if (nodes_[leaf].least && nodes_[leaf].least->has >= wanted)
            return leaf;
        for (auto w = leaf; w != 0;) {
            w = nodes_[w].parent;
            if (nodes_[w].least && n <= own_burst(w) && not_saved_by_children(w) >= wanted &&
                all_can_take(leaf, w, n))
                return w;
        }
        return {};
    }

    /// Returns the node in whose name a charge is taken.
    [[nodiscard]] std::size_t debtor(std::size_t leaf) const {
        while (!nodes_[leaf].least)
            leaf = nodes_[leaf].parent;
        return leaf;
    }

    void take(std::size_t leaf, weir::amount n, std::size_t from) {
        bool pays = false;
        each_up(leaf, [&](std::size_t i) {
            pays = pays || i == from;
            if (nodes_[i].most)
                nodes_[i].most->has -= n * unit_;
            if (pays)
                nodes_[i].least->has -= n * unit_;
        });
    }
    void put_back(std::size_t leaf, weir::amount n, std::size_t from) {
        bool paid = false;
        each_up(leaf, [&](std::size_t i) {
            paid = paid || i == from;
            fill(nodes_[i].most, n * unit_);
            if (paid)
                fill(nodes_[i].least, n * unit_);
        });
    }

    /// Returns how many levels `above` is above the leaf.
    [[nodiscard]] std::size_t levels(std::size_t leaf, std::size_t above) const {
        std::size_t count = 0;
        for (; leaf != above; leaf = nodes_[leaf].parent)
            ++count;
        return count;
    }
    [[nodiscard]] weir::amount most_at_once(std::size_t leaf) const {
        weir::amount most = nodes_[leaf].least ? nodes_[leaf].least->burst : 0;
        for (auto w = leaf; w != 0;) {
            w = nodes_[w].parent;
            if (!nodes_[w].least)
                continue;
            auto n = own_burst(w);
            for (auto v = leaf; v != w; v = nodes_[v].parent)
                n = std::min(n, can_borrow(v));
            most = std::max(most, n);
        }
        return most;
    }
    [[nodiscard]] weir::amount permits(std::optional<bucket> const& b) const {
        return b ? std::max<parts>(b->has, 0) / unit_ : 0;
    }
    [[nodiscard]] weir::amount debt(std::size_t i) const {
        parts owed = 0;
        for (auto const* b : {&nodes_[i].least, &nodes_[i].most})
            owed = std::max(owed, *b ? -(*b)->has : 0);
        return (owed + unit_ - 1) / unit_;
    }
    /// Returns whether a node below the lender can take `n` by its most, beyond the permits that it has saved.
    [[nodiscard]] bool can_take(std::size_t v, weir::amount n) const {
        auto const saved = nodes_[v].least ? nodes_[v].least->has : 0;
        return saved >= 0 && n <= can_borrow(v) &&
               (!nodes_[v].most || nodes_[v].most->has - n * unit_ >= saved);
    }
    [[nodiscard]] weir::amount can_borrow(std::size_t v) const {
        auto const& n = nodes_[v];
        return n.most ? n.most->burst - (n.least ? n.least->burst : 0) : weir::max_amount;
    }
    [[nodiscard]] parts in_parts(weir::amount n) const { return n * unit_; }
    [[nodiscard]] weir::amount own_burst(std::size_t w) const {
        auto own = nodes_[w].least ? nodes_[w].least->burst : 0;
        for (auto c : nodes_[w].children)
            own -= nodes_[c].least ? nodes_[c].least->burst : 0;
        return own;
    }
    [[nodiscard]] parts not_saved_by_children(std::size_t w) const {
        auto spare = nodes_[w].least->has;
        for (auto c : nodes_[w].children)
            spare -= nodes_[c].least ? nodes_[c].least->has : 0;
        return spare;
    }
    [[nodiscard]] bool is_like_new(std::size_t i) const {
        auto const is_full = [](std::optional<bucket> const& b) { return !b || b->has == b->most; };
        return is_full(nodes_[i].least) && is_full(nodes_[i].most) &&
               std::ranges::none_of(nodes_[i].children, [&](std::size_t c) {
                   return nodes_[c].is_added;
               });
    }

    /// Continues from a tree with other options.
    void take_over(rate_tree_oracle const& before) {
        for (auto& n : nodes_)
            n.is_added = false;
        each_pair(before, 0, 0);
    }

private:
    std::size_t add(std::string const& path, std::size_t parent, std::size_t key,
                    weir::rate_tree_options const& options) {
        auto const& given = *std::ranges::find(options.nodes, path, &weir::rate_tree_node::path);
        auto const i = nodes_.size();
        nodes_.emplace_back();
        nodes_[i].path = path;
        nodes_[i].parent = parent;
        nodes_[i].key = key;
        if (given.least)
            nodes_[i].least = full(*given.least, given.burst.value_or(given.least->permits()));
        auto const burst = nodes_[i].least ? nodes_[i].least->burst : 0;
        if (given.most)
            nodes_[i].most = full(
                *given.most, given.most_burst.value_or(std::max(given.most->permits(), burst + 1)));
        for (auto const& n : options.nodes) {
            auto const slash = n.path.rfind('/');
            auto const above = slash == 0 ? std::string("/") : n.path.substr(0, slash);
            if (n.path == "/" || above != path)
                continue;
            auto const copies = n.path.ends_with("/*") ? *n.keys : 1;
            for (weir::amount copy = 0; copy != copies; ++copy) {
                auto const child = add(n.path, i, static_cast<std::size_t>(copy), options);
                nodes_[i].children.push_back(child);
            }
        }
        return i;
    }
    bucket full(weir::rate const& r, weir::amount burst) const {
        auto const each_ns = r.permits() * unit_ / r.period().count();
        auto const most = burst * unit_ + each_ns - 1;  // less than a nanosecond is kept beyond it
        return {burst, each_ns, most, most};
    }
    static void fill(std::optional<bucket>& b, parts n) {
        if (b)
            b->has = std::min(b->has + n, b->most);
    }
    template <class F>
    void each_up(std::size_t leaf, F f) {
        for (f(leaf); leaf != 0; f(leaf))
            leaf = nodes_[leaf].parent;
    }
    [[nodiscard]] bool all_can_take(std::size_t leaf, std::size_t w, weir::amount n) const {
        for (auto v = leaf; v != w; v = nodes_[v].parent) {
            if (!can_take(v, n))
                return false;
        }
        return true;
    }

    [[nodiscard]] parts converted(parts has, rate_tree_oracle const& from) const {
        __extension__ using wide = __int128;
        auto const product = wide(has) * unit_;
        auto const whole = product / from.unit_;
        return static_cast<parts>(product % from.unit_ < 0 ? whole - 1 : whole);
    }
    void each_pair(rate_tree_oracle const& before, std::size_t mine, std::size_t theirs) {
        auto& n = nodes_[mine];
        auto const& old = before.nodes_[theirs];
        bool const is_unused = old.path.ends_with("/*") && !old.is_added;
        n.is_added = old.is_added;
        if (!is_unused) {
            if (n.least)
                n.least->has =
                    old.least ? std::min(converted(old.least->has, before), n.least->most) : 0;
            if (n.most && old.most)
                n.most->has = std::min(converted(old.most->has, before), n.most->most);
        }
        for (auto c : n.children) {
            auto const found = std::ranges::find_if(old.children, [&](std::size_t o) {
                return before.nodes_[o].path == nodes_[c].path &&
                       before.nodes_[o].key == nodes_[c].key;
            });
            if (found != old.children.end())
                each_pair(before, c, *found);
            else
                start_empty(c);
        }
    }
    void start_empty(std::size_t i) {
        if (nodes_[i].least && !nodes_[i].path.ends_with("/*"))
            nodes_[i].least->has = 0;
        for (auto c : nodes_[i].children)
            start_empty(c);
    }

    parts unit_ = 1;
    std::vector<node> nodes_;
};

}  // namespace support
