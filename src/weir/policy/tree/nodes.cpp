#include <weir/policy/tree/nodes.hpp>

#include <algorithm>
#include <array>
#include <limits>

namespace weir::inline v0_2::policy {
namespace {

template <class T>
std::size_t bytes_of(std::vector<T> const& v) noexcept {
    return v.capacity() * sizeof(T);
}

}  // namespace

drops ticks_for(drops lacking, drops by_tick) noexcept {
    constexpr drops fits = std::numeric_limits<std::int64_t>::max();
    if (lacking <= 0)
        return 0;
    if (lacking <= fits && by_tick <= fits)  // the division in 64 bits is much faster
        return (static_cast<std::int64_t>(lacking) - 1) / static_cast<std::int64_t>(by_tick) + 1;
    return (lacking - 1) / by_tick + 1;
}

// ---- Nodes

tree_nodes::tree_nodes(tree_plan plan) : plan_(std::move(plan)), pools_(plan_.kinds.size()) {
    for (std::uint32_t i = 0; i != pools_.size(); ++i) {
        auto const& kind = plan_.kinds[i];
        if (!kind.is_used || kind.is_a_key)
            continue;
        reserve(i);
        auto const node = put(i, 0);
        if (kind.divides)
            reserve_heap(node, kind.named.size());
    }
}

std::optional<tree_node> tree_nodes::add(tree_node parent) {
    auto const key = kind(parent).key;
    if (key == tree_kind::none)
        return {};
    auto const& added = plan_.kinds[key];
    auto& count = pools_[parent.kind].keys[parent.number];
    if (count >= added.keys || keys_ >= plan_.max_keys || pools_[key].size == tree_kind::none - 1)
        return {};
    reserve(key);
    if (added.least)
        reserve_heap(parent, kind(parent).named.size() + count + 1);
    ++count;
    ++keys_;
    return put(key, parent.number);
}

void tree_nodes::remove(tree_node node) noexcept {
    --keys_;
    --pools_[kind(node).parent].keys[parent_of(node).number];
    link_of(node.kind, node.number) = std::exchange(pools_[node.kind].first_free, node.number);
}

amount tree_nodes::keys_of(tree_node node) const noexcept {
    return kind(node).key == tree_kind::none ? 0 : amount{pools_[node.kind].keys[node.number]};
}

tree_node tree_nodes::parent_of(tree_node node) const noexcept {
    auto const& k = kind(node);
    return {k.parent, k.below_keys ? pools_[node.kind].parent[node.number] : 0};
}

// Makes room for one more node. The memory grows by halves, so at most a third is unused.
void tree_nodes::reserve(std::uint32_t number) {
    auto const& k = plan_.kinds[number];
    auto& p = pools_[number];
    if (p.first_free != tree_kind::none)
        return;
    auto const grow = [&](auto& v, bool is_needed) {
        if (!is_needed || v.capacity() > p.size)
            return;
        auto const greatest = k.below_keys ? std::numeric_limits<std::uint32_t>::max() : k.keys;
        v.reserve(
            static_cast<std::size_t>(std::min<amount>(greatest, amount{p.size} + p.size / 2 + 16)));
    };
    grow(p.least, static_cast<bool>(k.least));
    grow(p.most, static_cast<bool>(k.most));
    grow(p.place, static_cast<bool>(k.least));
    grow(p.parent, k.below_keys);
    grow(p.keys, k.key != tree_kind::none);
    grow(p.below, k.divides);
}

// The heap then has a place for each child, so that no take allocates.
void tree_nodes::reserve_heap(tree_node parent, std::size_t nodes) {
    auto& heap = around(parent).not_full;
    auto const& k = kind(parent);
    auto const keys = k.key == tree_kind::none ? 0 : plan_.kinds[k.key].keys;
    auto const greatest = k.named.size() + static_cast<std::size_t>(keys);
    if (heap.capacity() < nodes)
        heap.reserve(std::min(greatest, nodes + nodes / 2 + 16));
}

tree_node tree_nodes::put(std::uint32_t number, std::uint32_t parent) noexcept {
    auto const& k = plan_.kinds[number];
    auto& p = pools_[number];
    auto const i = p.first_free == tree_kind::none ? p.size++ : p.first_free;
    if (i == p.first_free)
        p.first_free = next_free(number, i);
    auto const set = [&](auto& v, auto value) {
        if (i == v.size())
            v.push_back(std::move(value));
        else
            v[i] = std::move(value);
    };
    if (k.least) {
        set(p.least, drops{});
        set(p.place, nowhere);
    }
    if (k.most)
        set(p.most, drops{});
    if (k.below_keys)
        set(p.parent, parent);
    if (k.key != tree_kind::none)
        set(p.keys, std::uint32_t{});
    if (k.divides && i == p.below.size())
        p.below.emplace_back();  // of a removed node it is empty, with its memory
    return {number, i};
}

// ---- Buckets

void tree_nodes::take_least(tree_node node, drops n, tick t) noexcept {
    auto& full_after = pools_[node.kind].least[node.number];
    auto const& bucket = kind(node).least;
    if (kind(node).parent == tree_kind::none) {
        full_after = std::max(full_after, come(bucket, t)) + n;
        return;
    }
    auto& all = around(parent_of(node));
    auto& place = place_of(node);
    if (place != nowhere) {
        full_after += n;
        all.numbers += static_cast<wrapping>(n);
        return;
    }
    full_after = come(bucket, t) + n;
    all.numbers += static_cast<wrapping>(full_after);
    all.rates += bucket.by_nanosecond;
    all.not_full.push_back({full_at(node, t), node});
    place = static_cast<std::uint32_t>(all.not_full.size() - 1);
    sift_up(all, place);
}

void tree_nodes::take_most(tree_node node, drops n, tick t) noexcept {
    auto& full_after = pools_[node.kind].most[node.number];
    auto const gone = come(kind(node).most, t);
    auto const largest = gone + most_lacks;
    full_after = std::min(std::max(full_after, gone) + n, largest);
}

bool tree_nodes::put_back_least(tree_node node, drops n, tick t) noexcept {
    auto& full_after = pools_[node.kind].least[node.number];
    auto const gone = come(kind(node).least, t);
    if (full_after <= gone)
        return false;
    auto const next = std::max(full_after - n, gone);
    if (kind(node).parent != tree_kind::none) {
        auto& all = around(parent_of(node));
        auto const place = place_of(node);
        if (next == gone) {
            leave_out(all, place);
        } else {
            all.numbers -= static_cast<wrapping>(full_after - next);
            full_after = next;
            auto& at = all.not_full[place].full_at;
            at = std::min(at, full_at(node, t));
            sift_up(all, place);
        }
    }
    full_after = next;
    return true;
}

bool tree_nodes::put_back_most(tree_node node, drops n, tick t) noexcept {
    auto& full_after = pools_[node.kind].most[node.number];
    auto const gone = come(kind(node).most, t);
    if (full_after <= gone)
        return false;
    full_after = std::max(full_after - n, gone);
    return true;
}

void tree_nodes::set_lacks(tree_node node, drops least, drops most, tick t) noexcept {
    if (kind(node).most)
        pools_[node.kind].most[node.number] = come(kind(node).most, t) + most;
    if (!kind(node).least)
        return;
    put_back_least(node, lacks_least(node, t), t);
    if (least != 0)
        take_least(node, least, t);
}

// ---- Children

void tree_nodes::update_sums(tree_node node, tick t) noexcept {
    if (!kind(node).divides)
        return;
    auto& all = around(node);
    while (!all.not_full.empty() && all.not_full.front().full_at <= t) {
        auto& first = all.not_full.front();
        first.full_at = full_at(first.child, t);
        if (first.full_at <= t)
            leave_out(all, 0);
        else
            sift_down(all, 0);
    }
}

drops tree_nodes::spare(tree_node node, tick t) const noexcept {
    return kind(node).own_full - lacks_least(node, t) + lacks_below(node, t);
}

drops tree_nodes::lacks_below(tree_node node, tick t) const noexcept {
    if (!kind(node).divides)
        return 0;
    auto const& all = pools_[node.kind].below[node.number];
    return static_cast<drops>(
        all.numbers - static_cast<wrapping>(t) * static_cast<wrapping>(all.rates));
}

drops tree_nodes::ticks_to_spare(tree_node node, drops n, tick t, bool early) const noexcept {
    auto const& k = kind(node);
    auto const lacks = lacks_least(node, t);
    auto const until_full = ticks_for(lacks, k.least.by_nanosecond);
    if (!k.divides)
        return ticks_for(n - (k.own_full - lacks), k.least.by_nanosecond);

    // From one child that becomes full to the next, `spare` grows evenly.
    auto const& all = pools_[node.kind].below[node.number];
    auto lacking =
        n - spare(node, t);  // at `t`, if the children that are full by then were so at `t`
    auto slope = drops(k.least.by_nanosecond) - all.rates;
    drops from = 0;
    auto const ready = [&] {
        if (lacking <= 0)
            return from;
        return slope > 0 ? std::max(from, ticks_for(lacking, slope)) : until_full;
    };

    // The entries of the heap in order, each twice: with the tick of its heap, and with the true one.
    struct candidate {
        tick full_at;
        std::size_t place;
        bool is_true;
    };
    auto const is_later = [](candidate const& a, candidate const& b) {
        return a.full_at > b.full_at;
    };
    std::array<candidate, 2 * longest_walk + 2> next{};
    std::size_t size = 0;
    auto const push = [&](candidate const& c) {
        next[size++] = c;
        std::push_heap(next.data(), next.data() + size, is_later);
    };
    auto const push_entry = [&](std::size_t place) {
        if (place < all.not_full.size())
            push({all.not_full[place].full_at, place, false});
    };
    push_entry(0);
    for (std::size_t seen = 0; size != 0;) {
        auto const at = ready();
        auto const first = next[0];
        if (drops(first.full_at) - t >= std::min(at, until_full))
            return std::min(at, until_full);
        std::pop_heap(next.data(), next.data() + size--, is_later);
        auto const child = all.not_full[first.place].child;
        if (first.is_true) {
            lacking += lacks_least(child, t);
            slope += kind(child).least.by_nanosecond;
            from = drops(first.full_at) - t;
            continue;
        }
        if (++seen > longest_walk)
            return early ? std::min(drops(first.full_at) - t, until_full) : until_full;
        push({full_at(child, t), first.place, true});
        push_entry(2 * first.place + 1);
        push_entry(2 * first.place + 2);
    }
    return std::min(ready(), until_full);
}

// ---- The heap

tree_nodes::tick tree_nodes::full_at(tree_node node, tick t) const noexcept {
    return later_by(t, ticks_for(lacks_least(node, t), kind(node).least.by_nanosecond));
}

void tree_nodes::put(children& c, std::size_t at, entry const& e) noexcept {
    c.not_full[at] = e;
    place_of(e.child) = static_cast<std::uint32_t>(at);
}

void tree_nodes::sift_up(children& c, std::size_t at) noexcept {
    auto const moved = c.not_full[at];
    for (; at != 0 && moved.full_at < c.not_full[(at - 1) / 2].full_at; at = (at - 1) / 2)
        put(c, at, c.not_full[(at - 1) / 2]);
    put(c, at, moved);
}

void tree_nodes::sift_down(children& c, std::size_t at) noexcept {
    auto const moved = c.not_full[at];
    auto const size = c.not_full.size();
    for (;;) {
        auto below = 2 * at + 1;
        if (below + 1 < size && c.not_full[below + 1].full_at < c.not_full[below].full_at)
            ++below;
        if (below >= size || moved.full_at <= c.not_full[below].full_at)
            break;
        put(c, at, c.not_full[below]);
        at = below;
    }
    put(c, at, moved);
}

// Takes a child out of the sums.
void tree_nodes::leave_out(children& c, std::size_t at) noexcept {
    auto const child = c.not_full[at].child;
    c.numbers -= static_cast<wrapping>(pools_[child.kind].least[child.number]);
    c.rates -= kind(child).least.by_nanosecond;
    place_of(child) = nowhere;
    auto const last = c.not_full.back();
    c.not_full.pop_back();
    if (at == c.not_full.size())
        return;
    put(c, at, last);
    sift_up(c, at);
    sift_down(c, place_of(last.child));
}

// ---- Changes of the plan

void tree_nodes::take_over(tree_nodes const& before, tick t) {
    std::vector<std::uint32_t> keys;  // parents first
    for (std::uint32_t i = 0; i != before.pools_.size(); ++i) {
        if (plan_.kinds[i].is_used && plan_.kinds[i].is_a_key)
            keys.push_back(i);
    }
    std::ranges::sort(keys, {}, [&](std::uint32_t i) { return plan_.kinds[i].path.size(); });
    for (auto const i : keys)
        copy_keys(before, i);
    for (std::uint32_t i = 0; i != pools_.size(); ++i) {
        if (plan_.kinds[i].is_used)
            copy_levels(before, i, t);
    }
}

// Adds the keys of a kind, which are full then.
void tree_nodes::copy_keys(tree_nodes const& before, std::uint32_t number) {
    auto const& k = plan_.kinds[number];
    auto const& old = before.pools_[number];
    auto& p = pools_[number];
    std::vector<std::uint32_t> removed;
    for (auto i = old.first_free; i != tree_kind::none; i = before.next_free(number, i))
        removed.push_back(i);
    std::vector<bool> is_removed(old.size);
    for (auto const i : removed)
        is_removed[i] = true;
    for (std::uint32_t i = 0; i != old.size; ++i) {
        auto const parent = k.below_keys ? old.parent[i] : 0;
        reserve(number);
        put(number, parent);
        if (is_removed[i])
            continue;
        auto& count = pools_[k.parent].keys[parent];
        if (k.least)
            reserve_heap({k.parent, parent}, plan_.kinds[k.parent].named.size() + count + 1);
        ++count;
        ++keys_;
    }
    for (auto i = removed.rbegin(); i != removed.rend(); ++i)
        link_of(number, *i) = std::exchange(p.first_free, *i);
}

// Sets what the nodes of a kind, which are full, have used.
void tree_nodes::copy_levels(tree_nodes const& before, std::uint32_t number, tick t) {
    auto const& k = plan_.kinds[number];
    bool const is_new = number >= before.pools_.size() || !before.plan_.kinds[number].is_used;
    if (is_new) {
        if (k.least && !k.is_a_key)
            take_least({number, 0}, k.least.full, t);
        return;
    }
    auto const& was = before.plan_.kinds[number];
    auto const lack_now = [&](tree_bucket const& now, tree_bucket const& then, drops lacked) {
        bucket_measure const mine{plan_.permit, now.full};
        bucket_measure const theirs{before.plan_.permit, then.full};
        auto const saved = mine.carried(then.full - lacked, theirs, carry_over::as_is);
        return now.full - std::min(saved, now.full);
    };
    std::vector<bool> is_removed(before.pools_[number].size);
    for (auto i = before.pools_[number].first_free; i != tree_kind::none;
         i = before.next_free(number, i))
        is_removed[i] = true;
    for (std::uint32_t i = 0; i != is_removed.size(); ++i) {
        tree_node const node{number, i};
        if (is_removed[i])
            continue;
        if (k.least)
            take_least(node,
                       was.least ? lack_now(k.least, was.least, before.lacks_least(node, t))
                                 : k.least.full,
                       t);
        if (k.most && was.most)
            take_most(node, lack_now(k.most, was.most, before.lacks_most(node, t)), t);
    }
}

std::size_t tree_nodes::heap_bytes() const noexcept {
    std::size_t sum = bytes_of(pools_);
    for (auto const& p : pools_) {
        sum += bytes_of(p.least) + bytes_of(p.most) + bytes_of(p.place) + bytes_of(p.parent) +
               bytes_of(p.keys) + bytes_of(p.below);
        for (auto const& c : p.below)
            sum += bytes_of(c.not_full);
    }
    return sum;
}

}  // namespace weir::inline v0_2::policy
