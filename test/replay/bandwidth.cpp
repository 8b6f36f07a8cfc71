// Limits of bytes on the sizes of a log.

#include "config/read.hpp"
#include "replay/plan.hpp"
#include "replay/report.hpp"
#include "replay/simulation.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

BOOST_AUTO_TEST_SUITE(bytes_of_a_log)

namespace {

constexpr nanoseconds begin = 807'249'600s;

struct line {
    nanoseconds at;
    std::optional<std::uint64_t> sent;
    nanoseconds held = 0ns;
    std::string client = "10.0.0.1";
    std::optional<std::uint64_t> received = {};
    std::string target = "/";
};

std::string limit(std::string_view name, std::string_view rates, std::string_view more = "") {
    return fmt::format("[[limit]]\nname = '{}'\nbandwidth = {{ {} }}\n{}\n", name, rates, more);
}
std::string route(std::string_view limits, std::string_view more = "") {
    return fmt::format("[[route]]\nupstream = 'u'\nlimits = [{}]\n{}\n", limits, more);
}

replay::report report_of(std::string const& text, std::vector<line> const& lines) {
    replay::report r;
    auto& p = r.plans.emplace_back();
    p.file = std::make_shared<config::configuration const>(
        config::read("[[upstream]]\nname = 'u'\nservers = 'a:1'\n" + text, "test"));
    replay::simulation sim({}, {p});
    for (auto const& l : lines) {
        logs::entry entry;
        entry.at = begin + l.at;
        entry.held = l.held;
        entry.status = 200;
        entry.sent = l.sent;
        entry.received = l.received;
        for (std::size_t i = 0; i != sim.sources().size(); ++i) {
            using kind = logs::key_source::kind;
            auto const what = sim.sources()[i].what;
            entry.keys[i] = what == kind::client   ? std::string_view(l.client)
                            : what == kind::target ? std::string_view(l.target)
                                                   : "";
        }
        BOOST_TEST(sim.add(entry));
    }
    sim.finish();
    r.requests = sim.requests();
    r.outcomes = sim.results();
    r.spreads = {replay::spread{}};
    return r;
}
replay::outcome outcome_of(std::string const& text, std::vector<line> const& lines) {
    return report_of(text, lines).outcomes.front();
}
std::string down(std::string_view rate, std::string_view more = "") {
    return limit("b", fmt::format("down = '{}'", rate), more) + route("'b'");
}

}  // namespace

