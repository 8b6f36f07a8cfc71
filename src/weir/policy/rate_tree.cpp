#include <weir/policy/rate_tree.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace weir::inline v0_2::policy {
namespace {

// Keys that were not added count as full, and nothing must be promised to them that the nodes above do not have.
void check_keys(tree_plan const& next, tree_nodes const& before) {
    auto const& plan = before.plan();
    for (std::uint32_t i = 0; i != next.kinds.size(); ++i) {
        auto const& kind = next.kinds[i];
        if (!kind.is_used || !kind.is_a_key || !kind.least)
            continue;
        bool const is_new = i >= plan.kinds.size() || !plan.kinds[i].is_used;
        auto const promises_more = [&](tree_kind const& old) {
            return drops(kind.least.by_nanosecond) * plan.permit >
                       drops(old.least.by_nanosecond) * next.permit ||
                   kind.least.burst > old.least.burst || kind.keys != old.keys;
        };
        if (is_new || promises_more(plan.kinds[i]))
            throw std::invalid_argument(
                "weir::rate_tree: " + kind.path +
                " has a least, but its least and burst must not be raised, nor its keys changed");
    }
}

}  // namespace

rate_tree::path::path(tree_nodes const& nodes, tree_node leaf) noexcept {
    for (auto node = leaf; node.kind != tree_kind::none; node = nodes.parent_of(node))
        nodes_[size_++] = node;
}

rate_tree::rate_tree(options_type const& options) : options_(options), nodes_(tree_plan(options)) {}

void rate_tree::configure(options_type const& options, time_point now) {
    auto kept = options;
    tree_plan plan(options, &nodes_.plan());
    check_keys(plan, nodes_);
    tree_nodes next(std::move(plan));
    next.take_over(nodes_, tree_nodes::tick_of(now));
    nodes_ = std::move(next);
    options_ = std::move(kept);
}

// ---- Nodes

std::optional<tree_node> rate_tree::find(tree_node parent, std::string_view name) const noexcept {
    auto const& named = nodes_.kind(parent).named;
    auto const found = named.find(name);
    return found == named.end() ? std::nullopt : std::optional(tree_node{found->second, 0});
}

bool rate_tree::forget(tree_node key, time_point now) noexcept {
    if (nodes_.keys_of(key) != 0 || !is_unused(key, now))
        return false;
    update_sums_above(key, tree_nodes::tick_of(now));
    nodes_.remove(key);
    return true;
}

// ---- States

bool rate_tree::is_unused(tree_node node, time_point now) const noexcept {
    auto const t = tree_nodes::tick_of(now);
    auto const& kind = nodes_.kind(node);
    return (!kind.least || nodes_.lacks_least(node, t) == 0) &&
           (!kind.most || nodes_.lacks_most(node, t) == 0);
}

void rate_tree::save(tree_node node, number_writer& to, time_point then) const {
    auto const t = tree_nodes::tick_of(then);
    auto const& kind = nodes_.kind(node);
    if (kind.least)
        to.add(static_cast<number_writer::wide>(nodes_.lacks_least(node, t)));
    if (kind.most)
        to.add(static_cast<number_writer::wide>(nodes_.lacks_most(node, t)));
}

bool rate_tree::load(tree_node node, number_reader& from, time_point then) noexcept {
    auto const t = tree_nodes::tick_of(then);
    auto const& kind = nodes_.kind(node);
    auto const next = [&](tree_bucket const& b) {
        constexpr auto most = static_cast<number_reader::wide>(tree_nodes::most_lacks);
        return b ? static_cast<drops>(from.next(most)) : 0;
    };
    auto const least = next(kind.least);
    auto const most = next(kind.most);
    if (from.failed() || (least == 0 && most == 0))
        return false;
    update_sums_above(node, t);
    if (kind.least && kind.parent != tree_kind::none) {
        auto const others =
            nodes_.lacks_below(nodes_.parent_of(node), t) - nodes_.lacks_least(node, t);
        if (least > tree_nodes::most_lacks - others)
            return false;
    }
    nodes_.set_lacks(node, least, most, t);
    return true;
}

