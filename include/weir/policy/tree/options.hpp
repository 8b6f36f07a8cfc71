#pragma once

#include <weir/amount.hpp>
#include <weir/rate.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::inline v0_2 {

/// The options of one node of a tree of rates, or of all nodes below `*`.
struct rate_tree_node {
    /// The names from the root to the node, such as `/acme/search`; the root is `/`. A name has letters, digits, `_`,
    /// `-` and `.`. A last name `*` stands for each key that is not named: `/acme/*`. Below `*` there is only `*`.
    std::string path;

    /// The rate that the node has for itself, whatever others do; above 0, and at most one permit per nanosecond. The
    /// children of a node may have at most its `least` in sum. The root needs it: it is the rate of the whole tree.
    std::optional<weir::rate> least = {};

    /// The number of permits of `least` that the node saves while it uses less: 1 to `max_amount`. By default it is the
    /// number of permits in `least`. If children have a least, the node needs at least one permit more than they have
    /// in sum. The rest is the most that it lends to one request.
    std::optional<amount> burst = {};

    /// The highest rate of the node with all nodes below it, at least `least`; without it only its parent limits it.
    /// The root has none: its `least` is also its most. Each other node has a `least`, a `most` or both.
    std::optional<weir::rate> most = {};

    /// The number of permits of `most` that the node may take at once after a pause: 1 to `max_amount`, and at least
    /// `burst` + 1. By default it is the number of permits in `most`, but at least `burst` + 1. A request that borrows
    /// has at most `most_burst` - `burst` permits.
    std::optional<amount> most_burst = {};

    /// The part of the permits that its parent or a higher node lends to waiting requests, beside the other children of
    /// its parent: 1 to 32. By default it is 1. Only `rate_tree_turns` uses it.
    std::optional<amount> weight = {};

    /// Only for `*`: the greatest number of keys below one parent, 1 to 1,048,576; by default 100,000. If `*` has a
    /// `least`, the parent must have that much for all these keys.
    std::optional<amount> keys = {};
};

/// The options of a tree of rates: its nodes in any order. Each node but the root needs its parent.
///
///     weir::rate_tree_options::parse(
///         "tree / 1000/1s burst 200, /acme 300/1s burst 60 most 600/1s, /acme/* most 20/1s");
struct rate_tree_options {
    /// The nodes.
    std::vector<rate_tree_node> nodes;

    /// The greatest number of keys of the whole tree, 1 to 2^32: `keys` alone does not bound keys below other keys.
    amount max_keys = 1'000'000;

    /// Parses a text. It begins with `tree`, and `max_keys` and a number unless that is the default. The nodes follow,
    /// separated by commas: the path, the `least` and its `burst`, then `most`, its rate and its `burst`, `weight`, and
    /// for a `*` also `keys`. Omitted options have their defaults.
    ///
    /// @throws std::invalid_argument that quotes the text, and names the column, the expected and the found text. Only
    ///   the tree that is made of the result checks the values.
    [[nodiscard]] static rate_tree_options parse(std::string_view text);
};

/// Returns the text from which `rate_tree_options::parse` makes the same options.
[[nodiscard]] std::string to_string(rate_tree_options const& options);

}  // namespace weir::inline v0_2
