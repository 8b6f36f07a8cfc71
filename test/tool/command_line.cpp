#include "tool/command_line.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace {

struct settings {
    std::string name;
    bool loud = false;
};

settings parsed(std::vector<char const*> const& words) {
    settings s;
    std::vector<tool::option> const table{
        {"--name", "TEXT", "who", [&](auto, auto v) { s.name = v; }},
        {"--loud", "", "noise", [&](auto, auto) { s.loud = true; }},
    };
    tool::parse(words, table);
    return s;
}

std::string complaint(std::vector<char const*> const& words) {
    try {
        parsed(words);
        return "";
    } catch (tool::usage_error const& wrong) {
        return wrong.what();
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_command_line)

BOOST_AUTO_TEST_CASE(may_be_empty_or_name_each_option_once_in_either_way) {
    BOOST_TEST(parsed({}).name == "");
    BOOST_TEST(parsed({"--name", "a"}).name == "a");
    BOOST_TEST(parsed({"--name=a=b"}).name == "a=b");
    BOOST_TEST(parsed({"--name", "--loud"}).name == "--loud");
    BOOST_TEST(parsed({"--name", "--loud"}).loud == false);
    BOOST_TEST(parsed({"--loud", "--name="}).loud == true);
}

BOOST_AUTO_TEST_CASE(that_is_wrong_is_named) {
    BOOST_TEST(complaint({"--nmae"}) == "there is no option `--nmae`; see --help");
    BOOST_TEST(complaint({"name"}) == "there is no option `name`; see --help");
    BOOST_TEST(complaint({"--loud=1"}) == "--loud takes no value");
    BOOST_TEST(complaint({"--name"}) == "--name is the last word, but must be followed by TEXT");
    BOOST_TEST(complaint({"--name", "a", "--name=b"}) == "--name is given twice");
    BOOST_TEST(complaint({"--loud", "--loud"}) == "--loud is given twice");
}

BOOST_AUTO_TEST_SUITE_END()