void rate_tree::resume(tree_node node, rate_tree const& before, tree_node its,
                       time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    auto const& kind = nodes_.kind(node);
    update_sums_above(node, t);
    nodes_.set_lacks(node, kind.least ? before.nodes_.lacks_least(its, t) : 0,
                     kind.most ? before.nodes_.lacks_most(its, t) : 0, t);
}

void rate_tree::reset(tree_node node, time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    update_sums_above(node, t);
    nodes_.set_lacks(node, 0, 0, t);
}

// Prepares for a change of a node.
void rate_tree::update_sums_above(tree_node node, tick t) noexcept {
    if (nodes_.kind(node).parent != tree_kind::none)
        nodes_.update_sums(nodes_.parent_of(node), t);
}

// ---- Permits

amount rate_tree::permits_of(drops n) const noexcept {
    return n <= 0 ? 0 : static_cast<amount>(std::min<drops>(n / nodes_.plan().permit, max_amount));
}

drops rate_tree::saved(tree_node node, tick t) const noexcept {
    auto const& least = nodes_.kind(node).least;
    return least ? least.full - nodes_.lacks_least(node, t) : 0;
}

drops rate_tree::spare(tree_node node, tick t) noexcept {
    nodes_.update_sums(node, t);
    return nodes_.spare(node, t);
}

amount rate_tree::borrows(tree_node node, tick t) const noexcept {
    auto const& kind = nodes_.kind(node);
    auto const has = saved(node, t);
    if (has < 0)
        return 0;
    if (!kind.most)
        return max_amount;
    auto const may = kind.most.full - nodes_.lacks_most(node, t);
    return std::min(kind.can_borrow(), permits_of(may - has));
}

amount rate_tree::lends(tree_node node, tick t) noexcept {
    auto const own = nodes_.kind(node).own;
    return own == 0 ? 0 : std::min(own, permits_of(spare(node, t)));
}

drops rate_tree::ticks_to_borrow(tree_node node, drops n, tick t) const noexcept {
    auto const& least = nodes_.kind(node).least;
    auto const& most = nodes_.kind(node).most;
    auto const lacks_least = least ? nodes_.lacks_least(node, t) : 0;
    auto const out_of_debt = least ? ticks_for(lacks_least - least.full, least.by_nanosecond) : 0;
    if (!most)
        return out_of_debt;
    auto const lacks_most = nodes_.lacks_most(node, t);
    // `most` must have n beyond the saved permits: either while both fill, or beyond the whole burst.
    auto const lacking = lacks_most + n - (most.full - least.full);
    auto beyond = ticks_for(lacking, most.by_nanosecond);
    auto const slope = most.by_nanosecond - least.by_nanosecond;
    if (lacking <= lacks_least)
        beyond = 0;
    else if (slope > 0)
        beyond = std::min(beyond, ticks_for(lacking - lacks_least, slope));
    return std::max(out_of_debt, beyond);
}

drops rate_tree::debt(tree_node node, tick t) const noexcept {
    auto const& kind = nodes_.kind(node);
    auto const by_most = kind.most ? nodes_.lacks_most(node, t) - kind.most.full : 0;
    return std::max({drops{0}, -saved(node, t), by_most});
}

// ---- Requests

std::optional<std::size_t> rate_tree::lender(path const& from, amount n, tick t) noexcept {
    if (n <= nodes_.kind(from[0]).least.burst && saved(from[0], t) >= drops_of(n))
        return 0;
    for (std::size_t level = 1; level != from.size(); ++level) {
        if (n > borrows(from[level - 1], t))
            return {};
        if (n <= lends(from[level], t))
            return level;
    }
    return {};
}

