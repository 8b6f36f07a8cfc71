#include "tree.hpp"

#include <weir/policy/rate_tree.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <utility>

namespace config {
namespace {

// The longest name. Requests with a longer value use a hash of it as their name.
constexpr std::size_t longest_name = limit::longest_name;

std::string_view path_text(std::string_view path) {
    return path == "/" ? std::string_view() : path;
}

std::size_t depth_of(std::string_view path) {
    return static_cast<std::size_t>(std::ranges::count(path_text(path), '/'));
}

kind<weir::rate_tree_node> node_at(std::string_view path) {
    return {"a node, such as `300/1s burst 60 most 600/1s weight 3` or `most 20/1s burst 5`",
            [path](toml::node const& value) -> std::optional<weir::rate_tree_node> {
                auto const* const text = value.as_string();
                if (!text)
                    return std::nullopt;
                auto parsed =
                    weir::rate_tree_options::parse(fmt::format("tree {} {}", path, text->get()));
                if (parsed.nodes.size() != 1 || parsed.nodes.front().path != path)
                    return std::nullopt;
                return std::move(parsed.nodes.front());
            }};
}

void check_exclusions(table_reader& t) {
    auto const exclude = [&](char const* key, char const* why) {
        if (t.has(key))
            t.problem(t.at(key), fmt::format("`{}` and `tree` exclude each other: {}", key, why));
    };
    exclude("rule", "the nodes of the tree are its rules");
    exclude("overrides", "name the keys as nodes of the tree");
    exclude("max_memory", "`max_keys` bounds the keys of a tree");
    exclude("evict_within", "a tree evicts no key");
    exclude("when_full", "a tree rejects further keys");
    exclude("count", "a tree cannot give back exactly what a request did not use");
    exclude("store", "stores cannot count a tree");
}

// Whether each list of values has a leaf: a node that is not a leaf has a child for all other keys.
bool check_levels(table_reader& t, limit const& l) {
    bool right = true;
    auto const wrong = [&](std::string const& text) {
        t.problem(t.at("tree"), text);
        right = false;
    };
    auto const& nodes = l.tree->nodes;
    for (auto const& node : nodes) {
        auto const depth = depth_of(node.path);
        if (depth > l.key.size())
            wrong(fmt::format("`{}` has {} names, but `key` has {} parts: one for each level",
                              node.path, depth, l.key.size()));
        auto const others = fmt::format("{}/*", path_text(node.path));
        if (depth < l.key.size() &&
            std::ranges::find(nodes, others, &weir::rate_tree_node::path) == nodes.end())
            wrong(fmt::format("`{}` requires `{}`, for the other values of part {} of `key`",
                              node.path, others, depth + 1));
        if (node.path.size() - node.path.rfind('/') - 1 > longest_name)
            wrong(fmt::format("the last name of `{}` has more than {} characters", node.path,
                              longest_name));
    }
    return right;
}

bool check_key(table_reader& t, limit const& l) {
    if (l.key.empty()) {
        t.problem(t.at("tree"), "`tree` requires a `key` with one part for each level");
        return false;
    }
    for (auto const& part : l.key) {
        // A header could have the text of an address, and use the share of that client.
        if (part.what != key_part::kind::client && has_client(part)) {
            t.problem(t.at("key"), "with `tree`, `client` cannot replace another value in `key`");
            return false;
        }
    }
    return true;
}

}  // namespace

bool read_tree(table_reader& t, limit& l) {
    bool right = true;
    weir::rate_tree_options tree{.nodes = {}, .max_keys = l.max_keys};
    t.table("tree", [&](table_reader& of) {
        of.all([&](std::string_view path, toml::node const& value) {
            if (auto node = of.make(path, value, node_at(path)))
                tree.nodes.push_back(std::move(*node));
            else
                right = false;
        });
    });
    if (!t.has("tree"))
        return false;
    check_exclusions(t);
    l.tree = std::move(tree);
    right = check_key(t, l) && right;
    if (!right || !check_levels(t, l))
        return false;
    try {
        static_cast<void>(weir::policy::rate_tree(*l.tree));
    } catch (std::invalid_argument const& wrong) {
        t.problem(t.at("tree"), wrong.what());
        return false;
    }
    auto const& root = *std::ranges::find(l.tree->nodes, "/", &weir::rate_tree_node::path);
    l.rule = {weir::token_bucket_options{.rate = *root.least, .burst = root.burst}};
    return true;
}

std::string to_string(weir::rate_tree_node const& node) {
    auto const text = to_string(weir::rate_tree_options{.nodes = {node}});
    return text.substr(std::string_view("tree ").size() + node.path.size() + 1);
}

}  // namespace config
