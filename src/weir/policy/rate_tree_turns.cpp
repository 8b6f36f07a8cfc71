#include <weir/policy/rate_tree_turns.hpp>

#include "tree/turn.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace weir::inline v0_2::policy {
namespace {

// An allocated element, which a set takes without an allocation.
template <class Set, class T>
typename Set::node_type place_for(T* element) {
    Set set;
    set.insert(element);
    return set.extract(set.begin());
}

}  // namespace

bool rate_tree_turns::by_tag::operator()(turn const* a, turn const* b) const noexcept {
    auto const difference = static_cast<drops>(a->end - b->end);
    return difference != 0 ? difference < 0 : a->since < b->since;
}
bool rate_tree_turns::by_until::operator()(turn const* a, turn const* b) const noexcept {
    return a->until != b->until ? a->until < b->until : a->since < b->since;
}
bool rate_tree_turns::by_own::operator()(claim const* a, claim const* b) const noexcept {
    return a->own_at != b->own_at ? a->own_at < b->own_at : a->since < b->since;
}
bool rate_tree_turns::by_next::operator()(lender const* a, lender const* b) const noexcept {
    return a->next != b->next ? a->next < b->next : a->top.since < b->top.since;
}

rate_tree_turns::rate_tree_turns(rate_tree tree)
    : tree_(std::move(tree)), by_depth_(tree_plan::greatest_depth + 1) {}
rate_tree_turns::rate_tree_turns(rate_tree_turns&&) noexcept = default;
rate_tree_turns& rate_tree_turns::operator=(rate_tree_turns&&) noexcept = default;
rate_tree_turns::~rate_tree_turns() = default;

// ---- Leaves that wait

void rate_tree_turns::open(tree_node leaf) {
    if (is_open(leaf))
        return;
    rate_tree::path const from(tree_.nodes_, leaf);
    auto& c = claims_[leaf];
    try {
        c = std::make_unique<claim>(claim{.leaf = leaf, .since = ++last_});
        c->place = place_for<own_claims>(c.get());
        for (std::size_t level = 1; level != from.size(); ++level) {
            if (!tree_.nodes_.kind(from[level]).least)
                continue;
            auto& of = lenders_[from[level]];
            if (!of) {
                of = std::make_unique<lender>();
                of->top.node = from[level];
                of->top.of = of.get();
                of->top.since = ++last_;
                of->depth = from.size() - 1 - level;
                of->place = place_for<lenders>(of.get());
            }
            auto* above = &of->top;
            for (auto i = level; i-- != 0;) {
                auto& w = of->below[from[i]];
                if (!w) {
                    w = std::make_unique<turn>();
                    w->node = from[i];
                    w->of = of.get();
                    w->above = above;
                    w->start = above->time;
                    w->since = ++last_;
                    w->asks = i == 0 ? c.get() : nullptr;
                    ++above->all_children;
                    w->place = place_for<turns>(w.get());
                }
                above = w.get();
            }
        }
    } catch (...) {
        remove(leaf);
        throw;
    }
}

void rate_tree_turns::close(tree_node leaf, time_point now) noexcept {
    if (!is_open(leaf))
        return;
    wait(leaf, 0, false, now);
    remove(leaf);
}

void rate_tree_turns::wait(tree_node leaf, amount n, bool held, time_point now) noexcept {
    auto const found = claims_.find(leaf);
    if (found == claims_.end() || (found->second->count == n && found->second->held == held))
        return;
    set_first(*found->second, n);
    found->second->held = held;
    path_changes(leaf, tree_nodes::tick_of(now));
}

// Removes a leaf without a first request, and the nodes above it in which no other leaf is open. `open` may have added
// only a part of them.
void rate_tree_turns::remove(tree_node leaf) noexcept {
    rate_tree::path const from(tree_.nodes_, leaf);
    for (std::size_t level = 1; level != from.size(); ++level) {
        auto const of = lenders_.find(from[level]);
        if (of == lenders_.end())
            continue;
        auto* const by = of->second.get();
        for (std::size_t i = 0; by && i != level; ++i) {
            auto const w = by->below.find(from[i]);
            if (w == by->below.end())
                continue;
            if (w->second) {
                if (w->second->all_children != 0)
                    break;
                detach(*w->second);
                --w->second->above->all_children;
            }
            by->below.erase(w);
        }
        if (by && by->top.all_children != 0)
            continue;
        if (by && !by->place)
            by_depth_[by->depth].extract(by);
        lenders_.erase(of);
    }
    auto const c = claims_.find(leaf);
    if (c->second && !c->second->place)
        own_.extract(c->second.get());
    claims_.erase(c);
}

std::optional<tree_node> rate_tree_turns::next(time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    if (!own_.empty() && (*own_.begin())->own_at <= t)
        return (*own_.begin())->leaf;
    auto* const by = next_lender(t);
    return by ? std::optional(first(by->top)->node) : std::nullopt;
}

