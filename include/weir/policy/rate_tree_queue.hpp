#pragma once

#include <weir/amount.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/rate_tree.hpp>
#include <weir/time.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weir::inline v0_2::policy {

/// A `rate_tree`, and the requests that wait for its permits.
///
/// In each leaf the requests wait in the order of their arrival. The first request of a leaf is granted
/// 1. as soon as the leaf has saved the permits;
/// 2. otherwise when a node above it can lend them and it is the turn of the leaf there. Lower nodes lend first.
///
/// Turns: at a lender, the child has the next turn whose tag is the least, then the child of that child, down to a
/// leaf. The tag of a child is its start plus `n / weight` for the first request below it, which asks for n. When it is
/// served, the time of its parent becomes that tag, unless it is later already. Its next request starts at that time,
/// and so does a child that begins to wait. So children that wait all the time borrow in proportion to their weights,
/// and leaving gains nothing. A child whose `most` stops the first request below it is passed over until it can take
/// it, and does not catch up later. Only borrowed permits count. While the next request at a lender waits for permits,
/// no other request takes them there.
///
/// A request at a leaf in which none waits is granted at once by `try_take` if the leaf has saved the permits, or if no
/// request has a turn at the lender.
///
/// This class is a pure state machine like `rate_tree`: a lock of the caller protects it, and the caller sets a timer
/// for `next_at`.
///
/// Memory: 48 bytes for a waiting request. A leaf in which requests wait takes about 150 bytes more, and 280 for each
/// node above it that lends. Time: logarithmic in the number of children that wait, for each pair of levels. Only
/// `push`, `configure` and `add` allocate.
///
/// Source: self-clocked fair queueing (Golestani, INFOCOM 1994), at each level of the tree.
class rate_tree_queue {
public:
    /// A waiting request.
    struct request {
        /// Where it waits.
        tree_node leaf;
        /// The number of permits.
        amount count = 0;
        /// A number of the caller.
        std::uint64_t id = 0;
    };
    /// A waiting request, until it is granted or erased.
    using place = std::list<request>::iterator;
    /// A granted request.
    struct grant {
        /// The request.
        request asked;
        /// The ticket for `refund`.
        weir::ticket ticket = 0;
    };

    /// A queue without requests for `tree`.
    explicit rate_tree_queue(rate_tree tree);
    rate_tree_queue(rate_tree_queue&&) noexcept;
    rate_tree_queue& operator=(rate_tree_queue&&) noexcept;
    ~rate_tree_queue();

    /// The tree. Its permits change only by the members of the queue.
    [[nodiscard]] rate_tree const& tree() const noexcept { return tree_; }
    /// Returns the number of waiting requests.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// Returns whether requests wait in a leaf.
    [[nodiscard]] bool has_waiting(tree_node leaf) const noexcept { return lines_.contains(leaf); }

    /// Takes `n` permits, unless the request must wait. Returns the ticket for `refund`; nothing if it must wait.
    [[nodiscard]] std::optional<ticket> try_take(tree_node leaf, amount n, time_point now) noexcept;
    /// Adds a request for 1 to `tree().capacity(leaf)` permits. Call `pop` afterwards.
    ///
    /// @throws std::bad_alloc; then nothing has changed
    place push(tree_node leaf, amount n, std::uint64_t id, time_point now);
    /// Removes a request, which then waits no more. Call `pop` afterwards.
    void erase(place at, time_point now) noexcept;
    /// Grants the next request that can be granted now, and takes its permits. Returns nothing if there is none.
    [[nodiscard]] std::optional<grant> pop(time_point now) noexcept;
    /// Returns when to call `pop` again, after it has returned nothing: the time of the next grant or, rarely, a time
    /// before it; `never` if nothing can be granted before another call.
    [[nodiscard]] time_point next_at() const noexcept;

    /// Takes `n` permits even if they are not free, as `rate_tree::take`.
    ticket charge(tree_node leaf, amount n, time_point now) noexcept;
    /// Puts back `n` unused permits of a ticket, as `rate_tree::refund`. Call `pop` afterwards.
    bool refund(tree_node leaf, amount n, ticket t, time_point now) noexcept;

    /// Adds a node for a key, as `rate_tree::add`.
    [[nodiscard]] std::optional<tree_node> add(tree_node parent) { return tree_.add(parent); }
    /// Removes a node of a key, as `rate_tree::forget`, if no request waits there.
    bool forget(tree_node key, time_point now) noexcept;
    /// Returns the state of any node, as `rate_tree::stats`.
    [[nodiscard]] rate_tree_stats stats(tree_node node, time_point now) noexcept {
        return tree_.stats(node, now);
    }
    /// Changes the options, as `rate_tree::configure`. Requests stay in their order; all turns begin again. Removes the
    /// requests that can no longer be granted, because their leaf is removed or their count is too large, and returns
    /// them. Call `pop` afterwards.
    ///
    /// @throws std::invalid_argument and std::bad_alloc as `rate_tree::configure`; then nothing has changed
    std::list<request> configure(rate_tree_options const& options, time_point now);

private:
    using tick = tree_nodes::tick;
    __extension__ using tag = unsigned __int128;  // wraps: only differences count

    struct node_hash {
        std::size_t operator()(tree_node const& node) const noexcept {
            return std::hash<std::uint64_t>()(std::uint64_t{node.kind} << 32 | node.number);
        }
    };
    struct line;
    struct waiting;
    struct lender;

    struct by_tag {
        bool operator()(waiting const* a, waiting const* b) const noexcept;
    };
    struct by_until {
        bool operator()(waiting const* a, waiting const* b) const noexcept;
    };
    struct by_own {
        bool operator()(line const* a, line const* b) const noexcept;
    };
    struct by_next {
        bool operator()(lender const* a, lender const* b) const noexcept;
    };
    using turns = std::set<waiting*, by_tag>;
    using stopped = std::set<waiting*, by_until>;
    using own_claims = std::set<line*, by_own>;
    using lenders = std::set<lender*, by_next>;

    void open(tree_node leaf);
    void close(tree_node leaf) noexcept;
    void path_changes(tree_node leaf, tick t) noexcept;
    void update(waiting* w, tick t) noexcept;
    static void detach(waiting& w) noexcept;
    void end_stops(lender& of, tick t) noexcept;
    void refresh(lender& of, tick t) noexcept;
    [[nodiscard]] static waiting* first(waiting& top) noexcept;
    [[nodiscard]] bool can_ever_lend(waiting const& leaf) const noexcept;
    [[nodiscard]] lender* next_lender(tick t) noexcept;
    void serve(waiting* leaf) noexcept;

    rate_tree tree_;
    std::size_t size_ = 0;
    std::uint64_t last_ = 0;  // counts turns
    std::unordered_map<tree_node, std::unique_ptr<line>, node_hash> lines_;
    std::unordered_map<tree_node, std::unique_ptr<lender>, node_hash> lenders_;
    own_claims own_;
    std::vector<lenders> by_depth_;
};

}  // namespace weir::inline v0_2::policy
