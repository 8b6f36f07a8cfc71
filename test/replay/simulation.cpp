#include "replay/simulation.hpp"

#include "replay/by_second.hpp"
#include "replay/names.hpp"
#include "replay/outcome.hpp"
#include "replay/spread.hpp"
#include "support/wall_clock.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

BOOST_AUTO_TEST_SUITE(simulation)

namespace {

constexpr nanoseconds begin = 807'249'600s;

logs::entry entry(nanoseconds at, bool whole, nanoseconds before = 0ns) {
    logs::entry e;
    e.at = begin + at;
    e.whole_second = whole;
    e.before = before;
    e.held = 0ns;
    e.keys[0] = "10.0.0.1";
    return e;
}

// Returns the times at which the simulation sends the requests to the limiter, in order.
std::vector<nanoseconds> times_of(std::vector<logs::entry> const& entries, replay::spread how = {},
                                  replay::traffic* told = nullptr) {
    std::vector<nanoseconds> times;
    replay::settings s;
    s.spreads = {how};
    s.watcher = [&](replay::decision const& d) { times.push_back(d.at - begin); };
    replay::plan p;
    p.rules = {replay::rule::parse("1000000/1s")};
    replay::simulation sim(s, {p});
    for (auto const& each : entries)
        BOOST_TEST(sim.add(each));
    sim.finish();
    if (told)
        *told = sim.requests();
    return times;
}

using times = std::vector<nanoseconds>;

// Replays 72 hours with a request each hour. Returns the hours of the granted requests.
std::vector<int> granted_hours(std::string const& rule) {
    std::vector<int> hours;
    replay::settings s;
    s.watcher = [&](replay::decision const& d) {
        if (!d.rejected)
            hours.push_back(static_cast<int>(d.number));
    };
    replay::plan p;
    p.rules = {replay::rule::parse(rule)};
    replay::simulation sim(s, {p});
    for (int hour = 0; hour != 72; ++hour)
        BOOST_TEST(sim.add(entry(hour * 1h, false)));
    sim.finish();
    return hours;
}

}  // namespace

BOOST_AUTO_TEST_CASE(whole_seconds_are_spread) {
    std::vector const log{entry(0s, true), entry(1s, true), entry(1s, true),
                          entry(1s, true), entry(1s, true), entry(3s, true)};
    BOOST_TEST((times_of(log) == times{0s, 1s, 1250ms, 1500ms, 1750ms, 3s}));
    BOOST_TEST((times_of(log, {replay::spread::kind::burst}) == times{0s, 1s, 1s, 1s, 1s, 3s}));
    auto const random = times_of(log, {replay::spread::kind::at_random, 7});
    BOOST_TEST((random == times_of(log, {replay::spread::kind::at_random, 7})));
    BOOST_TEST((random != times_of(log, {replay::spread::kind::at_random, 8})));
    BOOST_TEST(std::ranges::is_sorted(random));
    for (std::size_t i = 0; i != log.size(); ++i)
        BOOST_TEST((std::chrono::floor<std::chrono::seconds>(random[i]) + begin == log[i].at));
}

BOOST_AUTO_TEST_CASE(random_times_are_uniform) {
    std::vector<nanoseconds> offsets;
    std::vector<int> tenths(10);
    for (std::int64_t second = 0; second != 1000; ++second) {
        replay::spread{replay::spread::kind::at_random, 1}.offsets(second, 10, offsets);
        for (auto const o : offsets)
            ++tenths.at(static_cast<std::size_t>(o / 100ms));
    }
    for (int const n : tenths)
        BOOST_TEST(std::abs(n - 1000) < 150);  // five standard deviations
}

BOOST_AUTO_TEST_CASE(lines_with_end_times_are_sorted_by_start) {
    // The lines are in the order in which requests ended; the second request began long before the first.
    BOOST_TEST((times_of({entry(1500ms, false, 100ms), entry(1600ms, false, 1600ms),
                          entry(1700ms, false, -200ms)}) == times{0s, 1400ms, 1900ms}));
    // Whole seconds are spread first.
    BOOST_TEST((times_of({entry(5s, true, 100ms), entry(5s, true, 3s), entry(6s, true)}) ==
                times{2500ms, 4900ms, 6s}));
    // A request that began earlier than --slack allows is replayed later than it arrived.
    replay::traffic told;
    BOOST_TEST((times_of({entry(0s, false), entry(100s, false, 90s), entry(101s, false)}, {},
                         &told) == times{0s, 40s, 101s}));
    BOOST_TEST(told.late == 1);
}

