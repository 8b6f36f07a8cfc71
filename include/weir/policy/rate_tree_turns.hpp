#pragma once

#include <weir/amount.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/rate_tree.hpp>
#include <weir/time.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

namespace weir::inline v0_2::policy {

/// A `rate_tree`, and the turns of the leaves in which requests wait for its permits. The caller keeps the requests of
/// each leaf in any order, and states how many permits the first of them asks for.
///
/// The first request of a leaf is granted
/// 1. as soon as the leaf has saved the permits;
/// 2. otherwise when a node above it can lend them and it is the turn of the leaf there. Lower nodes lend first.
///
/// Turns: at a lender, the child has the next turn whose tag is the least, then the child of that child, down to a
/// leaf. The tag of a child is its start plus `n / weight` for the first request below it, which asks for n. When it is
/// served, the time of its parent becomes that tag, unless it is later already. Its next request starts at that time,
/// and so does a child that begins to wait. So children that wait all the time borrow in proportion to their weights,
/// and leaving gains nothing. A child whose `most` stops the first request below it is passed over until it can take
/// it, and does not catch up later. Only borrowed permits count. While the next request at a lender waits for permits,
/// no request of another leaf takes them there.
///
/// This class is a pure state machine like `rate_tree`: a lock of the caller protects it, and the caller sets a timer
/// for `next_at`.
///
/// Memory: a leaf in which requests wait takes about 150 bytes, and 280 for each node above it that lends. Time:
/// logarithmic in the number of children that wait, for each pair of levels. Only `open`, `configure` and `add`
/// allocate.
///
/// Source: self-clocked fair queueing (Golestani, INFOCOM 1994), at each level of the tree.
class rate_tree_turns {
public:
    /// No leaf is open.
    explicit rate_tree_turns(rate_tree tree);
    rate_tree_turns(rate_tree_turns&&) noexcept;
    rate_tree_turns& operator=(rate_tree_turns&&) noexcept;
    ~rate_tree_turns();

    /// The tree. Its permits change only by the members of this class.
    [[nodiscard]] rate_tree const& tree() const noexcept { return tree_; }

    /// Calls `change(rate_tree&)`, which may change the states of nodes by `resume` and `reset`, and add and forget nodes by
    /// the members of this class. The turns continue.
    template <class Change>
    void change_states(Change change, time_point now) noexcept {
        change(tree_);
        for (auto const& [leaf, its] : claims_)
            path_changes(leaf, tree_nodes::tick_of(now));
    }

    // Leaves that wait.

    /// Prepares a leaf for requests that wait; no effect if it is open.
    ///
    /// @throws std::bad_alloc; then nothing has changed
    void open(tree_node leaf);
    /// Ends the turns of a leaf, which then waits no more; no effect if it is not open.
    void close(tree_node leaf, time_point now) noexcept;
    /// Sets the first request of a leaf, for 1 to `tree().capacity(leaf)` permits; 0 if none waits. If it is `held`, it
    /// keeps its turn, but is not due: the caller knows when it can be granted. No effect if the leaf is not open.
    void wait(tree_node leaf, amount n, bool held, time_point now) noexcept;
    /// Returns the number of leaves whose first request waits.
    [[nodiscard]] std::size_t waiting() const noexcept { return waiting_; }
    /// Returns a leaf whose first request can be granted now and is not held; nothing if there is none.
    [[nodiscard]] std::optional<tree_node> next(time_point now) noexcept;
    /// Returns when to call `next`, after it has returned nothing: the time of the next grant or, rarely, a time before
    /// it; `never` if nothing can be granted before another call.
    [[nodiscard]] time_point next_at() const noexcept;

    // Requests at a leaf. The first request of a leaf and a newcomer are treated alike: the caller decides whether a
    // newcomer goes before the requests that wait in the same leaf.

