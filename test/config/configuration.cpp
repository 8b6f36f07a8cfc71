// Values of a configuration: seats, and the rules that a store supports.

#include "config/configuration.hpp"

#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

// Files of this folder are compiled together.
namespace values_of_a_configuration {
namespace {

weir::knee_options adaptive(std::string_view text) {
    auto const rule = config::seats_named(text);
    BOOST_REQUIRE(rule.has_value());
    return std::get<weir::knee_options>(std::get<weir::adaptive_options>(rule->options));
}

config::server with_seats(weir::amount n) {
    config::server s;
    s.seats = n;
    return s;
}

// Why a store does not support the rule; `nothing` if it does.
std::string wrong_for_an_store(std::string const& rule) {
    config::limit l;
    l.rule = config::rule_of(rule);
    try {
        static_cast<void>(shared_rule_of(l));
    } catch (std::invalid_argument const& e) {
        return e.what();
    }
    return "nothing";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(seats)

BOOST_AUTO_TEST_CASE(adapt_from_1_to_1000_or_between_given_bounds) {
    BOOST_TEST(adaptive("adaptive").min == 1);
    BOOST_TEST(adaptive("adaptive").max == 1000);
    BOOST_TEST(adaptive("adaptive 4..200").min == 4);
    BOOST_TEST(adaptive("adaptive 4..200").max == 200);
    BOOST_TEST(config::most_seats(*config::seats_named("adaptive 4..200")) == 200);
    BOOST_TEST(config::most_seats(*config::seats_named("64")) == 64);
}

BOOST_AUTO_TEST_CASE(start_within_their_bounds) {
    for (std::string_view const bounds :
         {"adaptive 1..1", "adaptive 4..4", "adaptive 1..5", "adaptive 900..1000000000"}) {
        auto const o = adaptive(bounds);
        BOOST_TEST(o.seats >= o.min, bounds);
        BOOST_TEST(o.seats <= o.max, bounds);
    }
}

BOOST_AUTO_TEST_CASE(reject_invalid_texts) {
    for (std::string_view const right : {"1", "1000000000", "adaptive 1..1000000000"})
        BOOST_TEST(config::seats_named(right).has_value(), right);
    for (std::string_view const wrong :
         {"", "0", "-1", "1000000001", "3 seats", "adaptively", "adaptive ", "adaptive4..5",
          "adaptive 4", "adaptive 0..5", "adaptive 5..4", "adaptive 1..1000000001", "adaptive 4..",
          "adaptive ..5", "adaptive 4..5 "})
        BOOST_TEST(!config::seats_named(wrong).has_value(), wrong);
}

// If all servers of an upstream have seats, their sum is a limit.
BOOST_AUTO_TEST_CASE(of_an_upstream_are_the_sum_over_its_servers) {
    config::upstream u{.name = "shop", .servers = {with_seats(3), with_seats(4)}, .health = {}};
    auto const l = config::seats_of(u);
    BOOST_REQUIRE(l.has_value());
    BOOST_TEST(to_string(l->rule) == "7 seats");
    BOOST_TEST(!l->queue.patience.is_set());
    u.servers.insert(u.servers.begin(), config::server());
    BOOST_TEST(!config::seats_of(u).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_store)

BOOST_AUTO_TEST_CASE(supports_a_rate_with_or_without_a_burst) {
    BOOST_TEST(wrong_for_an_store("100/1s") == "nothing");
    BOOST_TEST(wrong_for_an_store("100/1s burst 20") == "nothing");
    for (std::string const rule :
         {"3 seats", "3 seats rest 1s", "10/60s sliding", "10/60s fixed", "9/day", "100/1s leaky",
          "1/1s & 2/1min", "100/1s burst 20 initial 0", "100/1s burst 20 refill interval"}) {
        auto const wrong = wrong_for_an_store(rule);
        BOOST_TEST(wrong == "a store supports rules such as 100/1s and 100/1s burst 20", rule);
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace values_of_a_configuration
