#pragma once

#include <weir/amount.hpp>
#include <weir/policy/bucket.hpp>
#include <weir/policy/tree/options.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weir::inline v0_2::policy {

/// A bucket of a tree, counted in drops: a permit is a number of drops that is the same for the whole tree.
struct tree_bucket {
    amount burst = 0;                // permits; 0 if there is no such bucket
    std::int64_t by_nanosecond = 0;  // drops
    drops full = 0;  // drops: the burst, and less than the drops of a nanosecond for the next grant

    explicit operator bool() const noexcept { return burst != 0; }
};

/// The properties of all nodes with one path.
struct tree_kind {
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    static constexpr amount greatest_weight = max_weight;

    // The members that each request reads are in the first two cache lines.
    tree_bucket least;
    tree_bucket most;
    drops own_full = 0;  // like `own`, in drops, with the parts of `full` beyond the burst
    amount own = 0;      // permits of the burst that children cannot save
    amount capacity =
        0;  // of a leaf: the greatest number of permits that one request can ever be granted
    std::uint32_t parent = none;
    std::uint32_t key = none;  // the kind of the keys below it
    bool divides = false;      // children have a least
    bool is_a_key = false;     // `*`
    bool below_keys = false;   // its parent is a key
    bool is_used = false;      // false if the options have it no longer
    amount weight = 1;         // of what it borrows
    amount keys = 1;           // the greatest number of nodes below one parent
    std::string path;
    std::map<std::string, std::uint32_t, std::less<>> named;

    [[nodiscard]] bool is_leaf() const noexcept { return key == none && named.empty(); }
    /// The greatest number of permits that a request may take of `most` when it borrows.
    [[nodiscard]] amount can_borrow() const noexcept {
        return most ? most.burst - least.burst : max_amount;
    }
};

/// The kinds of a tree, made of its options.
struct tree_plan {
    std::vector<tree_kind> kinds;  // the root is the first
    std::int64_t permit = 1;       // drops
    amount max_keys = 0;

    static constexpr amount greatest_depth = 15;
    /// So 16 bits hold the number of a kind, although the kinds of nodes that a change removes keep theirs.
    static constexpr amount most_nodes = 1 << 15;

    /// Checks the options. A path that `before` has keeps its number.
    ///
    /// @throws std::invalid_argument that names the node, the value and the bound
    explicit tree_plan(rate_tree_options const& options, tree_plan const* before = nullptr);
};

}  // namespace weir::inline v0_2::policy
