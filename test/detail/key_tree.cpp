#include <weir/detail/key_tree.hpp>

#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

BOOST_AUTO_TEST_SUITE(a_tree_of_keys)

namespace {

struct leaf : weir::detail::key_tree_hook<leaf> {
    explicit leaf(std::uint64_t k) { key = k; }
};
using tree = weir::detail::key_tree<leaf>;

}  // namespace

BOOST_AUTO_TEST_CASE(finds_its_elements) {
    tree keys;
    BOOST_TEST(keys.find(0) == nullptr);
    leaf zero(0), one(1), last(~std::uint64_t{0});
    keys.insert(zero);
    keys.insert(one);
    keys.insert(last);
    BOOST_TEST(keys.find(0) == &zero);
    BOOST_TEST(keys.find(1) == &one);
    BOOST_TEST(keys.find(~std::uint64_t{0}) == &last);
    BOOST_TEST(keys.find(2) == nullptr);
    keys.erase(zero);
    BOOST_TEST(keys.find(0) == nullptr);
    BOOST_TEST(keys.find(1) == &one);
    BOOST_TEST(keys.find(~std::uint64_t{0}) == &last);
    keys.erase(last);
    keys.erase(one);
    BOOST_TEST(keys.find(1) == nullptr);
}

// Compared with a map, with keys that differ in one bit, and keys like addresses.
BOOST_AUTO_TEST_CASE(finds_the_same_as_a_map) {
    support::random_source random(1);
    tree keys;
    std::map<std::uint64_t, std::unique_ptr<leaf>> truth;
    std::uint64_t found = 0;
    for (int i = 0; i != 100'000; ++i) {
        auto const n = random.bits() % 64;
        std::uint64_t const key = random.one_in(2) ? std::uint64_t{1} << n : n * 4096;
        auto const it = truth.find(key);
        BOOST_REQUIRE(keys.find(key) == (it == truth.end() ? nullptr : it->second.get()));
        if (it == truth.end()) {
            keys.insert(*truth.emplace(key, std::make_unique<leaf>(key)).first->second);
        } else {
            ++found;
            keys.erase(*it->second);
            truth.erase(it);
        }
    }
    BOOST_TEST(found > 40'000U);
}

BOOST_AUTO_TEST_SUITE_END()
