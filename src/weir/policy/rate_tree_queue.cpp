#include <weir/policy/rate_tree_queue.hpp>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace weir::inline v0_2::policy {
namespace {

constexpr auto last_tick = std::numeric_limits<tree_nodes::tick>::max();

// The least common multiple of all weights.
constexpr std::int64_t all_weights = 144'403'552'893'600;

// An allocated element, which a set takes without an allocation.
template <class Set, class T>
typename Set::node_type place_for(T* element) {
    Set set;
    set.insert(element);
    return set.extract(set.begin());
}

}  // namespace

// A node that waits for permits of one lender, or the lender.
struct rate_tree_queue::waiting {
    enum class state : std::uint8_t { passed_over, has_turns, stopped };

    tree_node node;
    lender* of = nullptr;
    waiting* above = nullptr;  // null if it is the lender
    line* requests = nullptr;  // of a leaf
    state at = state::passed_over;
    tag start = 0;
    tag end = 0;  // the tag of the first request
    std::uint64_t since = 0;
    tick until = 0;  // while it is stopped by its most
    turns::node_type place = {};

    // For a node that is not a leaf.
    turns children = {};  // the children that have turns
    std::size_t all_children = 0;
    tag time = 0;
};

struct rate_tree_queue::lender {
    waiting top = {};
    std::size_t depth = 0;
    tick next = last_tick;  // when a request may be granted or is no longer stopped
    std::unordered_map<tree_node, std::unique_ptr<waiting>, node_hash> below = {};
    stopped later = {};
    lenders::node_type place = {};
};

// The requests of a leaf.
struct rate_tree_queue::line {
    tree_node leaf;
    std::list<request> requests = {};
    std::uint64_t since = 0;
    tick own_at = last_tick;  // when the leaf has saved the permits of the first request
    own_claims::node_type place = {};
};

bool rate_tree_queue::by_tag::operator()(waiting const* a, waiting const* b) const noexcept {
    auto const difference = static_cast<drops>(a->end - b->end);
    return difference != 0 ? difference < 0 : a->since < b->since;
}
bool rate_tree_queue::by_until::operator()(waiting const* a, waiting const* b) const noexcept {
    return a->until != b->until ? a->until < b->until : a->since < b->since;
}
bool rate_tree_queue::by_own::operator()(line const* a, line const* b) const noexcept {
    return a->own_at != b->own_at ? a->own_at < b->own_at : a->since < b->since;
}
bool rate_tree_queue::by_next::operator()(lender const* a, lender const* b) const noexcept {
    return a->next != b->next ? a->next < b->next : a->top.since < b->top.since;
}

rate_tree_queue::rate_tree_queue(rate_tree tree)
    : tree_(std::move(tree)), by_depth_(tree_plan::greatest_depth + 1) {}
rate_tree_queue::rate_tree_queue(rate_tree_queue&&) noexcept = default;
rate_tree_queue& rate_tree_queue::operator=(rate_tree_queue&&) noexcept = default;
rate_tree_queue::~rate_tree_queue() = default;

// ---- Requests

std::optional<ticket> rate_tree_queue::try_take(tree_node leaf, amount n, time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    rate_tree::path const from(tree_.nodes_, leaf);
    if (has_waiting(leaf))
        return {};
    std::optional<std::size_t> level;
    if (n <= tree_.nodes_.kind(leaf).least.burst && tree_.saved(leaf, t) >= tree_.drops_of(n))
        level = 0;
    for (std::size_t i = 1; !level && i != from.size(); ++i) {
        if (n > tree_.borrows(from[i - 1], t))
            return {};
        auto const found = lenders_.find(from[i]);
        if (found != lenders_.end()) {
            end_stops(*found->second, t);
            if (first(found->second->top))
                continue;
        }
        if (n <= tree_.lends(from[i], t))
            level = i;
    }
    if (!level)
        return {};
    tree_.take_from(*level, from, tree_.drops_of(n), t);
    path_changes(leaf, t);
    return *level;
}

rate_tree_queue::place rate_tree_queue::push(tree_node leaf, amount n, std::uint64_t id,
                                             time_point now) {
    std::list<request> added;
    added.push_back({leaf, n, id});
    auto const at = added.begin();
    bool const is_first = !has_waiting(leaf);
    if (is_first)
        open(leaf);
    auto& requests = lines_.find(leaf)->second->requests;
    requests.splice(requests.end(), added);
    ++size_;
    if (is_first)
        path_changes(leaf, tree_nodes::tick_of(now));
    return at;
}

