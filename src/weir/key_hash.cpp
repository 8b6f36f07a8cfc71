#include <weir/detail/random.hpp>
#include <weir/key_hash.hpp>

#include <bit>
#include <cstring>

namespace weir::inline v0_2 {
namespace {

struct sip_state {
    std::uint64_t v0, v1, v2, v3;

    void round() noexcept {
        v0 += v1;
        v1 = std::rotl(v1, 13) ^ v0;
        v0 = std::rotl(v0, 32);
        v2 += v3;
        v3 = std::rotl(v3, 16) ^ v2;
        v0 += v3;
        v3 = std::rotl(v3, 21) ^ v0;
        v2 += v1;
        v1 = std::rotl(v1, 17) ^ v2;
        v2 = std::rotl(v2, 32);
    }
    void take(std::uint64_t word) noexcept {
        v3 ^= word;
        round();
        v0 ^= word;
    }
};

// The first byte is the lowest.
std::uint64_t little_endian(char const* bytes, std::size_t count) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, count);
    if constexpr (std::endian::native == std::endian::big)
        word = __builtin_bswap64(word);
    return word;
}

}  // namespace

hash_seed hash_seed::random() {
    auto const a = detail::random_bits();
    return {a, detail::random_bits()};
}

std::uint64_t key_hash::of_bytes(hash_seed const& seed, std::string_view bytes) noexcept {
    sip_state s{seed.a ^ 0x736f6d6570736575, seed.b ^ 0x646f72616e646f6d,
                seed.a ^ 0x6c7967656e657261, seed.b ^ 0x7465646279746573};
    auto const whole = bytes.size() & ~std::size_t{7};
    for (std::size_t i = 0; i != whole; i += 8)
        s.take(little_endian(bytes.data() + i, 8));
    s.take(little_endian(bytes.data() + whole, bytes.size() - whole) |
           std::uint64_t{bytes.size()} << 56);
    s.v2 ^= 0xff;
    for (int i = 0; i != 3; ++i)
        s.round();
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

}  // namespace weir::inline v0_2
