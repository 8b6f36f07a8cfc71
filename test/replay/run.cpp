// A whole run of weir-replay: several passes and spreads, and what a log must contain.

#include "replay/run.hpp"

#include "support/temporary_folder.hpp"
#include "tool/arguments.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(a_run)

namespace {

class log_of {
public:
    explicit log_of(std::string_view text) { std::ofstream(path_, std::ios::binary) << text; }

    // Runs weir-replay with this log.
    [[nodiscard]] replay::report run(std::vector<char const*> args, replay::watch const& w = {}) {
        args.insert(args.begin(), {"weir-replay", path_.c_str()});
        return replay::run(replay::parse_options(static_cast<int>(args.size()), args.data()), w);
    }
    // Returns the error of that run.
    [[nodiscard]] std::string wrong(std::vector<char const*> args) {
        try {
            static_cast<void>(run(std::move(args)));
            return "nothing";
        } catch (tool::usage_error const& e) {
            return e.what();
        }
    }

    // Writes another file, and returns its path.
    [[nodiscard]] std::string beside(char const* name, std::string_view text) const {
        auto const path = folder_ / name;
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }

private:
    support::temporary_folder folder_{"weir-run-"};
    std::string path_ = folder_ / "log";
};

// 60 requests at whole seconds, in the format `common`.
std::string whole_seconds() {
    std::string all;
    for (int i = 0; i != 60; ++i)
        all += fmt::format(
            "10.0.0.1 - - [01/Aug/1995:06:00:{:02} +0000] \"GET / HTTP/1.0\" 200 5\n", i / 3);
    return all;
}

constexpr std::string_view no_time = "the log has no service times; set --service-time";

}  // namespace

BOOST_AUTO_TEST_CASE(compares_spreads_unless_one_is_chosen) {
    log_of log(whole_seconds());
    BOOST_TEST(log.run({"--limit", "2/1s"}).spreads.size() == 3U);
    auto const chosen = log.run({"--limit", "2/1s", "--spread", "even"});
    BOOST_TEST(chosen.spreads.size() == 1U);
    BOOST_TEST(chosen.rejected_by_spread.front().size() == 1U);
    BOOST_TEST(log.run({"--find", "2/1s"}).spreads.size() == 1U);
}

BOOST_AUTO_TEST_CASE(needs_service_times_for_seats_of_any_plan) {
    log_of log(whole_seconds());
    BOOST_TEST(log.wrong({"--limit", "2/1s"}) == "nothing");
    BOOST_TEST(log.wrong({"--limit", "2 seats"}) == no_time);
    BOOST_TEST(log.wrong({"--limit", "2/1s", "--versus", "2 seats"}) == no_time);
    BOOST_TEST(log.wrong({"--find", "2 seats"}) == no_time);
    BOOST_TEST(log.wrong({"--limit", "2 seats", "--service-time", "5ms"}) == "nothing");
    // The format may have service times that the lines lack.
    constexpr std::string_view line = R"({"time":"1995-08-01T06:00:00.250Z","client":"10.0.0.1"})";
    log_of without(line);
    BOOST_TEST(without.wrong({"--format", "json client=client", "--limit", "2 seats"}) == no_time);
    BOOST_TEST(without.wrong({"--format", "json client=client", "--limit", "2/1s"}) == "nothing");
    log_of with(R"({"time":"1995-08-01T06:00:00.250Z","request_time":0.5})");
    BOOST_TEST(with.wrong({"--format", "json", "--limit", "2 seats"}) == "nothing");
}

BOOST_AUTO_TEST_CASE(may_be_interrupted_before_the_first_line) {
    log_of log(R"({"time":"1995-08-01T06:00:00.250Z"})");
    std::atomic<bool> const stop = true;
    auto const found =
        log.run({"--format", "json", "--limit", "2 seats"}, {.stop = &stop, .progress = {}});
    BOOST_TEST(found.read.broken_off);
    BOOST_CHECK_THROW(
        static_cast<void>(log.run({"--find", "2/1s"}, {.stop = &stop, .progress = {}})),
        replay::broken_off);
}

// Requests of one instant that do not wait: no patience is sufficient for the second one.
BOOST_AUTO_TEST_CASE(reports_the_largest_number_if_none_is_sufficient) {
    log_of log(whole_seconds());
    auto const found = log.run({"--limit", "1/1h", "--queue", "0", "--find", "patience 1s"});
    BOOST_REQUIRE(found.found.has_value());
    BOOST_TEST(!found.found->was_found);
    BOOST_REQUIRE(found.plans.size() == 1U);
    BOOST_REQUIRE(found.outcomes.size() == 1U);
    BOOST_TEST((found.plans.front().queue.patience.length_or({}) == std::chrono::hours(24)));
    BOOST_TEST(found.rejected_by_spread.size() == 1U);
    BOOST_TEST(found.outcomes.front().rejected == 59U);
}

BOOST_AUTO_TEST_CASE(states_its_assumptions) {
    auto const states = [](replay::report const& r, std::string_view part) {
        return std::ranges::any_of(notes(r), [&](auto const& note) {
            return note.find(part) != note.npos;
        });
    };
    log_of whole(whole_seconds());
    auto const rate = whole.run({"--limit", "2/1s"});
    BOOST_TEST(states(rate, "The log has whole seconds; requests are spread within each (even). "
                            "With --spread random"));
    BOOST_TEST(states(rate, "The replay assumes no retries (--retry)"));
    BOOST_TEST(!states(rate, "service time"));
    auto const seats = whole.run({"--limit", "2 seats", "--service-time", "5ms", "--retry", "3"});
    BOOST_TEST(states(seats, "--service-time 5ms applies to 60 requests."));
    BOOST_TEST(states(seats, "retry rejected requests after Retry-After, up to 3 times"));
    BOOST_TEST(!states(seats, "no retries"));

    constexpr std::string_view lines = R"({"time":"1995-08-01T06:00:00.1Z"}
{"time":"1995-08-01T06:00:00.9Z","request_time":0.5}
{"time":"1995-08-01T06:00:01.9Z"}
{"time":"1995-08-01T06:00:02.9Z"}
)";
    auto const some = log_of(lines).run({"--format", "json", "--seats", "adaptive"});
    BOOST_TEST(!states(some, "whole seconds"));
    BOOST_TEST(states(some, "The log gives the service time of 1 requests."));
    BOOST_TEST(states(some, "2 requests were not served or have no service time in the log"));
    BOOST_TEST(states(some, "1 requests have a service time of 0"));
    BOOST_TEST(states(some, "Adaptive seats used the service times of the log"));

    log_of shared(whole_seconds());
    auto const file = shared.beside("weir.toml", R"(
[[upstream]]
name = "u"
servers = "a:1"
[[store]]
name = "s"
url = "redis://h"
[[limit]]
name = "all"
rule = "1/1s"
store = "s"
)");
    auto const stored = shared.run({"--config", file.c_str()});
    BOOST_TEST(states(stored, "A store counts `all` for several proxies; the replay counts only"));
    BOOST_TEST(stored.outcomes.front().rejected > 0U);
}

BOOST_AUTO_TEST_SUITE_END()
