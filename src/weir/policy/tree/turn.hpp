#pragma once

#include <weir/amount.hpp>
#include <weir/policy/rate_tree.hpp>
#include <weir/policy/rate_tree_turns.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <unordered_map>

namespace weir::inline v0_2::policy {

inline constexpr auto last_tick = std::numeric_limits<tree_nodes::tick>::max();

// The first request of an open leaf.
struct rate_tree_turns::claim {
    tree_node leaf;
    amount count = 0;  // 0 if none waits
    bool held = false;
    std::uint64_t since = 0;
    tick own_at = last_tick;  // when the leaf has saved the permits
    own_claims::node_type place = {};
};

// A node that waits for permits of one lender, or the lender.
struct rate_tree_turns::turn {
    enum class state : std::uint8_t { passed_over, has_turns, stopped };

    tree_node node;
    lender* of = nullptr;
    turn* above = nullptr;        // null if it is the lender
    claim const* asks = nullptr;  // of a leaf
    state at = state::passed_over;
    tag start = 0;
    tag end = 0;  // the tag of the first request
    std::uint64_t since = 0;
    tick until = 0;  // while it is stopped by its most
    turns::node_type place = {};

    std::size_t waiting = 0;  // leaves in which a request waits: itself, or below it

    // For a node that is not a leaf.
    turns children = {};  // the children that have turns
    std::size_t all_children = 0;
    tag time = 0;
};

struct rate_tree_turns::lender {
    turn top = {};
    std::size_t depth = 0;
    tick next = last_tick;  // when a request may be granted or is no longer stopped
    std::unordered_map<tree_node, std::unique_ptr<turn>, node_hash> below = {};
    stopped later = {};
    lenders::node_type place = {};
};

}  // namespace weir::inline v0_2::policy
