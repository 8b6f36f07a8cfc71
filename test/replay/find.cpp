// The search for the least number that is enough.

#include "replay/find.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t asked = 100'000;

struct search {
    // How many of these are rejected with a number.
    explicit search(std::function<std::uint64_t(std::int64_t)> f) : rejected(std::move(f)) {}

    std::optional<std::int64_t> find(std::string const& what = "7/1s", double most = 0.01) {
        auto const u = replay::unknown::parse(what);
        auto const prefix = what.starts_with("patience") ? std::string("patience ") : std::string();
        auto const found = replay::find({}, u, most, [&](std::vector<replay::plan> const& plans) {
            ++replays;
            std::vector<replay::outcome> all;
            for (auto const& p : plans) {
                auto& o = all.emplace_back();
                o.name = p.name;
                o.rejected = rejected(std::stoll(p.name.substr(prefix.size())));
                o.at_once = asked - o.rejected;
            }
            return all;
        });
        neighbours.clear();
        for (auto const& o : found.neighbours)
            neighbours.push_back(o.name);
        return found.number;
    }

    std::function<std::uint64_t(std::int64_t)> rejected;
    int replays = 0;
    std::vector<std::string> neighbours;
};

// Enough is as many rejections as may be, and one more is too many.
search from(std::int64_t least) {
    return search([least](std::int64_t n) { return n >= least ? 1000u : 1001u; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_search)

BOOST_AUTO_TEST_CASE(finds_the_least_number_that_is_enough) {
    for (std::int64_t const least :
         {1,   2,   3,   4,   5,   7,   8,   9,   15,   16,     17,     31,     32,     33,     100,
          255, 256, 257, 511, 512, 513, 998, 999, 1000, 16'384, 16'385, 65'536, 99'999, 100'000}) {
        auto one = from(least);
        BOOST_TEST((one.find() == least), least);
        BOOST_TEST(one.replays <= 9, least);
    }
}

BOOST_AUTO_TEST_CASE(finds_a_patience_in_milliseconds) {
    for (std::int64_t const least : {0, 1, 2, 1000, 12'345, 86'399'999, 86'400'000})
        BOOST_TEST((from(least).find("patience 1s") == least), least);
}

BOOST_AUTO_TEST_CASE(has_the_numbers_around_it) {
    auto one = from(5);
    BOOST_TEST((one.find() == 5));
    BOOST_TEST((one.neighbours == std::vector<std::string>{"4/1s", "5/1s", "6/1s"}));
    auto least = from(1);
    BOOST_TEST((least.find() == 1));
    BOOST_TEST((least.neighbours == std::vector<std::string>{"1/1s", "2/1s"}));
    auto patience = from(0);
    BOOST_TEST((patience.find("patience 1s") == 0));
    BOOST_TEST((patience.neighbours == std::vector<std::string>{"patience 0ms", "patience 1ms"}));
}

// As many as would let all requests go at once are enough, if any number is.
BOOST_AUTO_TEST_CASE(may_find_none) {
    auto none = from(1'000'000'000'000);
    BOOST_TEST(!none.find().has_value());
    BOOST_TEST((none.neighbours == std::vector<std::string>{"100000/1s"}));
    BOOST_TEST(none.replays <= 3);
}

BOOST_AUTO_TEST_SUITE_END()
