// The search for the smallest sufficient number.

#include "replay/find.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(a_search)

namespace {

constexpr std::uint64_t asked = 100'000;

struct search {
    // `f` returns how many of the `asked` requests are rejected with a given number.
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

// `least` and larger numbers cause exactly the acceptable number of rejections, smaller numbers one more.
search from(std::int64_t least) {
    return search([least](std::int64_t n) { return n >= least ? 1000u : 1001u; });
}

}  // namespace

BOOST_AUTO_TEST_CASE(finds_the_smallest_sufficient_number) {
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

BOOST_AUTO_TEST_CASE(reports_the_adjacent_numbers_too) {
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

// If any number is sufficient, then so is the number of requests, which grants all of them immediately.
BOOST_AUTO_TEST_CASE(reports_if_no_number_is_sufficient) {
    auto none = from(1'000'000'000'000);
    BOOST_TEST(!none.find().has_value());
    BOOST_TEST((none.neighbours == std::vector<std::string>{"100000/1s"}));
    BOOST_TEST(none.replays <= 3);
}

BOOST_AUTO_TEST_SUITE_END()