amount rate_tree::remaining(tree_node leaf, time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    path const from(nodes_, leaf);
    auto most = std::min(nodes_.kind(leaf).least.burst, permits_of(saved(leaf, t)));
    auto below = max_amount;
    for (std::size_t level = 1; level != from.size(); ++level) {
        below = std::min(below, borrows(from[level - 1], t));
        most = std::max(most, std::min(below, lends(from[level], t)));
    }
    return most;
}

time_point rate_tree::ready_at(tree_node leaf, amount n, time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    auto const wanted = drops_of(n);
    path const from(nodes_, leaf);
    auto const& least = nodes_.kind(leaf).least;
    constexpr drops at_no_time = forever.count();
    auto wait = at_no_time;
    if (n <= least.burst)
        wait = std::min(wait, ticks_for(wanted - saved(leaf, t), least.by_nanosecond));
    drops below = 0;
    for (std::size_t level = 1; level != from.size() && below < wait; ++level) {
        if (n > nodes_.kind(from[level - 1]).can_borrow())
            break;
        below = std::max(below, ticks_to_borrow(from[level - 1], wanted, t));
        if (n > nodes_.kind(from[level]).own)
            continue;
        nodes_.update_sums(from[level], t);
        wait = std::min(wait, std::max(below, nodes_.ticks_to_spare(from[level], wanted, t)));
    }
    return wait >= at_no_time ? never : later(now, duration(static_cast<duration::rep>(wait)));
}

std::optional<ticket> rate_tree::try_take(tree_node leaf, amount n, time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    path const from(nodes_, leaf);
    auto const level = lender(from, n, t);
    if (!level)
        return {};
    take_from(*level, from, drops_of(n), t);
    return *level;
}

ticket rate_tree::take(tree_node leaf, amount n, time_point now) noexcept {
    if (auto const granted = try_take(leaf, n, now))
        return *granted;
    auto const t = tree_nodes::tick_of(now);
    path const from(nodes_, leaf);
    std::size_t level = 0;
    while (!nodes_.kind(from[level]).least)
        ++level;
    auto const owed = std::max<drops>(-saved(from[level], t), 0);
    auto const most = std::max<drops>(drops_of(max_amount) - owed, 0);
    take_from(level, from, std::min(drops_of(n), most), t);
    return level;
}

void rate_tree::take_from(std::size_t level, path const& from, drops n, tick t) noexcept {
    for (std::size_t i = 0; i != from.size(); ++i) {
        if (nodes_.kind(from[i]).most)
            nodes_.take_most(from[i], n, t);
        if (i < level)
            continue;
        if (i + 1 != from.size())
            nodes_.update_sums(from[i + 1], t);
        nodes_.take_least(from[i], n, t);
    }
}

bool rate_tree::refund(tree_node leaf, amount n, ticket lent_by, time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    auto const put_back = drops_of(n);
    path const from(nodes_, leaf);
    bool freed = false;
    for (std::size_t i = 0; i != from.size(); ++i) {
        auto const& kind = nodes_.kind(from[i]);
        if (kind.most)
            freed = nodes_.put_back_most(from[i], put_back, t) || freed;
        if (i < lent_by || !kind.least)
            continue;
        if (i + 1 != from.size())
            nodes_.update_sums(from[i + 1], t);
        freed = nodes_.put_back_least(from[i], put_back, t) || freed;
    }
    return freed;
}

rate_tree_stats rate_tree::stats(tree_node node, time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    auto const& kind = nodes_.kind(node);
    auto const owed = debt(node, t);
    return {.saved = permits_of(saved(node, t)),
            .may_take =
                kind.most ? permits_of(kind.most.full - nodes_.lacks_most(node, t)) : max_amount,
            .lends = kind.is_leaf() ? 0 : lends(node, t),
            .debt = permits_of(owed + nodes_.plan().permit - 1),
            .keys = nodes_.keys_of(node)};
}

}  // namespace weir::inline v0_2::policy
