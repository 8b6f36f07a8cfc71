#pragma once

#include <weir/detail/random.hpp>

#include <array>
#include <cstdint>
#include <utility>

namespace weir::inline v0_2::detail {

/// The base of an element of a `key_tree`.
template <class T>
struct key_tree_hook {
    std::uint64_t key = 0;
    std::array<T*, 2> below{};
    T** place = nullptr;  // the pointer to this element
};

/// A set of elements with unique keys. It owns nothing and allocates nothing.
///
/// Finding an element takes at most as many steps as a key has bits, 64, for any keys. The tree mixes keys, so that
/// they are spread evenly, and for such keys a search takes about as many steps as the number of elements has bits.
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

    /// Inserts an element whose key is not in the tree.
    void insert(T& element) noexcept {
        auto path = mix_bits(element.key);
        T** place = &root_;
        for (; *place; path >>= 1)
            place = &(*place)->below[path & 1];
        element.below = {};
        put(&element, place);
    }

    /// A leaf below the element takes its place: the path to that place is a prefix of the leaf's path.
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

}  // namespace weir::inline v0_2::detail