    /// Returns the ticket with which `take` would grant `n` permits now; nothing if it is not the turn of the leaf, or
    /// if the permits are not there.
    [[nodiscard]] std::optional<ticket> can_take(tree_node leaf, amount n, time_point now) noexcept;
    /// Takes `n` permits, even if they cannot be granted now: then it is a charge, as in `rate_tree::take`. Returns the
    /// ticket for `refund`. If the first request of the leaf was granted, call `wait` for the next one.
    ticket take(tree_node leaf, amount n, time_point now) noexcept;
    /// Puts back `n` unused permits of a ticket, as `rate_tree::refund`.
    bool refund(tree_node leaf, amount n, ticket t, time_point now) noexcept;
    /// Returns the greatest `n` that `can_take` allows, at least 0.
    [[nodiscard]] amount remaining(tree_node leaf, time_point now) noexcept;
    /// Returns when `n` permits can be granted if nothing else is taken before; `unknown` if that depends on requests
    /// that wait in other leaves.
    [[nodiscard]] time_point ready_at(tree_node leaf, amount n, time_point now) noexcept;

    // Nodes.

    /// Adds a node for a key, as `rate_tree::add`.
    [[nodiscard]] std::optional<tree_node> add(tree_node parent) { return tree_.add(parent); }
    /// Removes a node of a key, as `rate_tree::forget`, if it is not open.
    bool forget(tree_node key, time_point now) noexcept;
    /// Returns the state of any node, as `rate_tree::stats`.
    [[nodiscard]] rate_tree_stats stats(tree_node node, time_point now) noexcept {
        return tree_.stats(node, now);
    }
    /// Changes the options, as `rate_tree::configure`. All turns begin again, and no leaf has a first request. The leaves
    /// of `to_open` are open afterwards, unless the options have them no longer.
    ///
    /// @throws std::invalid_argument and std::bad_alloc as `rate_tree::configure`; then nothing has changed
    void configure(rate_tree_options const& options, std::span<tree_node const> to_open,
                   time_point now);

private:
    using tick = tree_nodes::tick;
    __extension__ using tag = unsigned __int128;  // wraps: only differences count

    struct node_hash {
        std::size_t operator()(tree_node const& node) const noexcept {
            return std::hash<std::uint64_t>()(std::uint64_t{node.kind} << 32 | node.number);
        }
    };
    struct claim;
    struct turn;
    struct lender;

    struct by_tag {
        bool operator()(turn const* a, turn const* b) const noexcept;
    };
    struct by_until {
        bool operator()(turn const* a, turn const* b) const noexcept;
    };
    struct by_own {
        bool operator()(claim const* a, claim const* b) const noexcept;
    };
    struct by_next {
        bool operator()(lender const* a, lender const* b) const noexcept;
    };
    using turns = std::set<turn*, by_tag>;
    using stopped = std::set<turn*, by_until>;
    using own_claims = std::set<claim*, by_own>;
    using lenders = std::set<lender*, by_next>;

    [[nodiscard]] bool is_open(tree_node leaf) const noexcept { return claims_.contains(leaf); }
    [[nodiscard]] bool waits(tree_node leaf) const noexcept;
    [[nodiscard]] bool has_turn(tree_node by, tree_node leaf, tick t) noexcept;
    void remove(tree_node leaf) noexcept;
    void set_first(claim& c, amount n) noexcept;
    void path_changes(tree_node leaf, tick t) noexcept;
    void update(turn* w, tick t) noexcept;
    static void detach(turn& w) noexcept;
    void end_stops(lender& of, tick t) noexcept;
    void refresh(lender& of, tick t) noexcept;
    [[nodiscard]] static turn* first(turn& top) noexcept;
    [[nodiscard]] bool can_ever_lend(turn const& leaf) const noexcept;
    [[nodiscard]] lender* next_lender(tick t) noexcept;
    void serve(tree_node by, tree_node leaf, amount n) noexcept;
    [[nodiscard]] tag length(tree_node node, amount n) const noexcept;

    rate_tree tree_;
    std::size_t waiting_ = 0;
    std::uint64_t last_ = 0;  // counts turns
    std::unordered_map<tree_node, std::unique_ptr<claim>, node_hash> claims_;
    std::unordered_map<tree_node, std::unique_ptr<lender>, node_hash> lenders_;
    own_claims own_;
    std::vector<lenders> by_depth_;
};

}  // namespace weir::inline v0_2::policy
