#include "tool/trouble.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>

using namespace std::chrono_literals;
using tool::troubles;

namespace {
constexpr troubles::clock::time_point begin{};
}

BOOST_AUTO_TEST_CASE(a_trouble_is_said_once_and_then_how_often) {
    troubles all;
    BOOST_TEST(all.tell("no server", 1, begin) == "no server\n");
    for (int i = 0; i != 5; ++i)
        BOOST_TEST(all.tell("no server", 2, begin + 1s).empty());
    BOOST_TEST(all.look(begin + 60s - 1ns).empty());
    BOOST_TEST(all.look(begin + 60s) == "no server (10 times in the last 60 s)\n");
    BOOST_TEST(all.look(begin + 61s).empty());
    BOOST_TEST(all.tell("no server", 1, begin + 100s).empty());
    BOOST_TEST(all.look(begin + 120s) == "no server (1 times in the last 60 s)\n");
}

BOOST_AUTO_TEST_CASE(one_that_comes_several_times_at_once_is_counted_whole) {
    troubles all;
    BOOST_TEST(all.tell("no server", 7, begin) == "no server\n");
    BOOST_TEST(all.look(begin + 60s) == "no server (6 times in the last 60 s)\n");
}

BOOST_AUTO_TEST_CASE(one_that_is_over_is_forgotten_and_said_again_when_it_comes_back) {
    troubles all;
    BOOST_TEST(all.tell("no server", 1, begin) == "no server\n");
    BOOST_TEST(all.look(begin + 60s).empty());
    BOOST_TEST(all.tell("no server", 1, begin + 61s) == "no server\n");
}

BOOST_AUTO_TEST_CASE(others_are_others) {
    troubles all;
    BOOST_TEST(all.tell("a", 1, begin) == "a\n");
    BOOST_TEST(all.tell("b", 1, begin) == "b\n");
    BOOST_TEST(all.tell("b", 1, begin).empty());
    BOOST_TEST(all.look(begin + 60s) == "b (1 times in the last 60 s)\n");
}

BOOST_AUTO_TEST_CASE(no_more_are_kept_than_so_many) {
    troubles all;
    for (std::size_t i = 0; i != troubles::most; ++i)
        BOOST_TEST(!all.tell(std::to_string(i), 1, begin).empty());
    for (int i = 0; i != 3; ++i)
        BOOST_TEST(!all.tell("one more", 1, begin).empty());
    BOOST_TEST(all.tell("0", 1, begin).empty());
}

BOOST_AUTO_TEST_CASE(levels_have_names) {
    for (auto const l : {tool::level::error, tool::level::warning, tool::level::info})
        BOOST_TEST((tool::level_of(to_string(l)) == l));
    BOOST_TEST(!tool::level_of("debug"));
}
