#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>

namespace weir {

/// The seed that makes the hashes of each limiter different, so that an attacker cannot find colliding keys.
struct hash_seed {
    /// The first half of the seed.
    std::uint64_t a = 0;
    /// The second half of the seed.
    std::uint64_t b = 0;

    /// Returns a seed from `std::random_device`, or from `testing::seed` if it was called.
    [[nodiscard]] static hash_seed random();
};

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

}  // namespace weir
