// Requests that are rejected and retried, that wait, and that release their permits.

#include "replay/simulation.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

BOOST_AUTO_TEST_SUITE(requests)

namespace {

constexpr nanoseconds begin = 807'249'600s;

struct line {
    nanoseconds at;
    nanoseconds held = 0ns;
    unsigned status = 200;
};

// The outcome of these requests under a rule.
replay::outcome outcome_of(std::string const& rule, nanoseconds patience,
                           std::vector<line> const& lines, int retries = 0) {
    replay::settings s;
    s.retries = retries;
    replay::plan p;
    p.rules = {replay::rule::parse(rule)};
    p.queue.patience = patience;
    replay::simulation sim(s, {p});
    for (auto const& l : lines) {
        logs::entry entry;
        entry.at = begin + l.at;
        entry.held = l.held;
        entry.status = l.status;
        entry.keys[0] = "10.0.0.1";
        BOOST_TEST(sim.add(entry));
    }
    sim.finish();
    return sim.results().front();
}

}  // namespace

BOOST_AUTO_TEST_CASE(are_retried_after_retry_after_up_to_the_given_number) {
    std::vector<line> const four{{0s}, {0s}, {0s}, {0s}};
    // One permit per 10 s: the second request is granted at 10 s, the third at 20 s.
    struct row {
        int retries;
        unsigned later, rejected, came_back;
    };
    for (auto const& [retries, later, rejected, came_back] :
         {row{0, 0, 3, 0}, row{1, 1, 2, 3}, row{2, 2, 1, 5}, row{3, 3, 0, 6}, row{9, 3, 0, 6}}) {
        auto const o = outcome_of("1/10s", 0s, four, retries);
        BOOST_TEST(o.asked() == 4u);
        BOOST_TEST(o.at_once == 1u);
        BOOST_TEST(o.later == later);
        BOOST_TEST(o.rejected == rejected);
        BOOST_TEST(o.came_back == came_back);
    }
}

BOOST_AUTO_TEST_CASE(count_their_own_attempts) {
    auto const o = outcome_of("1/10s", 0s, {{0s}, {0s}, {100s}, {200s}, {200s}, {200s}}, 1);
    BOOST_TEST(o.at_once == 3u);
    BOOST_TEST(o.later == 2u);
    BOOST_TEST(o.rejected == 1u);
}

BOOST_AUTO_TEST_CASE(wait_in_a_queue_whose_maximum_length_is_reported) {
    auto const o =
        outcome_of("1 seats", 1h, {{0s, 1s}, {0s, 1s}, {0s, 1s}, {0s, 1s}, {100s, 1s}, {100s, 1s}});
    BOOST_TEST(o.at_once == 2u);
    BOOST_TEST(o.waited == 4u);
    BOOST_TEST(o.longest_queue == 3u);
    BOOST_TEST((o.longest_wait == 3s));
    BOOST_TEST(o.peak_in_use == 1u);
}

// At one instant, releases precede arrivals.
BOOST_AUTO_TEST_CASE(release_seats_before_new_requests_arrive) {
    auto const o = outcome_of("1 seats", 0s, {{0s, 5s}, {4999ms, 5s}, {5s, 5s}, {10s, 0s}});
    BOOST_TEST(o.at_once == 3u);
    BOOST_TEST(o.rejected == 1u);
}

// The statuses 502 to 504 mean an overload, which reduces adaptive seats.
BOOST_AUTO_TEST_CASE(report_an_overload_to_adaptive_seats) {
    for (unsigned const status : {200U, 404U, 500U, 501U, 502U, 503U, 504U, 505U}) {
        std::vector<line> lines;
        for (auto at = 0ms; at != 60s; at += 200ms)
            lines.push_back({at, 1s, status});  // five concurrent requests
        auto const o = outcome_of("8 aimd min 1 max 8", 0s, lines);
        bool const overloaded = status >= 502 && status <= 504;
        BOOST_TEST((o.rejected > 0) == overloaded, status);
    }
}

BOOST_AUTO_TEST_SUITE_END()
