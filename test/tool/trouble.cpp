#include "tool/trouble.hpp"

#include "support/captured_error.hpp"

#include <boost/assert/source_location.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;
using tool::troubles;

namespace {
constexpr troubles::clock::time_point begin{};
}

BOOST_AUTO_TEST_CASE(a_repeated_error_is_reported_once_and_then_counted) {
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

BOOST_AUTO_TEST_CASE(several_occurrences_at_once_are_all_counted) {
    troubles all;
    BOOST_TEST(all.tell("no server", 7, begin) == "no server\n");
    BOOST_TEST(all.look(begin + 60s) == "no server (6 times in the last 60 s)\n");
}

BOOST_AUTO_TEST_CASE(an_error_without_repetition_is_reported_again_after_a_minute) {
    troubles all;
    BOOST_TEST(all.tell("no server", 1, begin) == "no server\n");
    BOOST_TEST(all.look(begin + 60s).empty());
    BOOST_TEST(all.tell("no server", 1, begin + 61s) == "no server\n");
}

BOOST_AUTO_TEST_CASE(different_texts_are_counted_separately) {
    troubles all;
    BOOST_TEST(all.tell("a", 1, begin) == "a\n");
    BOOST_TEST(all.tell("b", 1, begin) == "b\n");
    BOOST_TEST(all.tell("b", 1, begin).empty());
    BOOST_TEST(all.look(begin + 60s) == "b (1 times in the last 60 s)\n");
}

BOOST_AUTO_TEST_CASE(untracked_texts_are_reported_each_time) {
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

BOOST_AUTO_TEST_CASE(lines_below_the_level_are_suppressed) {
    support::captured_error error;
    for (auto const least : {tool::level::error, tool::level::warning, tool::level::info}) {
        tool::set_level(least);
        for (auto const l : {tool::level::error, tool::level::warning, tool::level::info})
            tool::say(l, to_string(l) + ' ');
        tool::say(tool::level::error, "| ");
    }
    BOOST_TEST(error.take() == "error | error warning | error warning info | ");
}

BOOST_AUTO_TEST_CASE(a_report_of_many_lines_is_written_in_full) {
    support::captured_error error;
    tool::set_level(tool::level::info);
    std::string report;
    for (int i = 0; i != 200; ++i)
        report += "line " + std::to_string(i) + std::string(90, '.') + '\n';
    tool::say(tool::level::info, report);
    BOOST_TEST((error.take() == report));
}

BOOST_AUTO_TEST_CASE(lines_without_room_are_missing) {
    support::captured_error error;
    tool::set_level(tool::level::info);
    std::string const line = std::string(99, '.') + '\n';
    std::string report;
    for (int i = 0; i != 2000; ++i)
        report += line;
    tool::say(tool::level::info, report);
    auto const written = error.take();
    BOOST_TEST(written.size() > 4096U);
    BOOST_TEST(written.size() < report.size());
    BOOST_TEST(written.size() % line.size() == 0U);
}

BOOST_AUTO_TEST_CASE(a_reason_names_no_place_in_the_source) {
    static constexpr boost::source_location here = BOOST_CURRENT_LOCATION;
    boost::system::error_code const refused(111, boost::system::system_category(), &here);
    auto const message = refused.message();
    BOOST_TEST(std::string(boost::system::system_error(refused).what()) != message);
    BOOST_TEST(tool::reason_of(boost::system::system_error(refused)) == message);
    BOOST_TEST(tool::reason_of(boost::system::system_error(refused, "connect")) ==
               "connect: " + message);
    BOOST_TEST(tool::reason_of(std::runtime_error("no [file]")) == "no [file]");
}