// One request per second, with a service time of 0, and a line at 30 s of a request that took 20 s: it arrived at 10 s,
// directly after the other request of that second, and holds the only seat until 30 s.
BOOST_AUTO_TEST_CASE(a_long_request_is_sorted_among_short_ones_that_were_read_before) {
    std::vector<logs::entry> log;
    times expected;
    for (auto at = 0s; at != 30s; ++at) {
        log.push_back(entry(at, true));
        expected.insert(expected.end(), at == 10s ? 2 : 1, at);
    }
    log.push_back(entry(30s, true, 20s));
    log.back().held = 20s;
    replay::traffic told;
    BOOST_TEST((times_of(log, {replay::spread::kind::burst}, &told) == expected));
    BOOST_TEST(told.late == 0);
    BOOST_TEST((told.first == begin));
    BOOST_TEST((told.last == begin + 29s));

    replay::settings s;
    s.spreads = {{replay::spread::kind::burst}};
    replay::plan p;
    p.rules = {replay::rule::parse("1 seats")};
    p.queue.patience = 0ns;
    replay::simulation sim(s, {p});
    for (auto const& each : log)
        BOOST_TEST(sim.add(each));
    sim.finish();
    BOOST_TEST(sim.results().front().at_once == 12);   // at 0 s to 10 s, with two at 10 s
    BOOST_TEST(sim.results().front().rejected == 19);  // at 11 s to 29 s
}

// A request cannot precede one that was already sent to the limiter.
BOOST_AUTO_TEST_CASE(time_never_runs_backwards) {
    replay::traffic told;
    BOOST_TEST((times_of({entry(100s, true), entry(170s, true), entry(115s, true, 59s)}, {},
                         &told) == times{100s, 100s, 170s}));
    BOOST_TEST(told.late == 1);
}

