#include <weir/policy/tree/options.hpp>

#include "../../option_text.hpp"

#include <algorithm>
#include <cstddef>

namespace weir::inline v0_2 {
namespace {

using detail::reader;

bool is_of_a_path(char c) {
    return c == '/' || c == '*' || detail::is_of_a_name(c);
}

std::string read_path(reader& in) {
    auto const word = in.peek();
    if (!word.starts_with('/') || !std::ranges::all_of(word, is_of_a_path))
        in.expected("a path such as /acme/*");
    in.skip_word();
    return std::string(word);
}

weir::rate read_rate(reader& in) {
    auto const permits = in.read_amount(0, max_amount);
    if (!in.skip('/'))
        in.expected("a time, as in " + detail::to_text(permits) + "/1s");
    auto const period = in.read_duration(duration(1));
    in.end_word("a space");
    return {permits, period};
}

// Reads the value of an option if its name follows.
bool skip_name(reader& in, std::string_view name) {
    if (in.peek() != name)
        return false;
    in.skip_word();
    return true;
}

rate_tree_node read_node(reader in) {
    rate_tree_node node{.path = read_path(in)};
    if (!in.at_end() && in.peek() != "most") {
        node.least = read_rate(in);
        if (skip_name(in, "burst"))
            in.read(node.burst);
    }
    if (skip_name(in, "most")) {
        node.most = read_rate(in);
        if (skip_name(in, "burst"))
            in.read(node.most_burst);
    }
    if (skip_name(in, "weight"))
        in.read(node.weight);
    if (skip_name(in, "keys"))
        in.read(node.keys);
    if (!in.at_end())
        in.expected("burst, most, weight, keys, a comma or the end of the text");
    return node;
}

}  // namespace

rate_tree_options rate_tree_options::parse(std::string_view text) {
    constexpr std::string_view what = "weir::rate_tree_options";
    auto begin = text.find_first_not_of(" \t");
    begin = std::min(begin, text.size());
    reader start(what, text, begin, text.size());
    if (start.peek() != "tree")
        start.expected("tree");
    start.skip_word();
    rate_tree_options options;
    if (skip_name(start, "max_keys"))
        start.read(options.max_keys);
    begin = static_cast<std::size_t>(start.peek().data() - text.data());
    while (begin <= text.size()) {
        auto const end = std::min(text.find(',', begin), text.size());
        options.nodes.push_back(read_node(reader(what, text, begin, end)));
        begin = end + 1;
    }
    return options;
}

std::string to_string(rate_tree_options const& options) {
    std::string text = "tree";
    if (options.max_keys != rate_tree_options().max_keys)
        text.append(" max_keys ").append(std::to_string(options.max_keys));
    auto const add = [&](char const* name, auto const& value) {
        if (value)
            text.append(name).append(std::to_string(*value));
    };
    for (std::size_t i = 0; i != options.nodes.size(); ++i) {
        auto const& node = options.nodes[i];
        text.append(i == 0 ? " " : ", ").append(node.path);
        if (node.least)
            text.append(" ").append(to_string(*node.least));
        add(" burst ", node.burst);
        if (node.most)
            text.append(" most ").append(to_string(*node.most));
        add(" burst ", node.most_burst);
        add(" weight ", node.weight);
        add(" keys ", node.keys);
    }
    return text;
}

}  // namespace weir::inline v0_2
