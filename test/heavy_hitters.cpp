#include <weir/heavy_hitters.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using counted = weir::heavy_hitters<std::string>;

// Some hashes are equal.
std::uint64_t hash_of(std::string const& key) {
    return std::uint64_t{key.size() % 3} << 32;
}
void count(counted& c, std::string const& key, std::uint64_t times = 1, std::uint64_t error = 0) {
    auto const same = [&](std::string const& other) { return other == key; };
    auto const& kept = c.count(hash_of(key), same, [&] { return key; }, times, error);
    BOOST_TEST_REQUIRE(kept == key);
}

struct numbers {
    std::uint64_t count, error;
};
std::map<std::string, numbers> all_of(counted const& c) {
    std::map<std::string, numbers> found;
    c.for_each([&](auto const& f) {
        BOOST_TEST_REQUIRE(found.try_emplace(f.key, numbers{f.count, f.error}).second);
        BOOST_TEST_REQUIRE(f.hash == hash_of(f.key));
    });
    return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(heavy_hitters)

BOOST_AUTO_TEST_CASE(are_exact_while_counters_are_free) {
    counted c(3);
    BOOST_TEST(c.count_without_counter() == 0U);
    count(c, "a", 5);
    count(c, "b");
    count(c, "c", 2);
    count(c, "b", 3);
    auto const found = all_of(c);
    BOOST_TEST((found.size() == 3 && found.at("a").count == 5 && found.at("b").count == 4));
    BOOST_TEST((found.at("c").count == 2 && found.at("c").error == 0));
    BOOST_TEST(c.count_without_counter() == 2U);
    // The key with the smallest count is replaced.
    count(c, "d", 10);
    auto const later = all_of(c);
    BOOST_TEST(!later.contains("c"));
    BOOST_TEST((later.at("d").count == 12 && later.at("d").error == 2));
    BOOST_TEST(c.find(hash_of("c"), [](auto const& k) { return k == "c"; }) == nullptr);
    BOOST_TEST(*c.find(hash_of("d"), [](auto const& k) { return k == "d"; }) == "d");
}

BOOST_AUTO_TEST_CASE(keep_their_bounds_for_any_number_of_events_per_call) {
    std::mt19937 random(1);
    for (std::uint32_t const counters : {1U, 2U, 3U, 8U, 50U}) {
        counted c(counters);
        std::map<std::string, std::uint64_t> truth;
        std::uint64_t events = 0;
        for (int i = 0; i != 5'000; ++i) {
            auto const key = std::string(1 + random() % 7, static_cast<char>('a' + random() % 6));
            auto const times = random() % 4 == 0 ? 1 + random() % 100 : 1;
            auto const error = random() % 50 == 0 ? 1U : 0U;  // of a merged count
            count(c, key, times, error);
            truth[key] += times - std::min<std::uint64_t>(error, times);
            events += times;
            auto const found = all_of(c);
            BOOST_TEST_REQUIRE(found.size() == std::min<std::size_t>(counters, truth.size()));
            std::uint64_t sum = 0, least = ~std::uint64_t{0};
            for (auto const& [name, n] : found) {
                sum += n.count;
                least = std::min(least, n.count);
                BOOST_TEST_REQUIRE(truth.at(name) <= n.count);
                BOOST_TEST_REQUIRE(n.count <= truth.at(name) + n.error);
            }
            BOOST_TEST_REQUIRE(sum == events);
            BOOST_TEST_REQUIRE(c.count_without_counter() == (found.size() == counters ? least : 0));
            BOOST_TEST_REQUIRE(c.count_without_counter() <= events / counters);
            for (auto const& [name, n] : truth)
                BOOST_TEST_REQUIRE((found.contains(name) || n <= c.count_without_counter()));
        }
        c.clear();
        BOOST_TEST(all_of(c).empty());
        count(c, "a");
        BOOST_TEST(all_of(c).at("a").count == 1U);
    }
}

BOOST_AUTO_TEST_CASE(count_nothing_if_a_key_cannot_be_created) {
    counted c(1);
    count(c, "a");
    auto const fails = []() -> std::string { throw std::runtime_error("no memory"); };
    BOOST_CHECK_THROW(c.count(0, [](auto const&) { return false; }, fails), std::runtime_error);
    BOOST_TEST(all_of(c).at("a").count == 1U);
}

BOOST_AUTO_TEST_CASE(may_have_no_counter) {
    counted const c(0);
    BOOST_TEST(!c.is_on());
    BOOST_TEST(c.count_without_counter() == 0U);
    BOOST_TEST(all_of(c).empty());
}

BOOST_AUTO_TEST_SUITE_END()