time_point rate_tree_turns::next_at() const noexcept {
    auto next = own_.empty() ? last_tick : (*own_.begin())->own_at;
    for (auto const& some : by_depth_) {
        if (!some.empty())
            next = std::min(next, (*some.begin())->next);
    }
    return next >= tree_nodes::tick_of(never)
               ? never
               : time_point(duration(static_cast<duration::rep>(
                     next +
                     static_cast<std::uint64_t>(time_point::min().time_since_epoch().count()))));
}

// ---- Requests

std::optional<ticket> rate_tree_turns::can_take(tree_node leaf, amount n, time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    rate_tree::path const from(tree_.nodes_, leaf);
    if (n <= tree_.nodes_.kind(leaf).least.burst && tree_.saved(leaf, t) >= tree_.drops_of(n))
        return 0;
    for (std::size_t level = 1; level != from.size(); ++level) {
        if (n > tree_.borrows(from[level - 1], t))
            return {};
        if (has_turn(from[level], leaf, t) && n <= tree_.lends(from[level], t))
            return level;
    }
    return {};
}

ticket rate_tree_turns::take(tree_node leaf, amount n, time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    rate_tree::path const from(tree_.nodes_, leaf);
    auto const level = can_take(leaf, n, now);
    if (level) {
        if (*level != 0)
            serve(from[*level], leaf, n);
        tree_.take_from(*level, from, tree_.drops_of(n), t);
    }
    auto const result = level ? *level : tree_.take(leaf, n, now);
    path_changes(leaf, t);
    return result;
}

bool rate_tree_turns::refund(tree_node leaf, amount n, ticket t, time_point now) noexcept {
    bool const freed = tree_.refund(leaf, n, t, now);
    path_changes(leaf, tree_nodes::tick_of(now));
    return freed;
}

amount rate_tree_turns::remaining(tree_node leaf, time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    rate_tree::path const from(tree_.nodes_, leaf);
    auto most =
        std::min(tree_.nodes_.kind(leaf).least.burst, tree_.permits_of(tree_.saved(leaf, t)));
    auto below = max_amount;
    for (std::size_t level = 1; level != from.size(); ++level) {
        below = std::min(below, tree_.borrows(from[level - 1], t));
        if (has_turn(from[level], leaf, t))
            most = std::max(most, std::min(below, tree_.lends(from[level], t)));
    }
    return most;
}

time_point rate_tree_turns::ready_at(tree_node leaf, amount n, time_point now) noexcept {
    if (can_take(leaf, n, now))
        return now;
    return waiting_ == static_cast<std::size_t>(waits(leaf))
               ? tree_.ready_at(leaf, n, now)
               : unknown;
}

bool rate_tree_turns::waits(tree_node leaf) const noexcept {
    auto const found = claims_.find(leaf);
    return found != claims_.end() && found->second->count != 0;
}

// Returns whether it is the turn of a leaf at a lender. A leaf in which no request waits has a turn when no other leaf
// has one.
bool rate_tree_turns::has_turn(tree_node by, tree_node leaf, tick t) noexcept {
    auto const found = lenders_.find(by);
    if (found == lenders_.end())
        return true;
    end_stops(*found->second, t);
    auto const* const next = first(found->second->top);
    return next ? next->node == leaf : !waits(leaf);
}

// ---- Nodes

bool rate_tree_turns::forget(tree_node key, time_point now) noexcept {
    return !is_open(key) && tree_.forget(key, now);
}

void rate_tree_turns::configure(rate_tree_options const& options,
                                std::span<tree_node const> to_open, time_point now) {
    auto tree = tree_;
    tree.configure(options, now);
    rate_tree_turns next(std::move(tree));
    for (auto const leaf : to_open) {
        if (next.tree_.is_leaf(leaf))
            next.open(leaf);
    }
    *this = std::move(next);
}

// ---- Turns

// Sets the permits for which a leaf waits. If it begins to wait, so may nodes above it. `path_changes` must follow.
void rate_tree_turns::set_first(claim& c, amount n) noexcept {
    bool const waited = c.count != 0;
    c.count = n;
    if (waited == (n != 0))
        return;
    waited ? --waiting_ : ++waiting_;
    rate_tree::path const from(tree_.nodes_, c.leaf);
    for (std::size_t level = 1; level != from.size(); ++level) {
        auto const of = lenders_.find(from[level]);
        if (of == lenders_.end())
            continue;
        for (auto* w = of->second->below.find(c.leaf)->second.get(); w->above; w = w->above) {
            waited ? --w->waiting : ++w->waiting;
            if (waited || w->waiting != 1)
                continue;
            w->start = w->above->time;
            w->since = ++last_;
        }
    }
}