void rate_tree_queue::erase(place at, time_point now) noexcept {
    auto const leaf = at->leaf;
    auto& l = *lines_.find(leaf)->second;
    bool const is_first = at == l.requests.begin();
    l.requests.erase(at);
    --size_;
    if (l.requests.empty())
        close(leaf);
    if (is_first)
        path_changes(leaf, tree_nodes::tick_of(now));
}

std::optional<rate_tree_queue::grant> rate_tree_queue::pop(time_point now) noexcept {
    auto const t = tree_nodes::tick_of(now);
    line* granted = nullptr;
    std::size_t level = 0;
    if (!own_.empty() && (*own_.begin())->own_at <= t) {
        granted = *own_.begin();
    } else if (auto* const by = next_lender(t)) {
        auto* const leaf = first(by->top);
        granted = leaf->requests;
        for (auto const* above = leaf; above->above; above = above->above)
            ++level;
        serve(leaf);
    }
    if (!granted)
        return {};
    grant const result{granted->requests.front(), level};
    rate_tree::path const from(tree_.nodes_, granted->leaf);
    tree_.take_from(level, from, tree_.drops_of(result.asked.count), t);
    granted->requests.pop_front();
    --size_;
    if (granted->requests.empty())
        close(result.asked.leaf);
    path_changes(result.asked.leaf, t);
    return result;
}

time_point rate_tree_queue::next_at() const noexcept {
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

ticket rate_tree_queue::charge(tree_node leaf, amount n, time_point now) noexcept {
    auto const result = tree_.take(leaf, n, now);
    path_changes(leaf, tree_nodes::tick_of(now));
    return result;
}

bool rate_tree_queue::refund(tree_node leaf, amount n, ticket t, time_point now) noexcept {
    bool const freed = tree_.refund(leaf, n, t, now);
    path_changes(leaf, tree_nodes::tick_of(now));
    return freed;
}

bool rate_tree_queue::forget(tree_node key, time_point now) noexcept {
    return !has_waiting(key) && tree_.forget(key, now);
}

std::list<rate_tree_queue::request> rate_tree_queue::configure(rate_tree_options const& options,
                                                               time_point now) {
    auto tree = tree_;
    tree.configure(options, now);
    rate_tree_queue next(std::move(tree));
    std::vector<line*> all;
    for (auto const& [leaf, l] : lines_)
        all.push_back(l.get());
    std::ranges::sort(all, {}, &line::since);
    auto const is_kept = [&](tree_node leaf) {
        auto const& kind = next.tree_.nodes_.kind(leaf);
        return kind.is_used && kind.is_leaf();
    };
    for (auto const* const l : all) {
        if (is_kept(l->leaf))
            next.open(l->leaf);
    }
    // From here on nothing throws.
    std::list<request> removed;
    for (auto* const l : all) {
        if (!is_kept(l->leaf)) {
            removed.splice(removed.end(), l->requests);
            continue;
        }
        auto const most = next.tree_.capacity(l->leaf);
        auto& kept = next.lines_.find(l->leaf)->second->requests;
        while (!l->requests.empty()) {
            auto& to = l->requests.front().count > most ? removed : kept;
            to.splice(to.end(), l->requests, l->requests.begin());
        }
        next.size_ += kept.size();
        if (kept.empty())
            next.close(l->leaf);
    }
    for (auto const* const l : all) {
        if (next.has_waiting(l->leaf))
            next.path_changes(l->leaf, tree_nodes::tick_of(now));
    }
    *this = std::move(next);
    return removed;
}

// ---- Leaves that begin and end to wait

void rate_tree_queue::open(tree_node leaf) {
    rate_tree::path const from(tree_.nodes_, leaf);
    auto& l = lines_[leaf];
    try {
        l = std::make_unique<line>(line{.leaf = leaf, .since = ++last_});
        l->place = place_for<own_claims>(l.get());
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
                    w = std::make_unique<waiting>();
                    w->node = from[i];
                    w->of = of.get();
                    w->above = above;
                    w->start = above->time;
                    w->since = ++last_;
                    w->requests = i == 0 ? l.get() : nullptr;
                    ++above->all_children;
                    w->place = place_for<turns>(w.get());
                }
                above = w.get();
            }
        }
    } catch (...) {
        close(leaf);
        throw;
    }
}

// Removes a leaf, and the nodes above it in which no other leaf waits. `open` may have added only a part of them.
void rate_tree_queue::close(tree_node leaf) noexcept {
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
    auto const l = lines_.find(leaf);
    if (l->second && !l->second->place)
        own_.extract(l->second.get());
    lines_.erase(l);
}

// ---- Turns

