#include "replay/spread.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

using namespace std::chrono_literals;
using replay::nanoseconds;
using replay::service_time;
using replay::spread;

BOOST_AUTO_TEST_SUITE(replay_spread)

namespace {

std::vector<nanoseconds> offsets(spread const& s, std::int64_t second, std::size_t count) {
    std::vector<nanoseconds> out{7ns};
    s.offsets(second, count, out);
    return out;
}

constexpr spread even{.how = spread::kind::even};
constexpr spread burst{.how = spread::kind::burst};
constexpr spread at_random{.how = spread::kind::at_random};

}  // namespace

BOOST_AUTO_TEST_SUITE(spreads)

BOOST_AUTO_TEST_CASE(are_parsed_and_printed) {
    struct row {
        std::string_view given, found;
    };
    for (auto const& [given, found] :
         {row{"even", "even"}, row{"burst", "burst"}, row{"random", "random 1"},
          row{"random 1", "random 1"}, row{"random 0", "random 0"},
          row{"random 9223372036854775807", "random 9223372036854775807"}}) {
        auto const made = spread::parse(given);
        BOOST_TEST_REQUIRE(made.has_value(), given);
        BOOST_TEST(to_string(*made) == found);
        BOOST_TEST(to_string(*spread::parse(found)) == found);
    }
    for (std::string_view const wrong :
         {"", "Even", "even ", "evenly", "burst 1", "randomly", "random ", "random x", "random -1",
          "random 1 ", "random  1", "random 9223372036854775808", "random1"})
        BOOST_TEST(!spread::parse(wrong), wrong);
}

BOOST_AUTO_TEST_CASE(even_has_equal_distances) {
    BOOST_TEST((offsets(even, 5, 0) == std::vector<nanoseconds>{}));
    BOOST_TEST((offsets(even, 5, 1) == std::vector<nanoseconds>{0ns}));
    BOOST_TEST((offsets(even, 5, 4) == std::vector<nanoseconds>{0ns, 250ms, 500ms, 750ms}));
    BOOST_TEST(
        (offsets(even, 5, 3) == std::vector<nanoseconds>{0ns, 333'333'333ns, 666'666'666ns}));
    BOOST_TEST((offsets(even, 5, 1'000'000).back() == 999'999us));
}

BOOST_AUTO_TEST_CASE(a_burst_arrives_at_the_start_of_the_second) {
    BOOST_TEST((offsets(burst, 5, 3) == std::vector<nanoseconds>(3, 0ns)));
}

BOOST_AUTO_TEST_CASE(random_is_sorted_and_uniform_over_the_second) {
    for (std::int64_t second = 807'249'600; second != 807'249'700; ++second)
        for (std::size_t const count : {1U, 2U, 3U, 50U}) {
            auto const found = offsets(at_random, second, count);
            BOOST_TEST_REQUIRE(found.size() == count);
            BOOST_TEST_REQUIRE(std::ranges::is_sorted(found));
            BOOST_TEST_REQUIRE((found.front() >= 0ns && found.back() < 1s));
        }
    // Each tenth of the second has a tenth of many requests.
    auto const many = offsets(at_random, 1, 100'000);
    for (int tenth = 0; tenth != 10; ++tenth) {
        auto const n = std::ranges::count_if(many, [&](nanoseconds t) {
            return t >= tenth * 100ms && t < (tenth + 1) * 100ms;
        });
        BOOST_TEST((n > 9'500 && n < 10'500), n);
    }
}

BOOST_AUTO_TEST_CASE(random_depends_on_the_second_and_the_seed) {
    auto const first = offsets(at_random, 5, 10);
    BOOST_TEST((offsets(at_random, 5, 10) == first));
    BOOST_TEST((offsets(at_random, 6, 10) != first));
    BOOST_TEST((offsets(*spread::parse("random 2"), 5, 10) != first));
    BOOST_TEST((offsets(*spread::parse("random"), 5, 10) == first));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(service_times)

BOOST_AUTO_TEST_CASE(are_parsed_and_printed) {
    for (std::string_view const text :
         {"50ms", "0s", "exponential 50ms", "10ms..90ms", "0s..1h", "5s..5s"}) {
        auto const made = service_time::parse(text);
        BOOST_TEST_REQUIRE(made.has_value(), text);
        BOOST_TEST(to_string(*made) == text);
    }
    for (std::string_view const wrong :
         {"", "50", "exponential", "exponential ", "exponential 50", "exponential 1ms..2ms", "..",
          "1ms..", "..1ms", "2ms..1ms", "1ms...2ms", "1ms..2ms..3ms", "1ms .. 2ms", "-1ms"})
        BOOST_TEST(!service_time::parse(wrong), wrong);
}

BOOST_AUTO_TEST_CASE(have_the_requested_distribution) {
    auto const fixed = *service_time::parse("50ms");
    BOOST_TEST((fixed.of(0) == 50ms && fixed.of(99) == 50ms));
    auto const uniform = *service_time::parse("10ms..90ms");
    auto const exponential = *service_time::parse("exponential 50ms");
    nanoseconds least = 1h, most = 0s, sum_of_uniform = 0s, sum_of_exponential = 0s;
    constexpr int n = 100'000;
    int long_ones = 0;
    for (std::uint64_t i = 0; i != n; ++i) {
        auto const t = uniform.of(i);
        least = std::min(least, t);
        most = std::max(most, t);
        sum_of_uniform += t;
        BOOST_TEST_REQUIRE((exponential.of(i) >= 0ns));
        sum_of_exponential += exponential.of(i);
        long_ones += exponential.of(i) > 150ms ? 1 : 0;
    }
    BOOST_TEST((least >= 10ms && least < 11ms));
    BOOST_TEST((most < 90ms && most > 89ms));
    BOOST_TEST((sum_of_uniform / n > 49ms && sum_of_uniform / n < 51ms));
    BOOST_TEST((sum_of_exponential / n > 49ms && sum_of_exponential / n < 51ms));
    BOOST_TEST((long_ones > 4'700 && long_ones < 5'300), long_ones);  // the share is 1/e^3
    BOOST_TEST((uniform.of(7) == uniform.of(7) && uniform.of(7) != uniform.of(8)));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
