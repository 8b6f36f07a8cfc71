// The report as text, JSON and HTML.

#include "replay/report.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using replay::length;
using replay::percent;

BOOST_AUTO_TEST_SUITE(replay_report)

namespace {

struct one_outcome {
    one_outcome() {
        told.outcomes.emplace_back();
        told.plans.emplace_back();
        told.spreads = {replay::spread{}};
    }
    replay::outcome& of() { return told.outcomes.front(); }
    // The first value in the line of that name; empty if there is no such line.
    std::string cell(std::string_view name) const {
        for (auto const& [line, cells, counts] : summary(told))
            if (line == name)
                return cells.front();
        return {};
    }
    [[nodiscard]] bool json_has(std::string_view part) const {
        return to_json(told).find(part) != std::string::npos;
    }
    [[nodiscard]] bool notes_have(std::string_view part) const {
        return std::ranges::any_of(notes(told), [&](std::string const& n) {
            return n.find(part) != n.npos;
        });
    }

    replay::report told;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(numbers)

BOOST_AUTO_TEST_CASE(are_grouped_by_thousands) {
    using replay::grouped;
    BOOST_TEST(grouped(0) == "0");
    BOOST_TEST(grouped(999) == "999");
    BOOST_TEST(grouped(1000) == "1,000");
    BOOST_TEST(grouped(12345) == "12,345");
    BOOST_TEST(grouped(123456) == "123,456");
    BOOST_TEST(grouped(1234567) == "1,234,567");
    BOOST_TEST(grouped(std::numeric_limits<std::uint64_t>::max()) == "18,446,744,073,709,551,615");
}

BOOST_AUTO_TEST_CASE(of_durations_have_three_digits_and_a_unit) {
    BOOST_TEST(length(0ns) == "0 ns");
    BOOST_TEST(length(999ns) == "999 ns");
    BOOST_TEST(length(1us) == "1 us");
    BOOST_TEST(length(1500us) == "1.5 ms");
    BOOST_TEST(length(12'345us) == "12.3 ms");
    BOOST_TEST(length(999'600us) == "1000 ms");
    BOOST_TEST(length(1s) == "1 s");
    BOOST_TEST(length(59'900ms) == "59.9 s");
    BOOST_TEST(length(1min) == "1 min 0 s");
    BOOST_TEST(length(59min + 59s + 999ms) == "59 min 59 s");
    BOOST_TEST(length(1h) == "1 h 0 min");
    BOOST_TEST(length(12h + 52min + 59s) == "12 h 52 min");
    BOOST_TEST(length(100h) == "100 h 0 min");
}

BOOST_AUTO_TEST_CASE(of_shares_are_per_cent) {
    BOOST_TEST(percent(0) == "0.00 %");
    BOOST_TEST(percent(0.00009) == "< 0.01 %");
    BOOST_TEST(percent(0.0001) == "0.01 %");
    BOOST_TEST(percent(0.123456) == "12.35 %");
    BOOST_TEST(percent(1) == "100.00 %");
}

BOOST_AUTO_TEST_CASE(of_instants_are_in_utc) {
    BOOST_TEST(replay::instant(0ns) == "1970-01-01 00:00:00.000");
    BOOST_TEST(replay::instant(807'256'800s + 1'999'999ns) == "1995-08-01 06:00:00.001");
    BOOST_TEST(replay::instant(-1ns) == "1969-12-31 23:59:59.999");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_report)

BOOST_FIXTURE_TEST_CASE(includes_each_request_once, one_outcome) {
    of().at_once = 6;
    of().waited = 2;
    of().later = 1;
    of().rejected = 1;
    of().came_back = 3;
    BOOST_TEST(cell("requests") == "10");
    BOOST_TEST(cell("granted immediately") == "6 (60.00 %)");
    BOOST_TEST(cell("rejected") == "1 (10.00 %)");
    BOOST_TEST(cell("  attempts") == "");
    told.retries = 2;
    BOOST_TEST(cell("granted after retries") == "1 (10.00 %)");
    BOOST_TEST(cell("  attempts") == "13");
    BOOST_TEST(json_has("\"attempts\": 13"));
    BOOST_TEST(json_has("\"rejected_share\": 0.1"));
    BOOST_TEST(notes_have("up to 2 times"));
}

// The histogram counts waits in ranges, but the report never states more than the longest wait.
BOOST_FIXTURE_TEST_CASE(has_no_wait_above_the_longest, one_outcome) {
    BOOST_TEST(cell("wait max") == "-");
    of().waits.add(1'500ms);
    of().longest_wait = 1'500ms;
    BOOST_TEST(cell("wait p50") == "1.5 s");
    BOOST_TEST(cell("wait max") == "1.5 s");
    BOOST_TEST(json_has("\"p50\": 1.500000000"));
    BOOST_TEST(json_has("\"max\": 1.500000000"));
}

BOOST_FIXTURE_TEST_CASE(gives_the_reasons_of_rejections, one_outcome) {
    of().rejected = 5;
    of().rules.resize(2);
    of().rules[0].text = "1/1s";
    of().rules[1].text = "2/1s";
    of().rules[1].dry_run = true;
    of().rules[1].rejected[static_cast<std::size_t>(weir::errc::queue_full)] = 5;
    BOOST_TEST(cell("  rejected by") == "2/1s (dry run)");
    BOOST_TEST(cell("    queue full") == "5");
    BOOST_TEST(cell("    no permit") == "");
}

BOOST_FIXTURE_TEST_CASE(gives_the_result_of_a_search, one_outcome) {
    BOOST_TEST(!result_of_search(told).has_value());
    told.found = replay::report::search{"4/1s", true, false, 0.01};
    BOOST_TEST(*result_of_search(told) ==
               "4/1s is the smallest value that rejects at most 1.00 %.");
    BOOST_TEST(json_has("\"found\": \"4/1s\""));
    told.found->was_found = false;
    BOOST_TEST(
        result_of_search(told)->starts_with("No number in `4/1s` keeps rejections at or below "));

    told.found = replay::report::search{"4kB/s down", true, true, 0.01};
    BOOST_TEST(*result_of_search(told) ==
               "4kB/s down is the smallest value that slows at most 1.00 %.");
    BOOST_TEST(json_has("\"max_slowed\": 0.01"));
    told.found->was_found = false;
    BOOST_TEST(result_of_search(told)->starts_with(
        "No number in `4kB/s down` keeps slowed responses at or below "));
}

// The contents of a log are text, not markup.
BOOST_FIXTURE_TEST_CASE(shows_markup_as_text, one_outcome) {
    told.command = "weir-replay 'a<b>&\"'";
    of().name = "<script>";
    of().top_rejected.push_back({"client", "<img>\xe9\x07", 2, 1});
    auto const page = to_html(told);
    BOOST_TEST(page.find("a&lt;b&gt;&amp;&quot;") != page.npos);
    BOOST_TEST(page.find("<script") == page.npos);
    BOOST_TEST(page.find("<img") == page.npos);
    BOOST_TEST(page.find("&lt;img&gt;&#233; ") != page.npos);
}

// The plot has one bar per doubling of the wait.
BOOST_FIXTURE_TEST_CASE(shows_all_waits_on_its_page, one_outcome) {
    for (auto const wait : {1'100us, 1'300us, 1'900us, 5'000us, 5'100us})
        of().waits.add(wait);
    auto const page = to_html(told);
    auto const table = page.substr(page.find("id=\"waits-0\">"));
    auto const numbers = table.substr(0, table.find("</table>"));
    BOOST_TEST(numbers.find("<td>3</td>") != numbers.npos);
    BOOST_TEST(numbers.find("<td>0</td>") != numbers.npos);
    BOOST_TEST(numbers.find("<td>2</td>") != numbers.npos);
}

BOOST_FIXTURE_TEST_CASE(begins_with_the_difference_on_its_page, one_outcome) {
    of().name = "old & slow";
    of().at_once = 1000;
    of().rejected = 3000;
    told.outcomes.emplace_back();
    auto& other = told.outcomes.back();
    other.name = "new";
    other.at_once = 3900;
    other.waited = 100;
    other.waits.add(2s, 100);
    other.longest_wait = 2s;
    auto page = to_html(told);
    auto const has = [&](std::string_view text) { return page.find(text) != page.npos; };
    // The wait of the first 97.5 % was 0.
    BOOST_TEST(
        has("<p class=\"difference\"><b>new</b> rejects 0 instead of 3,000 requests. The p99 wait "
            "of granted requests is 2 s instead of 0 ns.</p>"));
    BOOST_TEST(has("<td>1,000 (25.00 %)</td><td>3,900 (97.50 %)</td><td>+2,900</td>"));
    BOOST_TEST(has("<td>3,000 (75.00 %)</td><td>0 (0.00 %)</td><td>&minus;3,000</td>"));
    BOOST_TEST(has("<td>4,000</td><td>4,000</td><td>0</td>"));
    told.outcomes.push_back(of());
    page = to_html(told);
    BOOST_TEST(has("<b>old &amp; slow</b> rejects as many requests as old &amp; slow: 3,000.</p>"));
    BOOST_TEST(!has("difference</th>"));
}

// The plots of all outcomes have one scale.
BOOST_FIXTURE_TEST_CASE(draws_plots_on_one_scale, one_outcome) {
    of().over_time.at(100s).granted = 75;
    of().over_time.at(101s).rejected = 25;
    told.outcomes.emplace_back();
    told.outcomes.back().over_time.at(101s).granted = 20;
    auto const page = to_html(told);
    std::size_t plots = 0;
    std::string_view const scale = "<span>80</span><span>40</span><span>0</span>";
    for (auto at = page.find(scale); at != page.npos; at = page.find(scale, at + 1))
        ++plots;
    BOOST_TEST(plots == 2u);
    // 150 is the bottom; the second half of the time has 25 of 80 rejected, or 20 of 80 granted.
    BOOST_TEST(
        page.find(
            "class=\"rejected\" points=\"0.0,150 0.0,9.38 300.0,9.38 300.0,103.12 600.0,103.12 "
            "600.0,150\"") != page.npos);
    BOOST_TEST(
        page.find("class=\"granted\" points=\"300.0,150 300.0,112.50 600.0,112.50 600.0,150\"") !=
        page.npos);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
