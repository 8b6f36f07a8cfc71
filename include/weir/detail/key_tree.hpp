#pragma once

#include <weir/detail/random.hpp>

#include <array>
#include <cstdint>
#include <utility>

namespace weir::detail {

/// What an element of a `key_tree` derives from.
template <class T>
struct key_tree_hook {
    std::uint64_t key = 0;
    std::array<T*, 2> below{};
    T** place = nullptr;  // the pointer that points here
};

/// Elements by their keys, of which no two are the same: it owns nothing and allocates nothing.
///
/// An element is found in as many steps as a key has bits, 64, at the most, whatever the keys are; those that
/// are spread evenly, as they are mixed here, in about as many as the number of elements has.
/// Source: Coffman and Eve, "File structures using hashing functions", CACM 13(7), 1970: a digital search tree.
template <class T>
class key_tree {
public:
    [[nodiscard]] T* find(std::uint64_t key) const noexcept {
        auto path = mix_bits(key);
        T* at = root_;
        for (; at && at->key != key; path >>= 1)
            at = at->below[path & 1];
        return at;
    }

    /// No element may have its key yet.
    void insert(T& element) noexcept {
        auto path = mix_bits(element.key);
        T** place = &root_;
        for (; *place; path >>= 1)
            place = &(*place)->below[path & 1];
        element.below = {};
        put(&element, place);
    }

    /// A leaf from below takes its place: the way there is the beginning of the leaf's own.
    void erase(T& element) noexcept {
        T* leaf = &element;
        while (T* const next = leaf->below[0] ? leaf->below[0] : leaf->below[1])
            leaf = next;
        *leaf->place = nullptr;
        if (leaf == &element)
            return;
        for (std::size_t side : {0U, 1U}) {
            leaf->below[side] = element.below[side];
            if (leaf->below[side])
                leaf->below[side]->place = &leaf->below[side];
        }
        put(leaf, element.place);
    }

private:
    static void put(T* element, T** place) noexcept {
        element->place = place;
        *place = element;
    }

    T* root_ = nullptr;
};

}  // namespace weir::detail