// Brings the claims of a leaf and all nodes above it up to date, after one of them has changed.
void rate_tree_queue::path_changes(tree_node leaf, tick t) noexcept {
    if (lines_.empty())
        return;
    rate_tree::path const from(tree_.nodes_, leaf);
    if (auto const found = lines_.find(leaf); found != lines_.end()) {
        auto& l = *found->second;
        if (!l.place)
            l.place = own_.extract(&l);
        auto const& least = tree_.nodes_.kind(leaf).least;
        auto const n = l.requests.front().count;
        if (n <= least.burst) {
            auto const lacking = tree_.drops_of(n) - tree_.saved(leaf, t);
            l.own_at = tree_nodes::later_by(t, ticks_for(lacking, least.by_nanosecond));
            own_.insert(std::move(l.place));
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
void rate_tree_queue::update(waiting* w, tick t) noexcept {
    for (; w->above; w = w->above) {
        detach(*w);
        auto const* const leaf = first(*w);
        if (!leaf || (w == leaf && !can_ever_lend(*w)))
            continue;
        auto const n = leaf->requests->requests.front().count;
        auto const weight = tree_.nodes_.kind(w->node).weight;
        w->end = w->start + static_cast<tag>(n) * static_cast<tag>(all_weights / weight);
        auto const wait = tree_.ticks_to_borrow(w->node, tree_.drops_of(n), t);
        if (wait == 0) {
            w->at = waiting::state::has_turns;
            w->above->children.insert(std::move(w->place));
        } else {
            w->until = tree_nodes::later_by(t, wait);
            w->at = waiting::state::stopped;
            w->of->later.insert(std::move(w->place));
        }
    }
}

void rate_tree_queue::detach(waiting& w) noexcept {
    if (w.at == waiting::state::has_turns)
        w.place = w.above->children.extract(&w);
    else if (w.at == waiting::state::stopped)
        w.place = w.of->later.extract(&w);
    w.at = waiting::state::passed_over;
}

void rate_tree_queue::end_stops(lender& of, tick t) noexcept {
    while (!of.later.empty() && (*of.later.begin())->until <= t)
        update(*of.later.begin(), t);
}

// Sets when the lender may grant a request next.
void rate_tree_queue::refresh(lender& of, tick t) noexcept {
    if (!of.place)
        of.place = by_depth_[of.depth].extract(&of);
    of.next = of.later.empty() ? last_tick : (*of.later.begin())->until;
    if (auto const* const leaf = first(of.top)) {
        auto const n = tree_.drops_of(leaf->requests->requests.front().count);
        tree_.nodes_.settle(of.top.node, t);
        auto const wait = tree_.nodes_.ticks_to_spare(of.top.node, n, t, true);
        of.next = std::min(of.next, tree_nodes::later_by(t, wait));
    }
    by_depth_[of.depth].insert(std::move(of.place));
}

// Returns the leaf that has the next turn below a node, or null.
rate_tree_queue::waiting* rate_tree_queue::first(waiting& top) noexcept {
    auto* w = &top;
    while (!w->requests) {
        if (w->children.empty())
            return nullptr;
        w = *w->children.begin();
    }
    return w;
}

// Returns whether the lender can grant the first request of a leaf at any time.
bool rate_tree_queue::can_ever_lend(waiting const& leaf) const noexcept {
    auto const n = leaf.requests->requests.front().count;
    if (n > tree_.nodes_.kind(leaf.of->top.node).own)
        return false;
    for (auto const* w = &leaf; w->above; w = w->above) {
        if (n > tree_.nodes_.kind(w->node).can_borrow())
            return false;
    }
    return true;
}

// Returns the lowest lender that can grant its next request now, or null.
rate_tree_queue::lender* rate_tree_queue::next_lender(tick t) noexcept {
    for (auto some = by_depth_.rbegin(); some != by_depth_.rend(); ++some) {
        while (!some->empty() && (*some->begin())->next <= t) {
            auto& of = **some->begin();
            end_stops(of, t);
            auto const* const leaf = first(of.top);
            if (leaf && leaf->requests->requests.front().count <= tree_.lends(of.top.node, t))
                return &of;
            refresh(of, t);
        }
    }
    return nullptr;
}

// Moves the tags for a grant. `path_changes` must follow.
void rate_tree_queue::serve(waiting* leaf) noexcept {
    for (auto* w = leaf; w->above; w = w->above) {
        detach(*w);
        auto& time = w->above->time;
        if (static_cast<drops>(w->end - time) > 0)
            time = w->end;
        w->start = time;
        w->since = ++last_;
    }
}

}  // namespace weir::inline v0_2::policy
