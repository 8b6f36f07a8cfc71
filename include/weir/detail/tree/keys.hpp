#pragma once

#include <weir/key_hash.hpp>
#include <weir/policy/rate_tree_turns.hpp>
#include <weir/time.hpp>
#include <weir/tree_path.hpp>

#include <boost/container/static_vector.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::inline v0_2::detail {

/// The keys of a tree of rates: their names, and what the limiter knows of each leaf. A key is forgotten when its node
/// has recovered and nothing refers to it.
///
/// Memory: 48 bytes for a key, and 12 on average for its place in the table; a name of 16 bytes or more also takes a
/// block.
template <class Line>
class tree_keys {
public:
    using node = policy::tree_node;

    /// The data of a node beside its permits.
    struct entry {
        std::string name;           // of a key
        std::uint32_t parent = 0;   // the number of its parent
        std::uint32_t permits = 0;  // permit objects that refer to it
        Line* line = nullptr;       // while requests wait there
        bool is_stored = false;
    };

    explicit tree_keys(policy::rate_tree_turns& turns) : turns_(turns), seed_(hash_seed::random()) {
        reserve(turns.tree().plan());
    }

    /// A node that the table has, or the kind of node that it would be.
    struct found {
        std::optional<node> at;
        std::uint32_t kind = policy::tree_kind::none;  // `none` if the options have no such node
    };
    [[nodiscard]] found find(tree_path const& path) const noexcept {
        found result{policy::rate_tree::root(), 0};
        for (auto const name : path)
            result = child(result, name);
        return result;
    }

    /// Adds the keys of a path that are new. Returns nothing if there is no place or no memory for one of them.
    [[nodiscard]] std::optional<node> insert(tree_path const& path, time_point now) noexcept {
        found at{policy::rate_tree::root(), 0};
        for (auto const name : path) {
            auto next = child(at, name);
            if (!next.at && next.kind != policy::tree_kind::none)
                next.at = add(*at.at, name, now);
            if (!next.at)
                return {};
            at = next;
        }
        return at.at;
    }

    /// Returns the names from the root to a node.
    [[nodiscard]] tree_path path_of(node n) const {
        boost::container::static_vector<std::string_view, tree_path::max_size> names;
        while (n != policy::rate_tree::root()) {
            auto const& e = kinds_[n.kind].entries[n.number];
            std::string_view const path = plan(n.kind).path;
            names.insert(names.begin(), plan(n.kind).is_a_key ? std::string_view(e.name)
                                                              : path.substr(path.rfind('/') + 1));
            n = {plan(n.kind).parent, e.parent};
        }
        return tree_path(std::span(std::as_const(names)));
    }
    [[nodiscard]] bool is_a_key(node n) const noexcept { return plan(n.kind).is_a_key; }
    /// Returns the numbers of the kinds that the options have, the deepest first.
    [[nodiscard]] std::vector<std::uint32_t> kinds_upwards() const {
        std::vector<std::uint32_t> kinds;
        for (std::uint32_t i = 0; i != turns_.tree().plan().kinds.size(); ++i) {
            if (plan(i).is_used)
                kinds.push_back(i);
        }
        std::ranges::sort(kinds, {}, [&](std::uint32_t i) {
            return std::pair(i == 0 ? 0 : -std::ranges::count(plan(i).path, '/'), i);
        });
        return kinds;
    }
    /// Calls `f(node)` for the nodes of a kind, from a number on, of which it examines `count` at most. Returns the
    /// number to continue with, or 0 at the end.
    template <class F>
    std::uint32_t each_of(std::uint32_t kind, std::uint32_t from, std::uint32_t count, F f) const {
        auto const& entries = kinds_[kind].entries;
        auto const size = static_cast<std::uint32_t>(entries.size());
        auto const end = from < size ? from + std::min(count, size - from) : size;
        for (; from < end; ++from) {
            if (entries[from].is_stored || !plan(kind).is_a_key)
                f(node{kind, from});
        }
        return end == size ? 0 : end;
    }

    // Permits and lines carry a node as one word.

    [[nodiscard]] std::uint64_t word_of(node n) const noexcept {
        return std::uint64_t{kinds_[n.kind].incarnation} << 48 | std::uint64_t{n.kind} << 32 |
               n.number;
    }
    /// Returns the node, unless the options have removed it.
    [[nodiscard]] std::optional<node> node_of(std::uint64_t word) const noexcept {
        node const n{static_cast<std::uint32_t>(word >> 32 & 0xffff),
                     static_cast<std::uint32_t>(word)};
        if (n.kind >= kinds_.size() || kinds_[n.kind].incarnation != word >> 48)
            return {};
        return n;
    }
    [[nodiscard]] entry& of(node n) noexcept { return kinds_[n.kind].entries[n.number]; }

