#include "replay/options.hpp"

#include "tool/arguments.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

using namespace std::chrono_literals;
using replay::options;

BOOST_AUTO_TEST_SUITE(options_of_weir_replay)

namespace {

options parsed(std::vector<char const*> args) {
    args.insert(args.begin(), "weir-replay");
    return replay::parse_options(static_cast<int>(args.size()), args.data());
}
// Options with a log and a limit.
options with(std::vector<char const*> args) {
    args.insert(args.end(), {"log", "--limit", "100/1s"});
    return parsed(std::move(args));
}

std::string wrong(std::vector<char const*> args, bool has_limit = true) {
    try {
        static_cast<void>(has_limit ? with(std::move(args)) : parsed(std::move(args)));
        return "nothing";
    } catch (tool::usage_error const& e) {
        return e.what();
    }
}

std::string rules_of(replay::plan const& p) {
    std::string all;
    for (auto const& r : p.rules)
        all += (all.empty() ? "" : ", ") + to_string(r);
    for (auto const& r : p.byte_rules)
        all += (all.empty() ? "" : ", ") + to_string(r);
    return all;
}

bool has(std::string const& text, std::string_view part) {
    return text.find(part) != text.npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(have_the_defaults_in_help) {
    auto const o = with({});
    BOOST_TEST((o.logs.files == std::vector<std::string>{"log"}));
    BOOST_TEST(!o.logs.format);
    BOOST_TEST(!o.logs.when);
    BOOST_TEST(o.logs.most_unreadable == 0.05);
    BOOST_TEST(o.plans.size() == 1U);
    auto const& p = o.plans.front();
    BOOST_TEST(rules_of(p) == "100/1s");
    BOOST_TEST(p.name == "100/1s");
    BOOST_TEST(p.queue.max_waiting == 1024);
    BOOST_TEST((p.queue.patience.length_or(0s) == 1s));
    BOOST_TEST(p.max_keys == 100'000U);
    BOOST_TEST(p.v4_prefix == 32);
    BOOST_TEST(p.v6_prefix == 64);
    BOOST_TEST(o.how.v4_prefix == 32);
    BOOST_TEST(o.how.v6_prefix == 64);
    BOOST_TEST(o.how.spreads.size() == 1U);
    BOOST_TEST(to_string(o.how.spreads.front()) == "even");
    BOOST_TEST(!o.is_spread_chosen);
    BOOST_TEST(!o.how.takes);
    BOOST_TEST((o.how.slack == 1min));
    BOOST_TEST(o.how.retries == 0);
    BOOST_TEST(o.how.most_keys == 10U);
    BOOST_TEST(!o.find);
    BOOST_TEST(o.max_rejected == 0.001);
    BOOST_TEST(!o.json);
    BOOST_TEST(o.html == "");
    BOOST_TEST(o.command == "weir-replay log --limit 100/1s");
    BOOST_TEST(o.help == "");
}

BOOST_AUTO_TEST_CASE(have_the_given_values) {
    auto const o = with(
        {"--per-client-rate",
         "1/1s",
         "--max-keys",
         "7",
         "--client-prefix-v4",
         "24",
         "--client-prefix-v6",
         "48",
         "--queue",
         "9",
         "--patience",
         "2s",
         "--service-time",
         "50ms",
         "--retry",
         "3",
         "--spread",
         "random 5",
         "--format",
         "common",
         "--timestamp",
         "end",
         "--slack",
         "1500ms",
         "--max-unreadable",
         "1%",
         "--top",
         "0",
         "--json",
         "--report",
         "a b.html",
         "--host",
         "x"});
    auto const& p = o.plans.front();
    BOOST_TEST(p.max_keys == 7U);
    BOOST_TEST(p.v4_prefix == 24);
    BOOST_TEST(p.v6_prefix == 48);
    BOOST_TEST(o.how.v4_prefix == 24);
    BOOST_TEST(o.how.v6_prefix == 48);
    BOOST_TEST(p.queue.max_waiting == 9);
    BOOST_TEST((p.queue.patience.length_or(0s) == 2s));
    BOOST_TEST(to_string(*o.how.takes) == "50ms");
    BOOST_TEST(o.how.retries == 3);
    BOOST_TEST(to_string(o.how.spreads.front()) == "random 5");
    BOOST_TEST(o.is_spread_chosen);
    BOOST_TEST((o.logs.format == "common"));
    BOOST_TEST((o.logs.when == logs::stamped::at_the_end));
    BOOST_TEST((with({"--timestamp", "start"}).logs.when == logs::stamped::at_the_beginning));
    BOOST_TEST((o.how.slack == 2s));  // rounded up
    BOOST_TEST(o.logs.most_unreadable == 0.01);
    BOOST_TEST(o.how.most_keys == 0U);
    BOOST_TEST(o.json);
    BOOST_TEST(o.html == "a b.html");
    BOOST_TEST(o.how.host == "x");
    BOOST_TEST(has(o.command, " --spread 'random 5' "));
    BOOST_TEST(has(o.command, " --report 'a b.html' "));
    BOOST_TEST(has(with({"--host", "it's"}).command, R"( --host 'it'\''s' )"));
    BOOST_TEST(has(with({"--host", ""}).command, " --host '' "));
}

// Limits per key come before limits of all requests, and seats before rates.
BOOST_AUTO_TEST_CASE(sort_limits) {
    auto const o = parsed({"log", "--rate", "5/1s", "--per-client-rate", "2/1s", "--seats", "3",
                           "--per-client-seats", "1"});
    BOOST_TEST(rules_of(o.plans.front()) == "1 seats per client, 2/1s per client, 3 seats, 5/1s");
    BOOST_TEST(rules_of(parsed({"log", "--seats", "adaptive 4..200"}).plans.front()) ==
               to_string(*config::seats_named("adaptive 4..200")));
    BOOST_TEST(
        rules_of(parsed({"log", "--limit", "1/1s per header Host", "--limit", "2/1s per field x",
                         "--limit", "3/1s per path"})
                     .plans.front()) == "1/1s per header Host, 2/1s per field x, 3/1s per path");
}

BOOST_AUTO_TEST_CASE(name_the_option_the_value_and_the_bound) {
    struct row {
        std::vector<char const*> args;
        std::string_view message;
    };
    for (auto const& [args, message] : {
             row{{"--max-keys", "0"},
                 "--max-keys is `0`, but must be a number from 1 to 1000000000"},
             row{{"--max-keys", "1000000001"}, "from 1 to 1000000000"},
             row{{"--client-prefix-v4", "33"},
                 "--client-prefix-v4 is `33`, but must be a number from 0 to 32"},
             row{{"--client-prefix-v6", "65"},
                 "--client-prefix-v6 is `65`, but must be a number from 0 to 64"},
             row{{"--per-client-seats", "0"},
                 "--per-client-seats is `0`, but must be a number from 1 to 1000000000"},
             row{{"--seats", "0"}, "--seats is `0`, but must be a number from 1 to 1000000000"},
             row{{"--rate", "x"}, "--rate is `x`, but must be a rule"},
             row{{"--limit", "1/1s per planet"},
                 "unknown key `planet`: use client, header NAME, path N"},
             row{{"--limit", "1/1s per path 0"}, "unknown key `path 0`"},
             row{{"--limit", "1/1s per path 101"}, "unknown key `path 101`"},
             row{{"--limit", "1/1s per header "}, "unknown key `header `"},
             row{{"--queue", "-1"}, "--queue is `-1`, but must be a number or queue options"},
             row{{"--queue", "length 5"}, "--queue is `length 5`"},
             row{{"--queue", "patience 2s", "--patience", "3s"},
                 "--patience 3s contradicts `patience 2s` in --queue"},
             row{{"--patience", "25h"}, "--patience is `25h`, but must be a time from 0s to 24h"},
             row{{"--service-time", "soon"}, "--service-time is `soon`, but must be a time"},
             row{{"--retry", "1000001"}, "--retry is `1000001`, but must be a number from 0 to"},
             row{{"--spread", "evenly"}, "--spread is `evenly`, but must be even, random"},
             row{{"--timestamp", "middle"}, "--timestamp is `middle`, but must be start or end"},
             row{{"--slack", "soon"}, "--slack is `soon`, but must be a time from 0s to 1h"},
             row{{"--slack", "61min"}, "--slack is `61min`, but must be a time from 0s to 1h"},
             row{{"--max-unreadable", "101%"}, "--max-unreadable is `101%`, but must be a share"},
             row{{"--max-unreadable", "1.1"}, "--max-unreadable is `1.1`"},
             row{{"--max-unreadable", "-0.1"}, "--max-unreadable is `-0.1`"},
             row{{"--max-unreadable", "%"}, "--max-unreadable is `%`"},
             row{{"--top", "1000001"}, "--top is `1000001`, but must be a number from 0 to"},
             row{{"--find", "fast"}, "--find is `fast`, but must be a rule, or `patience TIME`"},
             row{{"--find", "1/1s & 2/1s"}, "must start with the number to search for"},
             row{{"--find", "patience soon"}, "is not a patience such as `patience 500ms`"},
             row{{"--max-keys", "1"}, "--max-keys requires a limit per client or other key"},
             row{{"--max-keys", "1", "--find", "1/1s"}, "--max-keys requires a limit per client"},
             row{{"--max-rejected", "1%"}, "--max-rejected requires --find"},
             row{{"--find", "1/1s", "--max-rejected", "2"}, "--max-rejected is `2`"},
             row{{"--find", "1/1s", "--versus", "2/1s"}, "exclude each other"},
             row{{"--find", "1/1s", "-"}, "so it cannot use standard input"},
             row{{"-", "-"}, "- (standard input) appears twice"},
             row{{"--frobnicate"}, "; see --help"},
             row{{"--versus", "patience soon"}, "--versus: patience is `soon`, but must be a time"},
             row{{"--versus", "queue x"},
                 "--versus: queue is `x`, but must be a number or queue options"},
         })
        BOOST_TEST(has(wrong(args), message), wrong(args) << "\ndoes not contain: " << message);
    BOOST_TEST(has(wrong({"log"}, false), "no limit given; use --limit, --seats, --rate"));
    BOOST_TEST(has(wrong({"--limit", "1/1s"}, false), "LOG"));
    BOOST_TEST(has(wrong({"log", "--find", "patience 1s"}, false), "no limit given"));
    BOOST_TEST(wrong({"log", "--find", "1/1s"}, false) == "nothing");
}

BOOST_AUTO_TEST_CASE(may_be_at_their_bounds) {
    for (std::vector<char const*> const& args : std::vector<std::vector<char const*>>{
             {"--max-keys", "1", "--per-client-rate", "1/1s"},
             {"--max-keys", "1000000000", "--limit", "1/1s per path 1"},
             {"--max-keys", "1", "--versus", "1/1s per client"},
             {"--max-keys", "1", "--find", "1/1s per client"},
             {"--client-prefix-v4", "0"},
             {"--client-prefix-v4", "32"},
             {"--client-prefix-v6", "0"},
             {"--client-prefix-v6", "64"},
             {"--per-client-seats", "1000000000"},
             {"--seats", "1000000000"},
             {"--limit", "1/1s per path 100"},
             {"--queue", "0"},
             {"--queue", "patience 2s", "--patience", "2s"},
             {"--patience", "0s"},
             {"--patience", "24h"},
             {"--retry", "1000000"},
             {"--slack", "0s"},
             {"--slack", "1h"},
             {"--max-unreadable", "0"},
             {"--max-unreadable", "1"},
             {"--max-unreadable", "100%"},
             {"--top", "1000000"}})
        BOOST_TEST(wrong(args) == "nothing", args[0] << " " << args[1]);
    auto const parts = [](char const* text) {
        return with({"--max-unreadable", text}).logs.most_unreadable;
    };
    BOOST_TEST(parts("0.1%") == 0.001);
    BOOST_TEST(parts("1e-1") == 0.1);
}

BOOST_AUTO_TEST_CASE(have_at_most_8_limits) {
    auto const limits = [](std::size_t n, std::vector<char const*> more = {}) {
        for (std::size_t i = 0; i != n; ++i)
            more.insert(more.end(), {"--limit", "1/1s"});
        more.push_back("log");
        return wrong(std::move(more), false);
    };
    BOOST_TEST(limits(8) == "nothing");
    BOOST_TEST(limits(9) == "more than 8 limits");
    BOOST_TEST(limits(7, {"--find", "1 seats"}) == "nothing");
    BOOST_TEST(limits(8, {"--find", "1 seats"}) == "more than 8 limits");
    BOOST_TEST(limits(8, {"--versus", "1 seats"}) == "more than 8 limits");
}

BOOST_AUTO_TEST_CASE(of_limits_exclude_a_configuration) {
    for (std::vector<char const*> const& args : std::vector<std::vector<char const*>>{
             {"--limit", "1/1s"},
             {"--seats", "1"},
             {"--rate", "1/1s"},
             {"--per-client-seats", "1"},
             {"--per-client-rate", "1/1s"},
             {"--max-keys", "1"},
             {"--client-prefix-v4", "24"},
             {"--client-prefix-v6", "48"},
             {"--queue", "1"},
             {"--patience", "1s"}})
        BOOST_TEST(wrong({"log", "--config", "weir.toml", args[0], args[1]}, false) ==
                   std::string(args[0]) + " and --config exclude each other; set it in the file");
}

BOOST_AUTO_TEST_CASE(have_alternatives) {
    auto const o = with({"--limit", "3 seats", "--versus", "200/1s", "--versus",
                         "5 seats, 7/1s, patience 3s,queue 4", "--versus", "1/1s per client"});
    BOOST_TEST(o.plans.size() == 4U);
    BOOST_TEST(rules_of(o.plans[0]) == "3 seats, 100/1s");
    BOOST_TEST(rules_of(o.plans[1]) == "3 seats, 200/1s");
    BOOST_TEST(o.plans[1].name == "200/1s");
    BOOST_TEST(rules_of(o.plans[2]) == "5 seats, 7/1s");
    BOOST_TEST((o.plans[2].queue.patience.length_or(0s) == 3s));
    BOOST_TEST(o.plans[2].queue.max_waiting == 4);
    BOOST_TEST((o.plans[1].queue.patience.length_or(0s) == 1s));
    BOOST_TEST(o.plans[1].queue.max_waiting == 1024);
    BOOST_TEST(rules_of(o.plans[3]) == "1/1s per client, 3 seats, 100/1s");
}

BOOST_AUTO_TEST_CASE(find_a_number) {
    auto const o = with({"--find", "7 seats", "--max-rejected", "2%"});
    BOOST_TEST(o.max_rejected == 0.02);
    BOOST_TEST(o.find_text == "7 seats");
    BOOST_TEST(rules_of(o.find->with(o.plans.front(), 12)) == "12 seats, 100/1s");
    BOOST_TEST(o.find->text(5) == "5 seats");
    BOOST_TEST(o.find->min() == 1);
    auto const patience = with({"--find", "patience 1s"});
    BOOST_TEST(
        (patience.find->with(patience.plans.front(), 250).queue.patience.length_or(0s) == 250ms));
    BOOST_TEST(patience.find->min() == 0);
    BOOST_TEST(patience.find->max() == 86'400'000);
}

BOOST_AUTO_TEST_CASE(have_rates_of_bytes) {
    auto const o =
        parsed({"log", "--limit", "10MB/s down", "--limit", "500kB/s burst 1MB up per client",
                "--limit", "3/1s per client", "--versus", "20MB/s down", "--versus",
                "9MB/s up, 1MB/s down per path 2"});
    BOOST_TEST(rules_of(o.plans[0]) ==
               "3/1s per client, 10MB/s down, 500kB/s burst 1MB up per client");
    BOOST_TEST(o.plans[0].name == rules_of(o.plans[0]));
    BOOST_TEST(rules_of(o.plans[1]) ==
               "3/1s per client, 500kB/s burst 1MB up per client, 20MB/s down");
    BOOST_TEST(rules_of(o.plans[2]) ==
               "3/1s per client, 10MB/s down, 500kB/s burst 1MB up per client, 9MB/s up, "
               "1MB/s down per path 2");
    auto const bytes = o.plans[0].bandwidths();
    BOOST_TEST(bytes.size() == 2U);
    BOOST_TEST(bytes[0].text == "10MB/s down");
    BOOST_TEST(!bytes[0].is_up());
    BOOST_TEST(bytes[1].is_up());
    BOOST_TEST(bytes[1].per.has_value());

    for (auto const* const text : {"10MB/s", "10MB/s burst 1MB", "10MB/s per client"})
        BOOST_TEST(has(wrong({"log", "--limit", text}, false),
                       "a rate of bytes needs `down` (to clients) or `up` behind it"),
                   text);
    for (auto const* const text : {"10 down", "0MB/s down", "MB/s up", "10/1s down", "3 seats up"})
        BOOST_TEST(has(wrong({"log", "--limit", text}, false), "is not a rate of bytes such as"),
                   text);
    BOOST_TEST(has(wrong({"log", "--limit", "1MB/s down per way"}, false), "unknown key `way`"));
    std::vector<char const*> nine{"log"};
    for (int i = 0; i != 9; ++i)
        nine.insert(nine.end(), {"--limit", "1MB/s down per client"});
    BOOST_TEST(has(wrong(nine, false), "more than 8 limits"));
    BOOST_TEST(wrong({"log", "--limit", "1MB/s down per client", "--max-keys", "9"}, false) ==
               "nothing");
}

BOOST_AUTO_TEST_CASE(find_a_rate_of_bytes) {
    auto const o = parsed({"log", "--find", "7kB/s burst 9kB down", "--max-slowed", "2%"});
    BOOST_TEST(o.max_slowed == 0.02);
    BOOST_TEST(o.find->is_of_bytes());
    BOOST_TEST(rules_of(o.find->with(o.plans.front(), 12)) == "12kB/s burst 9kB down");
    BOOST_TEST(o.find->min() == 1);
    BOOST_TEST(o.find->max() == 1'000'000'000);
    BOOST_TEST(parsed({"log", "--find", "1GiB/s up"}).find->max() == 931);
    BOOST_TEST(has(wrong({"--find", "7kB/s down", "--max-rejected", "1%"}), "use --max-slowed"));
    BOOST_TEST(has(wrong({"--find", "7 seats", "--max-slowed", "1%"}),
                   "--max-slowed requires --find with a rate of bytes"));
    BOOST_TEST(has(wrong({"--max-slowed", "1%"}), "--max-slowed requires --find"));
    BOOST_TEST(has(wrong({"--find", "7kB/s"}), "needs `down` (to clients) or `up`"));
}

BOOST_AUTO_TEST_CASE(print_help_and_version) {
    BOOST_TEST(has(parsed({"--help"}).help, "--max-rejected"));
    BOOST_TEST(parsed({"--version"}).help.starts_with("weir-replay "));
}

BOOST_AUTO_TEST_SUITE_END()
