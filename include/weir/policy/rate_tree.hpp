#pragma once

#include <weir/amount.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/tree/nodes.hpp>
#include <weir/policy/tree/options.hpp>
#include <weir/time.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::inline v0_2 {

/// The state of a node of a tree of rates. The permits are whole ones, rounded down.
struct rate_tree_stats {
    /// The permits of `least` that the node has saved; 0 if it has no `least`.
    amount saved = 0;
    /// The permits that it may take by its `most`; `max_amount` if it has none.
    amount may_take = 0;
    /// The permits that it could lend to nodes below it now; 0 for a leaf.
    amount lends = 0;
    /// The permits taken beyond `least` or `most` by charges, rounded up.
    amount debt = 0;
    /// The number of keys below it.
    amount keys = 0;
};

namespace policy {

class rate_tree_turns;

/// The rule of a rate that the nodes of a tree share: each has a guaranteed share, `least`, and borrows up to a bound,
/// `most`, while others leave their shares unused.
///
/// Each node saves permits at its `least`, up to its `burst`, and may take permits at its `most`, up to its
/// `most_burst`; both are token buckets. Requests are made at leaves. A request for n permits is granted in one of two
/// ways:
/// 1. The leaf has saved n permits. Nothing else is checked.
/// 2. The leaf borrows them from the lowest node above it that has n permits which its children have not saved. `n` is
///    at most that node's own burst: its `burst` less the bursts of its children. Each node below the lender must be
///    able to take them by its `most`, beyond the permits that it has saved.
///
/// The permits are taken from the savings of the lender and all nodes above it, and from the `most` of all nodes above
/// the leaf and the leaf. So permits that a child has saved are never lent.
///
/// Guarantees, not counting charges:
/// - Least: a leaf is granted at once what a `token_bucket` of its `least` and `burst` would grant, whatever all others
///   do.
/// - Least of an inner node: while a request of at most its own burst waits below it, and no `most` below it is the
///   cause, the node gets more than `least * d` less that request and the bursts of its children.
/// - Most: in any time interval d a node and all nodes below it get at most `most_burst + most * (d + 1 ns)`.
/// - Root: in any time interval d the tree grants at most `burst + least * (d + 1 ns)` of the root.
/// - Lent: the permits that a node does not use are lent as soon as its burst is full.
/// - Order in time: a request that could be granted now can be granted at any later time, if nothing else is taken.
///
/// A charge (`take` of permits that are not free) is a debt of the leaf or, if the leaf has no `least`, of the lowest
/// node above it that has one. A node in debt borrows nothing. The saved permits of others remain theirs.
///
/// This class is a pure state machine without a clock, a queue or a thread: a lock of the caller protects it, and the
/// time that the caller passes never goes back. It is not a `limiting_policy`, because a request has a leaf. Only the
/// members that name an exception throw one.
///
/// Keys: a node for each key of `*` is added by `add`, when the caller first sees the key, and forgotten by `forget`.
///
/// Memory of a leaf: 16 bytes with a `most` only; 52 with both, of which 16 are the place in a heap. Time: logarithmic
/// in the number of children that have a `least` and are not full, for each level.
///
/// Source: hierarchical token buckets (HTB) of Linux, which also lend what children have saved.
class rate_tree {
public:
    /// The options.
    using options_type = rate_tree_options;

    /// Each node is full.
    ///
    /// @throws std::invalid_argument that names the node, the value and the bound
    explicit rate_tree(options_type const& options);

    /// Returns the current options.
    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    /// Changes the options. Nodes are compared by their paths: a kept one keeps its `tree_node` and what it has saved,
    /// up to its new burst; a new one has saved nothing. A removed node may not be used any more, nor may keys below
    /// it.
    ///
    /// Keys that were not added count as full. So a `*` with a `least` cannot be added, its `least` and `burst` cannot
    /// be raised, and its `keys` cannot be changed.
    ///
    /// @throws std::invalid_argument as the constructor, or for such a change
    /// @throws std::bad_alloc; then, as with the other exceptions, nothing has changed
    void configure(options_type const& options, time_point now);

    // Nodes.

    /// Returns the root.
    [[nodiscard]] static tree_node root() noexcept { return {0, 0}; }
    /// Returns the node below `parent` that the options name so.
    [[nodiscard]] std::optional<tree_node> find(tree_node parent,
                                                std::string_view name) const noexcept;
    /// Adds a node for one more key below `parent`, which is as if it was never used. Returns nothing if the options
    /// have no `*` there, or if it has reached its `keys`.
    ///
    /// @throws std::bad_alloc
    [[nodiscard]] std::optional<tree_node> add(tree_node parent) { return nodes_.add(parent); }
    /// Removes a node that `add` has returned, if it has recovered to the state in which it was added and has no keys
    /// below it. Returns whether it did.
    bool forget(tree_node key, time_point now) noexcept;
    /// Returns whether the options have the node, and no node below it.
    [[nodiscard]] bool is_leaf(tree_node node) const noexcept {
        return nodes_.kind(node).is_used && nodes_.kind(node).is_leaf();
    }
    /// Returns the properties of all nodes, by `tree_node::kind`.
    [[nodiscard]] tree_plan const& plan() const noexcept { return nodes_.plan(); }

