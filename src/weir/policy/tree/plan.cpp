#include <weir/policy/tree/plan.hpp>

#include "../../check_option.hpp"
#include "../../option_text.hpp"

#include <algorithm>
#include <concepts>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace weir::inline v0_2::policy {
namespace {

constexpr std::int64_t longest_period = std::int64_t{1} << 56;  // ns, of the whole tree
constexpr amount most_keys = 1 << 20;  // so that the sum of their debts fits in 128 bits
constexpr amount default_keys = 100'000;
constexpr amount most_keys_of_tree = amount{1} << 32;

using detail::to_text;

template <class Part>
void append(std::string& text, Part const& part) {
    if constexpr (std::convertible_to<Part const&, std::string_view>)
        text.append(std::string_view(part));
    else
        text.append(to_text(part));
}
template <class... Parts>
[[noreturn]] void refuse(Parts const&... parts) {
    std::string text = "weir::rate_tree: ";
    (append(text, parts), ...);
    throw std::invalid_argument(text);
}

void check(std::string const& path, std::string_view option, amount value, amount least,
           amount most) {
    detail::check_option("rate_tree", std::string(option) + " of " + path, value, least, most);
}

// ---- Paths

std::string parent_of(std::string const& path) {
    auto const slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}
std::string_view name_of(std::string const& path) {
    return std::string_view(path).substr(path.rfind('/') + 1);
}
bool is_name(std::string_view name) {
    return name == "*" || (!name.empty() && std::ranges::all_of(name, detail::is_of_a_name));
}
amount depth_of(std::string const& path) {
    return path == "/" ? 0 : std::ranges::count(path, '/');
}

void check_path(std::string const& path) {
    if (path == "/")
        return;
    bool is_good = path.starts_with('/');
    for (std::size_t begin = 1; is_good && begin <= path.size();) {
        auto const end = std::min(path.find('/', begin), path.size());
        is_good = is_name(std::string_view(path).substr(begin, end - begin));
        begin = end + 1;
    }
    if (!is_good || path.size() == 1)
        refuse("the path `", path,
               "` is wrong: it must be / or names after slashes, such as /acme/*");
    if (depth_of(path) > tree_plan::greatest_depth)
        refuse(path, " has ", depth_of(path), " names, but must have at most ",
               tree_plan::greatest_depth);
    auto const star = path.find("/*");
    if (star != std::string::npos && path.find_first_not_of("/*", star) != std::string::npos)
        refuse(path, " has a name below `*`, but only `*` may be there");
}

// ---- Values

void check_rate(std::string const& path, std::string_view option, weir::rate const& r) {
    check(path, "permits of " + std::string(option), r.permits(), 1, max_amount);
    if (r > weir::rate(1, duration(1)))
        refuse(option, " of ", path, " is ", to_string(r),
               ", but must be at most one permit per nanosecond");
}

void check_node(rate_tree_node const& node) {
    auto const& path = node.path;
    check_path(path);
    bool const is_root = path == "/";
    if (is_root && (!node.least || node.most))
        refuse("/ must have a least, which is its most, and no other");
    if (!node.least && !node.most)
        refuse(path, " has neither a least nor a most, but must have one");
    if (node.burst && !node.least)
        refuse("burst of ", path, " is ", *node.burst, ", but the node has no least");
    if (node.most_burst && !node.most)
        refuse("most_burst of ", path, " is ", *node.most_burst, ", but the node has no most");
    if (node.keys && name_of(path) != "*")
        refuse("keys of ", path, " is ", *node.keys, ", but only `*` has keys");
    if (node.keys)
        check(path, "keys", *node.keys, 1, most_keys);
    if (node.weight)
        check(path, "weight", *node.weight, 1, tree_kind::greatest_weight);
    if (node.least) {
        check_rate(path, "least", *node.least);
        if (node.burst)
            check(path, "burst", *node.burst, 1, max_amount);
    }
    if (node.most) {
        check_rate(path, "most", *node.most);
        if (node.least && *node.most < *node.least)
            refuse("most of ", path, " is ", to_string(*node.most),
                   ", but must be at least its least, ", to_string(*node.least));
    }
}

// The period of a rate without a common divisor with its permits.
std::int64_t least_period(weir::rate const& r) {
    return r.period().count() / std::gcd(r.permits(), r.period().count());
}

std::int64_t common_period(std::vector<rate_tree_node> const& nodes) {
    std::int64_t all = 1;
    for (auto const& node : nodes) {
        for (auto const& r : {node.least, node.most}) {
            if (!r)
                continue;
            auto const own = least_period(*r);
            auto const factor = own / std::gcd(all, own);
            if (factor > longest_period / all)
                refuse("the period of ", node.path, ", ", r->period(),
                       ", has too large a common multiple with the periods of other nodes: it must "
                       "be at most ",
                       duration(longest_period));
            all *= factor;
        }
    }
    return all;
}

tree_bucket bucket_of(weir::rate const& r, amount burst, std::int64_t permit) {
    auto const divisor = std::gcd(r.permits(), r.period().count());
    auto const by_nanosecond = r.permits() / divisor * (permit / (r.period().count() / divisor));
    return {burst, by_nanosecond, drops(burst) * permit + (by_nanosecond - 1)};
}

// For messages.
std::string by_second(drops by_nanosecond, std::int64_t permit) {
    auto const thousandths = by_nanosecond * 1'000'000'000'000 / permit;
    return to_text(static_cast<double>(thousandths) / 1'000) + "/1s";
}

void set_buckets(tree_kind& kind, rate_tree_node const& node, std::int64_t permit) {
    if (node.least)
        kind.least = bucket_of(*node.least, node.burst.value_or(node.least->permits()), permit);
    if (node.most) {
        auto const at_least = kind.least.burst + 1;
        auto const burst = node.most_burst.value_or(std::max(node.most->permits(), at_least));
        check(node.path, "most_burst", burst, at_least, max_amount);
        kind.most = bucket_of(*node.most, burst, permit);
    }
}

amount capacity_of(tree_kind const& leaf, std::vector<tree_kind> const& all) {
    auto most = leaf.least.burst;
    auto below = leaf.can_borrow();
    for (auto above = leaf.parent; above != tree_kind::none; above = all[above].parent) {
        most = std::max(most, std::min(below, all[above].own));
        below = std::min(below, all[above].can_borrow());
    }
    return most;
}

constexpr char const* of_children = ", the sum of its children";

// Sets what is left of a node beside its children, and checks that it is enough.
void divide(tree_kind& kind, std::vector<tree_kind> const& all, std::int64_t permit) {
    kind.own = kind.least.burst;
    kind.own_full = kind.least.full;
    drops rates = 0;
    drops bursts = 0;
    amount nodes = 0;
    auto const add = [&](std::uint32_t number) {
        auto const& child = all[number];
        if (!child.least)
            return;
        rates += drops(child.keys) * child.least.by_nanosecond;
        bursts += drops(child.keys) * child.least.burst;
        nodes += child.keys;
        kind.own_full -= drops(child.keys) * child.least.full;
    };
    for (auto const& [name, number] : kind.named)
        add(number);
    if (kind.key != tree_kind::none)
        add(kind.key);
    kind.divides = nodes != 0;
    if (!kind.divides)
        return;
    if (nodes > most_keys)
        refuse(kind.path, " has ", nodes, " children with a least, but must have at most ",
               most_keys);
    if (!kind.least)
        refuse(kind.path, " has no least, but must have at least ", by_second(rates, permit),
               of_children);
    if (rates > kind.least.by_nanosecond)
        refuse("least of ", kind.path, " is ", by_second(kind.least.by_nanosecond, permit),
               ", but must be at least ", by_second(rates, permit), of_children);
    if (bursts + 1 > kind.least.burst)
        refuse("burst of ", kind.path, " is ", kind.least.burst, ", but must be at least ",
               static_cast<amount>(std::min<drops>(bursts + 1, drops{1} << 62)),
               ", one more than the sum of its children");
    kind.own = kind.least.burst - static_cast<amount>(bursts);
}

}  // namespace

tree_plan::tree_plan(rate_tree_options const& options, tree_plan const* before) {
    auto nodes = options.nodes;
    if (std::ssize(nodes) > most_nodes)
        refuse("the tree has ", std::ssize(nodes), " nodes, but must have at most ", most_nodes);
    std::ranges::sort(nodes, {}, [](auto const& node) {
        return std::pair(depth_of(node.path), std::string_view(node.path));
    });
    for (auto const& node : nodes)
        check_node(node);
    if (nodes.empty() || nodes.front().path != "/")
        refuse("the tree has no root, but must have a node /");
    detail::check_option("rate_tree", "max_keys", options.max_keys, 1, most_keys_of_tree);
    permit = common_period(nodes);
    max_keys = options.max_keys;

    std::map<std::string, std::uint32_t, std::less<>> numbers;
    if (before) {
        kinds.resize(before->kinds.size());
        for (std::uint32_t i = 0; i != kinds.size(); ++i) {
            if (before->kinds[i].is_used)
                numbers.emplace(before->kinds[i].path, i);
        }
    }
    std::vector<std::uint32_t> unused;  // numbers that neither `before` nor the options use
    for (auto i = static_cast<std::uint32_t>(kinds.size()); i-- != 0;) {
        if (!before->kinds[i].is_used)
            unused.push_back(i);
    }
    for (auto const& node : nodes) {
        auto const found = numbers.find(node.path);
        auto number = static_cast<std::uint32_t>(kinds.size());
        if (found != numbers.end()) {
            number = found->second;
        } else if (!unused.empty()) {
            number = unused.back();
            unused.pop_back();
        } else {
            kinds.emplace_back();
        }
        auto& kind = kinds[number];
        if (kind.is_used)
            refuse(node.path, " has two nodes, but must have one");
        kind.path = node.path;
        kind.is_used = true;
        kind.weight = node.weight.value_or(1);
        numbers[node.path] = number;
        set_buckets(kind, node, permit);
        if (node.path == "/")
            continue;
        auto const over = numbers.find(parent_of(node.path));
        if (over == numbers.end() || !kinds[over->second].is_used)
            refuse(node.path, " has no parent, but must have the node ", parent_of(node.path));
        kind.parent = over->second;
        kind.below_keys = kinds[kind.parent].is_a_key;
        kind.is_a_key = name_of(node.path) == "*";
        if (kind.is_a_key) {
            kind.keys = node.keys.value_or(default_keys);
            kinds[kind.parent].key = number;
        } else {
            kinds[kind.parent].named.emplace(name_of(node.path), number);
        }
    }
    for (auto& kind : kinds) {
        if (kind.is_used)
            divide(kind, kinds, permit);
    }
    for (auto& kind : kinds) {
        if (kind.is_used && kind.is_leaf())
            kind.capacity = capacity_of(kind, kinds);
    }
}

}  // namespace weir::inline v0_2::policy