// (100,000 - 10,000) bytes at 10,000 per second.
BOOST_AUTO_TEST_CASE(slow_a_response_by_the_rate_and_the_burst) {
    auto const o = outcome_of(down("10kB/s burst 10kB"), {{0s, 100'000}});
    BOOST_TEST(o.at_once == 1u);
    BOOST_TEST(o.slowed.count() == 1u);
    BOOST_TEST((o.longest_slowed == 9s));
    BOOST_REQUIRE(o.bandwidths.size() == 1u);
    auto const& b = o.bandwidths.front();
    BOOST_TEST(b.text == "b down: 10kB/s burst 10kB");
    BOOST_TEST(b.bytes == 100'000u);
    BOOST_TEST(b.transfers == 1u);
    BOOST_TEST((b.waited == 9s));
    BOOST_TEST(b.busiest_second >= 18'540u);  // the burst, and all but a portion of a second
    BOOST_TEST(b.busiest_second <= 20'000u);
    BOOST_TEST(b.late == 0u);
    BOOST_TEST(!b.is_up);
}

BOOST_AUTO_TEST_CASE(do_not_slow_a_response_that_was_slow_in_the_log) {
    BOOST_TEST(outcome_of(down("10kB/s burst 2kB"), {{0s, 100'000, 10s}}).slowed.count() == 0u);
    // 8 s in the log, and 9.8 s with the limit.
    auto const o = outcome_of(down("10kB/s burst 2kB"), {{0s, 100'000, 8s}});
    BOOST_TEST(o.slowed.count() == 1u);
    BOOST_TEST((o.longest_slowed == 1800ms));
}

// The first one has 1,000 bytes per second in the log, and leaves 19,000 to the second one.
BOOST_AUTO_TEST_CASE(pass_no_faster_than_in_the_log) {
    auto const o = outcome_of(down("20kB/s burst 2kB"), {{0s, 100'000, 100s}, {0s, 100'000}});
    BOOST_TEST(o.slowed.count() == 1u);
    BOOST_TEST((o.longest_slowed > 5s));
    BOOST_TEST((o.longest_slowed < 5500ms));
}

BOOST_AUTO_TEST_CASE(are_shared_evenly_by_those_that_run_at_once) {
    auto const r = report_of(down("20kB/s burst 2kB", "key = 'header none'"),
                             {{0s, 100'000}, {0s, 100'000}, {0s, 10'000}});
    auto const& o = r.outcomes.front();
    BOOST_TEST(o.slowed.count() == 3u);
    // All: (210,000 - 2,000) / 20,000. The small one: 30,000 bytes are through when it ends, with two portions at most.
    BOOST_TEST((o.longest_slowed == 10'400ms));
    auto const least = o.slowed.quantile(0.01);
    BOOST_TEST((least >= 1300ms));
    BOOST_TEST((least <= 1650ms));
}

// The portions are smaller while several want bytes, so a small response passes two large ones sooner.
BOOST_AUTO_TEST_CASE(pass_in_smaller_portions_if_several_run_at_once) {
    auto const o =
        outcome_of(down("200kB/s burst 4kB"), {{0s, 100'000}, {0s, 100'000}, {100ms, 5'000}});
    BOOST_TEST(o.slowed.count() == 3u);
    auto const least = o.slowed.quantile(0.01);
    BOOST_TEST((least < 95ms));
}

BOOST_AUTO_TEST_CASE(have_a_rate_for_each_key) {
    auto const r = report_of(
        down("10kB/s burst 10kB", "key = 'client'"),
        {{0s, 30'000, 0s, "10.0.0.1"}, {0s, 20'000, 0s, "10.0.0.2"}, {5s, 5'000, 0s, "10.0.0.2"}});
    auto const& o = r.outcomes.front();
    BOOST_TEST(o.slowed.count() == 2u);
    BOOST_TEST((o.longest_slowed == 2s));
    auto const& b = o.bandwidths.front();
    BOOST_TEST(b.text == "b down: 10kB/s burst 10kB per client");
    BOOST_TEST(b.keys == 2u);
    BOOST_REQUIRE(b.top_keys.size() == 2u);
    BOOST_TEST(b.top_keys[0].key == "10.0.0.1");
    BOOST_TEST(b.top_keys[0].bytes == 30'000u);
    BOOST_TEST((b.top_keys[0].waited == 2s));
    BOOST_TEST(b.top_keys[1].key == "10.0.0.2");
    BOOST_TEST(b.top_keys[1].bytes == 25'000u);
    BOOST_TEST((b.top_keys[1].waited == 1s));
    BOOST_TEST(b.top_keys[1].busiest_second >= 18'540u);
}

BOOST_AUTO_TEST_CASE(have_other_rates_by_overrides) {
    auto const o = outcome_of(
        down("10kB/s burst 10kB", "key = 'client'\noverrides = { '10.0.0.2' = 'unlimited', "
                                  "'10.0.0.3' = { down = '20kB/s burst 10kB' } }"),
        {{0s, 100'000, 0s, "10.0.0.2"}, {0s, 50'000, 0s, "10.0.0.3"}});
    BOOST_TEST(o.slowed.count() == 1u);
    BOOST_TEST((o.longest_slowed == 2s));
    BOOST_TEST(o.bandwidths.front().bytes == 150'000u);
}

BOOST_AUTO_TEST_CASE(of_requests_are_limited_too) {
    auto const o = outcome_of(
        limit("b", "up = '10kB/s burst 10kB', down = '10kB/s burst 10kB'") + route("'b'"),
        {{0s, 20'000, 0s, "10.0.0.1", 40'000}});
    BOOST_TEST(o.slowed.count() == 1u);  // the request, by its slower direction
    BOOST_TEST((o.longest_slowed == 3s));
    BOOST_REQUIRE(o.bandwidths.size() == 2u);
    BOOST_TEST(o.bandwidths[0].is_up);
    BOOST_TEST(o.bandwidths[0].bytes == 40'000u);
    BOOST_TEST(o.bandwidths[1].bytes == 20'000u);
}

BOOST_AUTO_TEST_CASE(pass_all_limits_of_their_route) {
    auto const text = limit("all", "down = '10kB/s burst 10kB'") +
                      limit("each", "down = '5kB/s burst 10kB'", "key = 'client'");
    auto const lines =
        std::vector<line>{{0s, 20'000, 0s, "10.0.0.1", {}, "/a"}, {0s, 20'000, 0s, "10.0.0.2"}};
    auto const both = outcome_of(text + route("'all', 'each'"), lines);
    BOOST_TEST((both.longest_slowed == 3s));  // 40,000 of all
    auto const one = outcome_of(text + route("'all', 'each'", "path = '/a'") + route(""), lines);
    BOOST_TEST((one.longest_slowed == 2s));  // 20,000 of one client
    BOOST_TEST(one.slowed.count() == 1u);
}

BOOST_AUTO_TEST_CASE(hold_the_seats_of_their_request) {
    auto const text =
        limit("b", "down = '10kB/s burst 10kB'") +
        "[[limit]]\nname = 's'\nrule = '1 seats'\nqueue = 'patience 1min'\n" + route("'b', 's'");
    auto const o = outcome_of(text, {{0s, 20'000, 100ms}, {200ms, 0}});
    BOOST_TEST(o.waited == 1u);
    BOOST_TEST((o.longest_wait == 800ms));
    BOOST_TEST(o.peak_in_use == 1u);
}

BOOST_AUTO_TEST_CASE(of_a_dry_run_are_counted_but_not_slowed) {
    auto const o = outcome_of(
        down("10kB/s burst 10kB", "dry_run = true"), {{0s, 100'000}, {1s, 100'000, 20s}});
    BOOST_TEST(o.slowed.count() == 0u);
    BOOST_TEST(o.bandwidths.front().bytes == 200'000u);
    BOOST_TEST(o.bandwidths.front().late == 90'000u);
}

BOOST_AUTO_TEST_CASE(of_a_listener_count_if_it_is_the_only_one) {
    std::string const one = "[[listen]]\naddress = '127.0.0.1:1'\nlimits = 'b'\n";
    std::string const text = limit("b", "down = '10kB/s burst 10kB'") + route("");
    auto const alone = report_of(one + text, {{0s, 20'000}});
    BOOST_TEST((alone.outcomes.front().longest_slowed == 1s));
    auto const two =
        report_of(one + "[[listen]]\naddress = '127.0.0.1:2'\n" + text, {{0s, 20'000}});
    BOOST_TEST(two.outcomes.front().slowed.count() == 0u);
    BOOST_TEST(to_text(two).find("the limits of several listeners were left out") !=
               std::string::npos);
    BOOST_TEST(to_text(alone).find("listeners were left out") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(are_reported) {
    auto const r =
        report_of(down("10kB/s burst 10kB", "key = 'client'"), {{0s, 30'000}, {0s, std::nullopt}});
    auto const text = to_text(r);
    auto const has = [](std::string const& in, std::string_view part) {
        return in.find(part) != in.npos;
    };
    BOOST_TEST(has(text, "slowed by bandwidth"), text);
    BOOST_TEST(has(text, "  slowed max"), text);
    BOOST_TEST(has(text, "b down: 10kB/s burst 10kB per client"), text);
    BOOST_TEST(has(text, "30.0 kB"), text);
    BOOST_TEST(has(text, "The log has no size for 1 of the responses"), text);
    auto const json = to_json(r);
    BOOST_TEST(has(json, "\"direction\": \"down\""), json);
    BOOST_TEST(has(json, "\"bytes\": 30000"), json);
    auto const html = to_html(r);
    BOOST_TEST(has(html, "Keys with the most bytes"));
    BOOST_TEST(has(html, "id=\"bytes-0\""));
    auto const none = report_of(down("10kB/s"), {{0s, std::nullopt}});
    BOOST_TEST(has(to_text(none), "The log has no sizes of responses"));
    BOOST_TEST(!has(to_text(report_of(route(""), {{0s, 30'000}})), "slowed"));
}

BOOST_AUTO_TEST_CASE(of_a_replay_that_ends_early_leave_nothing_behind) {
    replay::plan p;
    p.file = std::make_shared<config::configuration const>(config::read(
        "[[upstream]]\nname = 'u'\nservers = 'a:1'\n" +
            limit("b", "down = '1kB/s burst 1kB'", "key = 'client'") +
            limit("all", "down = '1kB/s burst 1kB'") + route("'b', 'all'"),
        "test"));
    replay::simulation sim({}, {p});
    for (int i = 0; i != 3; ++i) {
        logs::entry entry;
        entry.at = begin + i * 60s;
        entry.sent = 1'000'000;
        BOOST_TEST(sim.add(entry));
    }
    sim.finish(true);
    BOOST_TEST(sim.results().front().slowed.count() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