    // Requests at a leaf. They are not const, because they bring the node to `now`.

    /// Returns the greatest number of permits that one request can ever be granted.
    [[nodiscard]] amount capacity(tree_node leaf) const noexcept {
        return nodes_.kind(leaf).capacity;
    }
    /// Returns how many permits the leaf could be granted now, at least 0.
    [[nodiscard]] amount remaining(tree_node leaf, time_point now) noexcept;
    /// Returns when `n` permits can be granted, if nothing else is taken before: `now` if they can be granted now,
    /// `never` if that is later than a `time_point` can represent. It is never too early. It is exact, unless more than
    /// 64 children of a lender become full before that; then it may be as late as the time when the lender is full. `n`
    /// must be from 1 to `capacity(leaf)`.
    [[nodiscard]] time_point ready_at(tree_node leaf, amount n, time_point now) noexcept;
    /// Takes `n` permits, if they can be granted now. Returns the ticket for `refund`; nothing if they cannot.
    [[nodiscard]] std::optional<ticket> try_take(tree_node leaf, amount n, time_point now) noexcept;
    /// Takes `n` permits, even if they cannot be granted now: then it is a charge, and a debt of at most `max_amount`.
    /// Returns the ticket for `refund`.
    ticket take(tree_node leaf, amount n, time_point now) noexcept;
    /// Puts back `n` unused permits of a ticket, as far as they fit. Returns whether this may have freed permits, of
    /// any leaf.
    bool refund(tree_node leaf, amount n, ticket t, time_point now) noexcept;

    // States of nodes, which another process can continue from.

    /// Returns whether a node is as if it was never used.
    [[nodiscard]] bool is_unused(tree_node node, time_point now) const noexcept;
    /// Appends the numbers of the state of a node, counted back to `then`, which may be before the last change: a node
    /// that continues from them at `then` comes to the present state. Throws `std::bad_alloc`.
    void save(tree_node node, number_writer& to, time_point then) const;
    /// Reads the numbers of a used node that were counted back to `then`, under the same options. Returns false, without
    /// an effect, if this node cannot have them.
    [[nodiscard]] bool load(tree_node node, number_reader& from, time_point then) noexcept;
    /// Gives a node the state of a node of `before`, which has the same options.
    void resume(tree_node node, rate_tree const& before, tree_node its, time_point now) noexcept;
    /// Makes a node as if it was never used.
    void reset(tree_node node, time_point now) noexcept;

    /// Returns the state of any node.
    [[nodiscard]] rate_tree_stats stats(tree_node node, time_point now) noexcept;
    /// Returns the size of the heap memory of all nodes. It does not include the options and the paths.
    [[nodiscard]] std::size_t heap_bytes() const noexcept { return nodes_.heap_bytes(); }

private:
    friend class rate_tree_turns;
    using tick = tree_nodes::tick;

    // A leaf and all nodes above it.
    class path {
    public:
        path(tree_nodes const& nodes, tree_node leaf) noexcept;
        [[nodiscard]] std::size_t size() const noexcept { return size_; }
        [[nodiscard]] tree_node const& operator[](std::size_t level) const noexcept {
            return nodes_[level];
        }

    private:
        std::array<tree_node, tree_plan::greatest_depth + 1> nodes_;
        std::size_t size_ = 0;
    };

    [[nodiscard]] drops drops_of(amount n) const noexcept {
        return drops(n) * nodes_.plan().permit;
    }
    [[nodiscard]] amount permits_of(drops n) const noexcept;
    [[nodiscard]] drops saved(tree_node node, tick t) const noexcept;
    [[nodiscard]] drops spare(tree_node node, tick t) noexcept;

    void update_sums_above(tree_node node, tick t) noexcept;

    // How many permits a node below the lender can take, how many a lender has, and when it is enough.
    [[nodiscard]] amount borrows(tree_node node, tick t) const noexcept;
    [[nodiscard]] amount lends(tree_node node, tick t) noexcept;
    [[nodiscard]] drops ticks_to_borrow(tree_node node, drops n, tick t) const noexcept;

    // Returns the level of the node that grants the request; nothing if none can now.
    [[nodiscard]] std::optional<std::size_t> lender(path const& from, amount n, tick t) noexcept;
    void take_from(std::size_t level, path const& from, drops n, tick t) noexcept;
    [[nodiscard]] drops debt(tree_node node, tick t) const noexcept;

    options_type options_;
    tree_nodes nodes_;
};

}  // namespace policy
}  // namespace weir::inline v0_2
