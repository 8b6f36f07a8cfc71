#include <weir/key_hash.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

using weir::hash_seed;
using weir::key_hash;

BOOST_AUTO_TEST_SUITE(hash_of_keys)

// The hashes of CPython 3.11 for the same bytes with PYTHONHASHSEED=0, and the first SipHash-1-3 test vector of Rust's
// standard library.
BOOST_AUTO_TEST_CASE(of_text_is_siphash_1_3) {
    hash_seed const zero;
    key_hash const hash;
    BOOST_TEST(hash(zero, "a") == 0x407448d2b89b1813U);
    BOOST_TEST(hash(zero, "abcdefg") == 0x6db12aae9070f506U);
    BOOST_TEST(hash(zero, "abcdefgh") == 0x3f7b849c0b8e35eaU);
    BOOST_TEST(hash(zero, "abcdefghi") == 0xf89b34a3d11eb6e5U);
    BOOST_TEST(hash(zero, "The quick brown fox jumps over the lazy dog") == 0x8df676d3d00c451eU);
    BOOST_TEST(hash({0x0706050403020100, 0x0f0e0d0c0b0a0908}, "") == 0xabac0158050fc4dcU);
}

BOOST_AUTO_TEST_CASE(is_the_same_for_all_types_that_compare_equal) {
    auto const seed = hash_seed::random();
    key_hash const hash;
    BOOST_TEST(hash(seed, "client") == hash(seed, std::string("client")));
    BOOST_TEST(hash(seed, std::string_view("client")) == hash(seed, std::string("client")));
    BOOST_TEST(hash(seed, 5) == hash(seed, std::uint64_t{5}));
    BOOST_TEST(hash(seed, -5) == hash(seed, std::int64_t{-5}));
}

BOOST_AUTO_TEST_CASE(differs_with_each_seed) {
    auto const one = hash_seed::random();
    auto const other = hash_seed::random();
    key_hash const hash;
    BOOST_TEST(hash(one, 5) != hash(other, 5));
    BOOST_TEST(hash(one, "client") != hash(other, "client"));
}

// Multiples of a power of two, which are hard for many hashes, spread over the bits that a table uses.
BOOST_AUTO_TEST_CASE(of_numbers_that_differ_in_few_bits_differs_in_many_bits) {
    auto const seed = hash_seed::random();
    key_hash const hash;
    for (int shift : {0, 8, 20, 32, 44}) {
        std::set<std::uint64_t> first_bits;
        std::set<std::uint64_t> last_bits;
        for (std::uint64_t i = 0; i != 4'096; ++i) {
            first_bits.insert(hash(seed, i << shift) >> 52);
            last_bits.insert(hash(seed, i << shift) & 0xfff);
        }
        // With as many random values as buckets, 63 % of the buckets are hit.
        BOOST_TEST(first_bits.size() > 2'400U);
        BOOST_TEST(last_bits.size() > 2'400U);
    }
}

// Different values of one type are different keys.
BOOST_AUTO_TEST_CASE(selects_the_types_that_are_like_keys) {
    using weir::key_like;
    static_assert(key_like<std::uint64_t, std::uint64_t> && key_like<std::uint32_t, std::uint64_t>);
    static_assert(key_like<int, std::uint64_t> && key_like<std::int64_t, std::uint64_t>);
    static_assert(key_like<std::uint32_t, std::int64_t> && key_like<std::int8_t, std::uint8_t>);
    static_assert(!key_like<std::uint64_t, std::uint32_t> && !key_like<std::int64_t, int>);
    static_assert(!key_like<int, std::uint16_t> && !key_like<std::uint64_t, std::int32_t>);

    static_assert(key_like<bool, bool> && key_like<char, char> && key_like<double, double>);
    static_assert(!key_like<bool, int> && !key_like<char, int> && !key_like<char32_t, int>);
    static_assert(!key_like<int, bool> && !key_like<std::uint8_t, char> &&
                  !key_like<char, wchar_t>);
    static_assert(!key_like<double, int> && !key_like<int, double> && !key_like<float, double>);

    enum plain : std::uint8_t {};
    enum class scoped : std::uint8_t {};
    static_assert(key_like<plain, plain> && key_like<scoped, scoped>);
    static_assert(!key_like<plain, int> && !key_like<std::uint8_t, plain>);

    static_assert(key_like<std::string_view, std::string> && key_like<char[7], std::string>);
    static_assert(key_like<char const*, std::string> && key_like<std::string, std::string>);
    static_assert(!key_like<int, std::string> && !key_like<std::string, int>);
    static_assert(!key_like<std::chrono::seconds, std::uint64_t>);
    static_assert(!key_like<std::chrono::seconds, std::string>);

    struct without_hash {
        bool operator==(without_hash const&) const = default;
    };
    static_assert(!key_like<without_hash, without_hash>);
    BOOST_TEST(true);
}

BOOST_AUTO_TEST_SUITE_END()
