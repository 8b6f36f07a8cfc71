#pragma once

#include <weir/policy/bucket.hpp>
#include <weir/policy/tree/plan.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace weir::inline v0_2::policy {

/// A node of a tree of rates. It is a number only: it stays valid until the node is removed.
struct tree_node {
    /// The number of its path.
    std::uint32_t kind = tree_kind::none;
    /// The number of the node among all nodes with that path.
    std::uint32_t number = 0;

    friend bool operator==(tree_node const&, tree_node const&) = default;
};

/// The states of all nodes of a tree: how much each has used, and for each inner node the sum over its children.
///
/// A bucket is one number, as in `bucket`: the drops from tick 0 until it is full. A node keeps the sums of these
/// numbers and of the rates over its children that are not full, so at any tick t the children lack `numbers - t *
/// rates`. A heap has these children by the tick at which they are full. That tick may be too early: a child that takes
/// more stays where it is, and is moved when its turn comes.
///
/// Memory: 16 bytes for each bucket of a node; 4 bytes for a node with a `least`, and 16 while it is not full. For
/// nodes in more than one parent 4 bytes.
class tree_nodes {
public:
    /// The most drops that can be missing in a bucket, with all debts.
    static constexpr drops most_lacks = drops{1} << 124;

    /// Nanoseconds since the earliest `time_point`.
    using tick = std::uint64_t;
    [[nodiscard]] static tick tick_of(time_point t) noexcept {
        return static_cast<std::uint64_t>(t.time_since_epoch().count()) -
               static_cast<std::uint64_t>(time_point::min().time_since_epoch().count());
    }
    /// Returns the tick `ticks` after `t`, at most the last one.
    [[nodiscard]] static tick later_by(tick t, drops ticks) noexcept {
        constexpr auto last = std::numeric_limits<tick>::max();
        return ticks > drops(last - t) ? last : t + static_cast<tick>(ticks);
    }

    /// Each node that is not a key exists, and is full.
    explicit tree_nodes(tree_plan plan);

    [[nodiscard]] tree_plan const& plan() const noexcept { return plan_; }
    [[nodiscard]] tree_kind const& kind(tree_node node) const noexcept {
        return plan_.kinds[node.kind];
    }

    // Nodes.

    /// Adds a full node for a key below `parent`; nothing if it has the greatest number of keys, or none. Throws
    /// `std::bad_alloc`, without an effect.
    [[nodiscard]] std::optional<tree_node> add(tree_node parent);
    /// Removes a key that lacks nothing and has no keys below it.
    void remove(tree_node node) noexcept;
    /// Returns the number of keys below a node.
    [[nodiscard]] amount keys_of(tree_node node) const noexcept;
    [[nodiscard]] tree_node parent_of(tree_node node) const noexcept;

    // The buckets of a node. Before a bucket of `least` changes, `update_sums` of the parent must have been called at `t`.

    /// Returns how many drops are missing in a bucket, at least 0.
    [[nodiscard]] drops lacks_least(tree_node node, tick t) const noexcept {
        return lack(pools_[node.kind].least[node.number], kind(node).least, t);
    }
    [[nodiscard]] drops lacks_most(tree_node node, tick t) const noexcept {
        return lack(pools_[node.kind].most[node.number], kind(node).most, t);
    }
    void take_least(tree_node node, drops n, tick t) noexcept;
    void take_most(tree_node node, drops n, tick t) noexcept;
    /// Puts drops back as far as they fit. Returns whether any were missing.
    bool put_back_least(tree_node node, drops n, tick t) noexcept;
    bool put_back_most(tree_node node, drops n, tick t) noexcept;
    /// Sets how many drops are missing; a number for a bucket that the node does not have is ignored.
    void set_lacks(tree_node node, drops least, drops most, tick t) noexcept;

    // The children of a node.

