#pragma once

#include <weir/amount.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>

namespace weir::inline v0_2 {

/// The seed that makes the hashes of each limiter different, so that an attacker cannot find colliding keys.
struct hash_seed {
    /// The first half of the seed.
    std::uint64_t a = 0;
    /// The second half of the seed.
    std::uint64_t b = 0;

    /// Returns a seed from `std::random_device`, or from `testing::seed` if it was called.
    [[nodiscard]] static hash_seed random();
};

namespace detail {

template <class Key>
concept standard_hashable = requires(Key const& key) {
    { std::hash<Key>()(key) } -> std::convertible_to<std::size_t>;
};

template <class T>
concept scalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;

/// Whether different values of `Like` become different keys.
template <class Like, class Key>
concept distinct_as = std::same_as<Like, Key> || !scalar<Like> || !scalar<Key> ||
                      (number<Like> && number<Key> && sizeof(Like) <= sizeof(Key));

template <class Like, class Key>
concept comparable_with =
    std::constructible_from<Key, Like const&> && requires(Like const& like, Key const& key) {
        { key == like } -> std::convertible_to<bool>;
    };

template <class Like, class Hash>
concept hashed_by = requires(Like const& like, hash_seed const& seed, Hash const& hash) {
    { hash(seed, like) } -> std::convertible_to<std::uint64_t>;
};

}  // namespace detail

/// Hashes the keys of `keyed` with a seed. Types that compare equal have equal hashes: all strings, as
/// `std::string_view`, and all integers.
///
/// Integers, enumerations and pointers are multiplied with the seed, and strings are hashed by SipHash-1-3: keys that
/// an attacker selected collide no more often than other keys. Any other type is hashed by `std::hash` first, and
/// collisions there are collisions here. If untrusted clients select such keys, provide another hash.
///
/// Another hash is a type like this one. It is callable with a seed and a key, of each type that is used for lookups.
/// It returns 64 bits, all of which are used, and does not throw.
///
/// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), with 1 and 3 rounds.
struct key_hash {
    /// Returns the hash of a key.
    template <class Key>
        requires std::convertible_to<Key const&, std::string_view> || std::is_enum_v<Key> ||
                 std::integral<Key> || std::is_pointer_v<Key> || detail::standard_hashable<Key>
    [[nodiscard]] std::uint64_t operator()(hash_seed const& seed, Key const& key) const noexcept {
        if constexpr (std::convertible_to<Key const&, std::string_view>)
            return of_bytes(seed, key);
        else if constexpr (std::is_enum_v<Key> || std::integral<Key>)
            return of_number(seed, static_cast<std::uint64_t>(key));
        else if constexpr (std::is_pointer_v<Key>)
            return of_number(seed, reinterpret_cast<std::uintptr_t>(key));
        else
            return of_number(seed, std::hash<Key>()(key));
    }

private:
    [[nodiscard]] static std::uint64_t of_bytes(hash_seed const& seed,
                                                std::string_view bytes) noexcept;
    [[nodiscard]] static constexpr std::uint64_t of_number(hash_seed const& seed,
                                                           std::uint64_t n) noexcept {
        return fold(fold(n ^ seed.a, seed.b | 1) ^ seed.b, 0x9e3779b97f4a7c15);
    }
    // Returns the two halves of the product, combined by XOR.
    [[nodiscard]] static constexpr std::uint64_t fold(std::uint64_t x, std::uint64_t y) noexcept {
        __extension__ using wide = unsigned __int128;
        auto const product = static_cast<wide>(x) * y;
        return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    }
};

/// A type by which `keyed` finds its keys, such as `std::string_view` for the keys `std::string`: `Hash` hashes it, it
/// compares with a `Key`, and a `Key` can be made of it.
///
/// An integer is like a key if its type is not wider than `Key`, so that different values are different keys: `int` for
/// `std::uint64_t`, where -1 is the greatest key, but not `std::uint64_t` for `std::uint32_t`. `bool`, characters,
/// enumerations and floating-point numbers are only like keys of the same type.
template <class Like, class Key, class Hash = key_hash>
concept key_like = detail::distinct_as<Like, Key> && detail::comparable_with<Like, Key> &&
                   detail::hashed_by<Like, Hash>;

}  // namespace weir::inline v0_2
