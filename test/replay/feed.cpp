// Reading of logs: several logs, and unreadable lines.

#include "replay/feed.hpp"

#include "config/read.hpp"
#include "support/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(logs_of_a_replay)

namespace {

// A line in the format `combined`, `second` seconds after midnight.
std::string line(int second, std::string_view agent = "agent") {
    return fmt::format("10.0.0.1 - - [01/Aug/1995:{:02}:{:02}:{:02} +0000] \"GET / HTTP/1.0\" 200 "
                       "5 \"-\" \"{}\"\n",
                       second / 3600, second / 60 % 60, second % 60, agent);
}

struct logs_here {
    void write(char const* name, std::string const& text) {
        std::ofstream(folder / name, std::ios::binary) << text;
        options.files.push_back((folder / name).string());
    }
    replay::reading read() {
        replay::settings s;
        s.watcher = [this](replay::decision const& d) {
            seconds.push_back(
                static_cast<int>(std::chrono::floor<std::chrono::seconds>(d.at).count() % 86400));
        };
        replay::simulation sim(s, {plan});
        replay::log_set logs(options);
        return logs.feed(sim);
    }
    std::string wrong() {
        try {
            static_cast<void>(read());
        } catch (logs::input_error const& e) {
            return e.what();
        }
        return "nothing";
    }

    support::temporary_folder folder{"weir-logs-"};
    replay::logs_options options;
    replay::plan plan = [] {
        replay::plan p;
        p.rules = {replay::rule::parse("1000/1s")};
        return p;
    }();
    std::vector<int> seconds;  // of the requests, in order of arrival
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(are_merged_by_time, logs_here) {
    write("a", line(0) + line(600) + line(1200));
    write("b", line(300) + line(900) + line(900) + line(3600));
    write("c", line(100));
    auto const r = read();
    BOOST_TEST(r.lines == 8u);
    BOOST_TEST(r.unreadable == 0u);
    BOOST_TEST((seconds == std::vector{0, 100, 300, 600, 900, 900, 1200, 3600}));
    BOOST_TEST(r.files.size() == 3u);
    BOOST_TEST(r.files[0].format == "combined");
}

BOOST_FIXTURE_TEST_CASE(may_have_some_unreadable_lines, logs_here) {
    std::string nineteen;
    for (int i = 0; i != 19; ++i)
        nineteen += line(i);
    write("a", nineteen + "no line\n");
    auto const r = read();  // 1 of 20 is unreadable, exactly 5 %
    BOOST_TEST(r.lines == 20u);
    BOOST_TEST(r.unreadable == 1u);
    BOOST_REQUIRE(r.shown.size() == 1u);
    BOOST_TEST(r.shown[0].number == 20u);
    BOOST_TEST(r.shown[0].text == "no line");
    options.most_unreadable = 0.049;
    BOOST_TEST(wrong().find("1 of 20 lines are unreadable (limit 4.9 %)") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(report_the_first_unreadable_lines, logs_here) {
    options.format = "combined";
    write("a", line(0) + "one\n\ntwo\nthree\nfour\nfive\x07\n");
    options.most_unreadable = 1;
    auto const r = read();
    BOOST_TEST(r.lines == 6u);  // empty lines do not count
    BOOST_TEST(r.unreadable == 5u);
    BOOST_REQUIRE(r.shown.size() == 3u);
    BOOST_TEST(r.shown[2].text == "three");
    BOOST_TEST(r.shown[2].number == 5u);
}

BOOST_FIXTURE_TEST_CASE(skip_lines_that_are_too_late, logs_here) {
    write("a", line(0) + line(600) + line(540) + line(539));
    options.most_unreadable = 1;
    auto const r = read();
    BOOST_TEST((seconds == std::vector{0, 540, 600}));
    BOOST_TEST(r.unreadable == 1u);
}

BOOST_FIXTURE_TEST_CASE(need_at_least_one_line, logs_here) {
    write("a", "");
    BOOST_TEST(wrong() != "nothing");
}

// A field is missing if it is absent or `-` in all lines.
BOOST_FIXTURE_TEST_CASE(report_missing_fields, logs_here) {
    plan.file = std::make_shared<config::configuration const>(config::read(
        "[[upstream]]\nname = \"u\"\nservers = \"a:1\"\n"
        "[[limit]]\nname = \"a\"\nrule = \"1/1s\"\nkey = \"header User-Agent\"\n"
        "[[limit]]\nname = \"b\"\nrule = \"1/1s\"\nkey = \"header X-Other\"\n",
        "test"));
    auto const missing = [this](std::string const& log) {
        options.files.clear();
        write("a", log);
        std::string names;
        for (auto const& one : read().missing)
            if (one.what == logs::key_source::kind::field)
                names += one.name + "; ";
        return names;
    };
    BOOST_TEST(missing(line(0, "x")) == "header X-Other; ");
    BOOST_TEST(missing(line(0, "-") + line(1, "x")) == "header X-Other; ");
    std::string late;
    for (int i = 0; i != 3'000; ++i)
        late += line(i, "-");
    BOOST_TEST(missing(late + line(3'000, "x")) == "header X-Other; ");
    BOOST_TEST(missing(line(0, "-") + line(1, "-")) == "header User-Agent; header X-Other; ");
}

BOOST_AUTO_TEST_SUITE_END()
