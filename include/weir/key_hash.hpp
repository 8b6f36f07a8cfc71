#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>

namespace weir {

/// What makes the hashes of one limiter differ from those of all others: nobody outside can find keys
/// that collide.
struct hash_seed {
    std::uint64_t a = 0;
    std::uint64_t b = 0;

    /// From `std::random_device`, or as `testing::seed` has it.
    [[nodiscard]] static hash_seed random();
};

/// Hashes the keys of `keyed`, with a seed. Types that compare equal hash alike: all strings, as
/// `std::string_view`, and all integers.
///
/// Integers, enumerations and pointers are multiplied with the seed, and strings go through SipHash-1-3:
/// keys that an attacker has chosen do not collide more often than others. Any other type is hashed by
/// `std::hash` first, and what collides there collides here; for keys that strangers choose, bring a hash
/// of your own.
///
/// A hash of your own is a type like this one: called with a seed and a key, of each type by which keys are
/// looked up, it returns 64 bits, all of which are used, and does not throw.
///
/// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), with 1 and 3 rounds.
struct key_hash {
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
    // Both halves of the product, one over the other.
    [[nodiscard]] static constexpr std::uint64_t fold(std::uint64_t x, std::uint64_t y) noexcept {
        __extension__ using wide = unsigned __int128;
        auto const product = static_cast<wide>(x) * y;
        return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    }
};

}  // namespace weir