    /// Takes the children that are full by `t` out of the sums.
    void update_sums(tree_node node, tick t) noexcept;
    /// Returns how many drops of `least` the node has at `t` beyond what its children have saved. `update_sums` must have
    /// been called at `t`.
    [[nodiscard]] drops spare(tree_node node, tick t) const noexcept;
    /// Returns how many drops of `least` are missing in all children. `update_sums` must have been called at `t`.
    [[nodiscard]] drops lacks_below(tree_node node, tick t) const noexcept;
    /// Returns how many ticks after `t` `spare` is `n` or more, for an `n` of at most the node's own burst. The result
    /// is exact if at most 64 children become full before that. Otherwise it is too large or, with `early`, too small.
    /// `update_sums` must have been called at `t`.
    [[nodiscard]] drops ticks_to_spare(tree_node node, drops n, tick t,
                                       bool early = false) const noexcept;

    /// Continues from the nodes of `before`: this plan was made after its plan, and no node was added. A bucket keeps
    /// its permits, as far as it can save them. A new bucket of `least` is empty, and a new one of `most` full. Throws
    /// `std::bad_alloc`.
    void take_over(tree_nodes const& before, tick t);

    [[nodiscard]] std::size_t heap_bytes() const noexcept;

private:
    __extension__ using wrapping = unsigned __int128;  // only differences count

    struct entry {
        tick full_at;  // or earlier
        tree_node child;
    };
    struct children {
        wrapping numbers = 0;
        drops rates = 0;
        std::vector<entry> not_full;  // a heap, the first one full first
    };
    // The nodes of a kind.
    struct pool {
        std::vector<drops> least;
        std::vector<drops> most;
        std::vector<std::uint32_t> place;   // in the heap of the parent
        std::vector<std::uint32_t> parent;  // empty if the parent is the only node of its kind
        std::vector<std::uint32_t> keys;    // how many are below
        std::vector<children> below;        // empty if no child has a least
        std::uint32_t size = 0;
        std::uint32_t first_free = tree_kind::none;
    };

    static constexpr std::uint32_t nowhere = tree_kind::none;
    static constexpr std::size_t longest_walk = 64;

    [[nodiscard]] static drops come(tree_bucket const& b, tick t) noexcept {
        return drops(t) * b.by_nanosecond;
    }
    [[nodiscard]] static drops lack(drops full_after, tree_bucket const& b, tick t) noexcept {
        return std::max<drops>(full_after - come(b, t), 0);
    }
    [[nodiscard]] tick full_at(tree_node node, tick t) const noexcept;
    [[nodiscard]] std::uint32_t& place_of(tree_node node) noexcept {
        return pools_[node.kind].place[node.number];
    }
    [[nodiscard]] children& around(tree_node parent) noexcept {
        return pools_[parent.kind].below[parent.number];
    }

    // A removed node refers to the next one.
    [[nodiscard]] drops& link_of(std::uint32_t number, std::uint32_t i) noexcept {
        return plan_.kinds[number].most ? pools_[number].most[i] : pools_[number].least[i];
    }
    [[nodiscard]] std::uint32_t next_free(std::uint32_t number, std::uint32_t i) const noexcept {
        auto const& p = pools_[number];
        return static_cast<std::uint32_t>(plan_.kinds[number].most ? p.most[i] : p.least[i]);
    }

    void copy_keys(tree_nodes const& before, std::uint32_t kind);
    void copy_levels(tree_nodes const& before, std::uint32_t kind, tick t);

    void reserve(std::uint32_t kind);
    void reserve_heap(tree_node parent, std::size_t nodes);
    tree_node put(std::uint32_t kind, std::uint32_t parent) noexcept;

    void put(children& c, std::size_t at, entry const& e) noexcept;
    void sift_up(children& c, std::size_t at) noexcept;
    void sift_down(children& c, std::size_t at) noexcept;
    void leave_out(children& c, std::size_t at) noexcept;

    tree_plan plan_;
    std::vector<pool> pools_;  // by kind
    amount keys_ = 0;          // of all kinds
};

/// Returns in how many ticks `lacking` drops come, rounded up; 0 if none lack.
[[nodiscard]] drops ticks_for(drops lacking, drops by_tick) noexcept;

}  // namespace weir::inline v0_2::policy