// Brings the claims of a leaf and all nodes above it up to date, after one of them has changed.
void rate_tree_turns::path_changes(tree_node leaf, tick t) noexcept {
    if (claims_.empty())
        return;
    rate_tree::path const from(tree_.nodes_, leaf);
    if (auto const found = claims_.find(leaf); found != claims_.end()) {
        auto& c = *found->second;
        if (!c.place)
            c.place = own_.extract(&c);
        auto const& least = tree_.nodes_.kind(leaf).least;
        if (c.count != 0 && !c.held && c.count <= least.burst) {
            auto const lacking = tree_.drops_of(c.count) - tree_.saved(leaf, t);
            c.own_at = tree_nodes::later_by(t, ticks_for(lacking, least.by_nanosecond));
            own_.insert(std::move(c.place));
        }
    }
    for (std::size_t level = 1; level != from.size(); ++level) {
        auto const of = lenders_.find(from[level]);
        if (of == lenders_.end())
            continue;
        for (std::size_t i = 0; i != level; ++i) {
            auto const w = of->second->below.find(from[i]);
            if (w != of->second->below.end()) {
                update(w->second.get(), t);
                break;
            }
        }
        refresh(*of->second, t);
    }
}

// Brings the tag and the state of a node and all nodes above it up to date.
void rate_tree_turns::update(turn* w, tick t) noexcept {
    for (; w->above; w = w->above) {
        detach(*w);
        auto const* const leaf = first(*w);
        if (!leaf || (w == leaf && !can_ever_lend(*w)))
            continue;
        auto const n = leaf->asks->count;
        w->end = w->start + length(w->node, n);
        auto const wait = tree_.ticks_to_borrow(w->node, tree_.drops_of(n), t);
        if (wait == 0) {
            w->at = turn::state::has_turns;
            w->above->children.insert(std::move(w->place));
        } else {
            w->until = tree_nodes::later_by(t, wait);
            w->at = turn::state::stopped;
            w->of->later.insert(std::move(w->place));
        }
    }
}

void rate_tree_turns::detach(turn& w) noexcept {
    if (w.at == turn::state::has_turns)
        w.place = w.above->children.extract(&w);
    else if (w.at == turn::state::stopped)
        w.place = w.of->later.extract(&w);
    w.at = turn::state::passed_over;
}

void rate_tree_turns::end_stops(lender& of, tick t) noexcept {
    while (!of.later.empty() && (*of.later.begin())->until <= t)
        update(*of.later.begin(), t);
}

// Sets when the lender may grant a request next.
void rate_tree_turns::refresh(lender& of, tick t) noexcept {
    if (!of.place)
        of.place = by_depth_[of.depth].extract(&of);
    of.next = of.later.empty() ? last_tick : (*of.later.begin())->until;
    if (auto const* const leaf = first(of.top); leaf && !leaf->asks->held) {
        tree_.nodes_.update_sums(of.top.node, t);
        auto const wait =
            tree_.nodes_.ticks_to_spare(of.top.node, tree_.drops_of(leaf->asks->count), t, true);
        of.next = std::min(of.next, tree_nodes::later_by(t, wait));
    }
    by_depth_[of.depth].insert(std::move(of.place));
}

// Returns the leaf that has the next turn below a node, or null.
rate_tree_turns::turn* rate_tree_turns::first(turn& top) noexcept {
    auto* w = &top;
    while (!w->asks) {
        if (w->children.empty())
            return nullptr;
        w = *w->children.begin();
    }
    return w;
}

// Returns whether the lender can grant the first request of a leaf at any time.
bool rate_tree_turns::can_ever_lend(turn const& leaf) const noexcept {
    auto const n = leaf.asks->count;
    if (n == 0 || n > tree_.nodes_.kind(leaf.of->top.node).own)
        return false;
    for (auto const* w = &leaf; w->above; w = w->above) {
        if (n > tree_.nodes_.kind(w->node).can_borrow())
            return false;
    }
    return true;
}

// Returns the lowest lender that can grant its next request now, or null.
rate_tree_turns::lender* rate_tree_turns::next_lender(tick t) noexcept {
    for (auto some = by_depth_.rbegin(); some != by_depth_.rend(); ++some) {
        while (!some->empty() && (*some->begin())->next <= t) {
            auto& of = **some->begin();
            end_stops(of, t);
            auto const* const leaf = first(of.top);
            if (leaf && !leaf->asks->held && leaf->asks->count <= tree_.lends(of.top.node, t))
                return &of;
            refresh(of, t);
        }
    }
    return nullptr;
}

// Moves the tags for a grant of `n` permits by a lender, if requests wait in the leaf. `path_changes` must follow.
void rate_tree_turns::serve(tree_node by, tree_node leaf, amount n) noexcept {
    auto const of = lenders_.find(by);
    if (of == lenders_.end())
        return;
    auto const found = of->second->below.find(leaf);
    if (found == of->second->below.end() || found->second->waiting == 0)
        return;
    for (auto* w = found->second.get(); w->above; w = w->above) {
        detach(*w);
        auto const end = w->start + length(w->node, n);
        auto& time = w->above->time;
        if (static_cast<drops>(end - time) > 0)
            time = end;
        w->start = time;
        w->since = ++last_;
    }
}

rate_tree_turns::tag rate_tree_turns::length(tree_node node, amount n) const noexcept {
    return static_cast<tag>(n) *
           static_cast<tag>(
               detail::all_weights / static_cast<std::uint64_t>(tree_.nodes_.kind(node).weight));
}

}  // namespace weir::inline v0_2::policy