    /// Prepares for other options, which may be adopted afterwards or not. Throws `std::bad_alloc`.
    void reserve(policy::tree_plan const& next) {
        kinds_.resize(std::max(next.kinds.size(), kinds_.size()));
        for (std::size_t i = 0; i != next.kinds.size(); ++i) {
            if (!next.kinds[i].is_a_key && kinds_[i].entries.empty())
                kinds_[i].entries.resize(1);
        }
    }
    /// Forgets what the options have no longer. The words of such nodes are of no node from then on.
    void forget_removed() noexcept {
        for (std::uint32_t i = 0; i != turns_.tree().plan().kinds.size(); ++i) {
            auto& kind = kinds_[i];
            if (plan(i).is_used || kind.entries.empty())
                continue;
            for (std::uint32_t n = 0; n != kind.entries.size(); ++n) {
                if (kind.entries[n].is_stored)
                    names_.erase(node{i, n});
            }
            kind.entries.clear();
            ++kind.incarnation;
        }
    }
    [[nodiscard]] std::size_t size() const noexcept { return names_.size(); }

private:
    // The number of entries that are searched for keys to forget when a new key comes, and when there is no place.
    static constexpr int tidied = 8;
    static constexpr int tidied_if_full = 72;

    struct keys_of_kind {
        std::vector<entry> entries;
        std::uint32_t hand = 0;  // where the search continues
        std::uint16_t incarnation = 0;
    };
    struct name_below {
        node parent;
        std::uint32_t kind;
        std::string_view name;
    };
    struct hash {
        using is_transparent = void;
        tree_keys const* keys;

        std::size_t operator()(name_below const& n) const noexcept {
            auto const mixed = (std::uint64_t{n.kind} << 32 | n.parent.number) * 0x9e3779b97f4a7c15;
            return static_cast<std::size_t>(key_hash()(keys->seed_, n.name) ^ mixed ^ mixed >> 32);
        }
        std::size_t operator()(node n) const noexcept { return (*this)(keys->name_of(n)); }
    };
    struct equal {
        using is_transparent = void;
        tree_keys const* keys;

        bool operator()(name_below const& a, node b) const noexcept {
            auto const& e = keys->kinds_[b.kind].entries[b.number];
            return a.kind == b.kind && a.parent.number == e.parent && a.name == e.name;
        }
        bool operator()(node a, name_below const& b) const noexcept { return (*this)(b, a); }
        bool operator()(node a, node b) const noexcept { return a == b; }
    };

    [[nodiscard]] policy::tree_kind const& plan(std::uint32_t kind) const noexcept {
        return turns_.tree().plan().kinds[kind];
    }
    [[nodiscard]] name_below name_of(node n) const noexcept {
        auto const& e = kinds_[n.kind].entries[n.number];
        return {{plan(n.kind).parent, e.parent}, n.kind, e.name};
    }
    // `kind` of the result is `none` if the options have no such child.
    [[nodiscard]] found child(found const& parent, std::string_view name) const noexcept {
        auto const none = policy::tree_kind::none;
        if (parent.kind == none)
            return {{}, none};
        if (parent.at) {
            if (auto const named = turns_.tree().find(*parent.at, name))
                return {named, named->kind};
        }
        auto const kind = plan(parent.kind).key;
        if (kind == none || !parent.at)
            return {{}, kind};
        auto const at = names_.find(name_below{*parent.at, kind, name});
        return {at == names_.end() ? std::nullopt : std::optional(*at), kind};
    }

    [[nodiscard]] std::optional<node> add(node parent, std::string_view name,
                                          time_point now) noexcept {
        auto const kind = plan(parent.kind).key;
        tidy(kind, tidied, now);
        std::optional<node> at;
        try {
            at = turns_.add(parent);
            if (!at) {
                tidy(kind, tidied_if_full, now);
                at = turns_.add(parent);
            }
            if (!at)
                return {};
            auto& entries = kinds_[kind].entries;
            if (entries.size() <= at->number)
                entries.resize(at->number + 1);
            auto& e = entries[at->number];
            e.name = name;
            e.parent = parent.number;
            names_.insert(*at);
            e.is_stored = true;
            return at;
        } catch (std::bad_alloc const&) {
            if (at)
                static_cast<void>(turns_.forget(*at, now));
            return {};
        }
    }
    void tidy(std::uint32_t kind, int places, time_point now) noexcept {
        auto& of_kind = kinds_[kind];
        for (; places != 0 && !of_kind.entries.empty(); --places) {
            if (of_kind.hand >= of_kind.entries.size())
                of_kind.hand = 0;
            node const n{kind, of_kind.hand++};
            auto& e = of(n);
            if (!e.is_stored || e.permits != 0 || !turns_.forget(n, now))
                continue;
            names_.erase(n);
            e = entry();
        }
    }

    policy::rate_tree_turns& turns_;
    hash_seed seed_;
    std::vector<keys_of_kind> kinds_;
    boost::unordered_flat_set<node, hash, equal> names_{0, hash{this}, equal{this}};
};

}  // namespace weir::inline v0_2::detail