BOOST_AUTO_TEST_CASE(lines_out_of_order) {
    BOOST_TEST((times_of({entry(50s, false), entry(1s, false), entry(30s, false)}) ==
                times{1s, 30s, 50s}));
    replay::plan p;
    p.rules = {replay::rule::parse("1/1s")};
    replay::simulation sim({}, {p});
    auto const of_stranger = [](nanoseconds at) {
        auto line = entry(at, true, 200s);  // would count as late
        line.keys[0] = "10.0.0.2";
        return line;
    };
    BOOST_TEST(sim.add(entry(100s, false)));
    BOOST_TEST(sim.add(entry(40s, false)));
    BOOST_TEST(!sim.add(of_stranger(39'999ms)));
    BOOST_TEST(sim.add(entry(24h * 365, false)));  // after a year without requests
    BOOST_TEST(!sim.add(of_stranger(101s)));
    sim.finish();
    // Skipped lines do not count.
    BOOST_TEST(sim.requests().requests == 3);
    BOOST_TEST(sim.requests().clients == 1);
    BOOST_TEST(sim.requests().held_by_log == 3);
    BOOST_TEST(sim.requests().late == 0);
    BOOST_TEST(sim.results().front().at_once == 3);
}

BOOST_AUTO_TEST_CASE(service_times) {
    using replay::service_time;
    BOOST_TEST((service_time::parse("50ms")->of(17) == 50ms));
    nanoseconds sum{};
    auto const exponential = *service_time::parse("exponential 50ms");
    auto const uniform = *service_time::parse("10ms..90ms");
    for (std::uint64_t i = 0; i != 10'000; ++i) {
        sum += exponential.of(i);
        BOOST_TEST_REQUIRE((uniform.of(i) >= 10ms && uniform.of(i) <= 90ms));
    }
    BOOST_TEST((sum / 10'000 > 48ms && sum / 10'000 < 52ms));
    for (auto const* text :
         {"", "50", "exponential", "exponential 5", "9ms..", "..9ms", "9ms..8ms"})
        BOOST_TEST(!service_time::parse(text), text);
    for (auto const* text : {"50ms", "exponential 50ms", "10ms..90ms"})
        BOOST_TEST(to_string(*service_time::parse(text)) == text);

    // The service time of the log has priority; without one, the time of the previous request applies.
    replay::plan p;
    p.rules = {replay::rule::parse("1 seats")};
    p.queue.patience = 0ns;
    replay::simulation sim({}, {p});
    auto first = entry(0s, false);
    first.held = 3s;
    auto second = entry(4s, false);
    second.held.reset();
    for (auto const& each : {first, entry(2s, false), second, entry(6s, false), entry(8s, false)})
        BOOST_TEST(sim.add(each));
    sim.finish();
    BOOST_TEST(sim.requests().held_like_last == 1);
    BOOST_TEST(sim.results().front().rejected ==
               1);  // at 2 s; at 4 s the previous service time is 0
}

BOOST_AUTO_TEST_CASE(addresses_of_a_network_are_one_client) {
    replay::clients all(24, 64);
    auto const a = all.number_of("10.1.2.3");
    BOOST_TEST(all.number_of("10.1.2.200") == a);
    BOOST_TEST(all.number_of("::ffff:10.1.2.9") == a);
    BOOST_TEST(all.number_of("10.1.3.3") != a);
    auto const six = all.number_of("2001:db8::1");
    BOOST_TEST(all.number_of("2001:db8:0:0:ffff::2") == six);
    BOOST_TEST(all.number_of("2001:db8:0:1::1") != six);
    BOOST_TEST(all.number_of("host.example.org") != all.number_of("host.example.com"));
    BOOST_TEST(all.all()[a] == "10.1.2.0/24");
    BOOST_TEST(all.all()[six] == "2001:db8::/64");
}

BOOST_AUTO_TEST_CASE(names_are_numbered) {
    replay::names all;
    std::map<std::string, std::uint32_t> expected;
    for (int i = 0; i != 20'000; ++i) {
        auto const text =
            std::to_string(i * 7919 % 5000) + std::string(static_cast<std::size_t>(i % 13), 'x');
        auto const number = all.number_of(text);
        auto const [at, is_new] =
            expected.try_emplace(text, static_cast<std::uint32_t>(expected.size()));
        BOOST_TEST_REQUIRE(number == at->second);
        BOOST_TEST_REQUIRE(all[number] == text);
    }
    BOOST_TEST(all.size() == expected.size());
    BOOST_TEST(all.number_of("") == expected.size());
}

BOOST_AUTO_TEST_CASE(a_long_series_keeps_its_sums) {
    replay::series s;
    for (int i = 0; i != 100'000; ++i) {
        auto& p = s.at(begin + i * 777ms);
        ++p.asked;
        p.waiting = std::max<std::uint64_t>(p.waiting, i == 50'000 ? 9 : 1);
    }
    BOOST_TEST(s.points().size() <= replay::series::most_points);
    BOOST_TEST((s.width() == 256s));
    std::uint64_t asked = 0, longest = 0;
    for (auto const& p : s.points()) {
        asked += p.asked;
        longest = std::max(longest, p.waiting);
    }
    BOOST_TEST(asked == 100'000);
    BOOST_TEST(longest == 9);
}

BOOST_AUTO_TEST_CASE(a_series_has_intervals_without_their_ends) {
    replay::series s;
    for (auto const t :
         {0ns, 999'999'999ns, 1'000'000'000ns, 3'500'000'000ns, 1'999'999'999ns, 0ns})
        ++s.at(begin + t).asked;
    BOOST_REQUIRE(s.points().size() == 4U);
    BOOST_TEST(s.points()[0].asked == 3U);
    BOOST_TEST(s.points()[1].asked == 2U);
    BOOST_TEST(s.points()[2].asked == 0U);
    BOOST_TEST(s.points()[3].asked == 1U);
}

// Merged intervals have the sums of their requests, and the longer of their queues.
BOOST_AUTO_TEST_CASE(a_long_series_merges_intervals_in_pairs) {
    replay::series s;
    for (std::size_t i = 0; i != replay::series::most_points + 1; ++i) {
        auto& p = s.at(begin + static_cast<std::int64_t>(i) * 1s);
        p.asked = 1;
        p.waiting = i % 2 == 0 ? 3 : 5;
    }
    BOOST_TEST((s.width() == 2s));
    BOOST_TEST(s.points().size() == replay::series::most_points / 2 + 1);
    BOOST_TEST(s.points()[0].asked == 2U);
    BOOST_TEST(s.points()[0].waiting == 5U);
    BOOST_TEST(s.points().back().asked == 1U);
}

BOOST_AUTO_TEST_CASE(an_interrupted_replay_counts_the_requests_read) {
    replay::plan p;
    p.rules = {replay::rule::parse("1/10s")};
    p.queue.patience = 1h;
    replay::simulation sim({}, {p});
    for (int i = 0; i != 5; ++i)
        BOOST_TEST(sim.add(entry(i * 1s, false)));
    sim.finish(true);
    auto const o = sim.results().front();
    BOOST_TEST(o.at_once == 1);
    BOOST_TEST(o.open == 4);
    BOOST_TEST(o.asked() == 5);
}

// A response takes 1 s, and the seat rests for 2 s after it: requests are granted at 0 s, 3 s and 6 s.
BOOST_AUTO_TEST_CASE(seats_rest_after_the_end_of_a_request) {
    for (std::string const more : {"", " per client"}) {
        std::vector<nanoseconds> waits;
        replay::settings s;
        s.watcher = [&](replay::decision const& d) {
            BOOST_TEST(!d.rejected);
            waits.push_back(d.waited);
        };
        replay::plan p;
        p.rules = {replay::rule::parse("1 seats rest 2s" + more)};
        p.queue.patience = 10s;
        replay::simulation sim(s, {p});
        for (auto const at : {0s, 1s, 2s}) {
            auto one = entry(at, false);
            one.held = 1s;
            BOOST_TEST(sim.add(one));
        }
        sim.finish();
        BOOST_TEST((waits == times{0s, 2s, 4s}));
    }
}

// The log begins at 4 o'clock of UTC, on a Tuesday in summer.
BOOST_AUTO_TEST_CASE(follows_the_calendar_of_the_log) {
    using hours = std::vector<int>;
    auto const zone = " zone " + std::string(support::europe().name());
    for (std::string const more : {"", " per client"}) {
        BOOST_TEST((granted_hours("2/day" + more) == hours{0, 1, 20, 21, 44, 45, 68, 69}));
        BOOST_TEST((granted_hours("2/day" + zone + more) == hours{0, 1, 18, 19, 42, 43, 66, 67}));
        BOOST_TEST((granted_hours("2/day" + zone + " & 50/week" + more) ==
                    hours{0, 1, 18, 19, 42, 43, 66, 67}));
        BOOST_TEST((granted_hours("2/week" + more) == hours{0, 1}));
    }
}

BOOST_AUTO_TEST_SUITE_END()
