// The recent history of limits, and the sentence that names the bottleneck.

#include "admin/history.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

// Files of this folder are compiled together.
namespace histories {
namespace {

using namespace std::chrono_literals;
using admin::reason;

std::uint64_t& rejected(admin::limit_state& l, reason why) {
    switch (why) {
        case reason::no_permit:
            return l.stats.no_permit;
        case reason::queue_full:
            return l.stats.queue_full;
        case reason::timed_out:
            return l.stats.timed_out;
        case reason::deadline_unreachable:
            return l.stats.deadline_unreachable;
        case reason::shed:
            return l.stats.shed;
        case reason::unavailable:
            return l.stats.unavailable;
        case reason::too_many_keys:
            return l.stats.too_many_keys;
        case reason::exceeds_capacity:
            return l.stats.exceeds_capacity;
        case reason::disconnected:
            return l.stats.cancelled;
        case reason::closed:
            break;
    }
    return l.stats.closed;
}

admin::limit_state limit(std::uint64_t id, std::string name = "all") {
    admin::limit_state l;
    l.id = id;
    l.name = std::move(name);
    return l;
}

admin::state state_with(admin::limit_state const& l) {
    admin::state s;
    s.limits.push_back(l);
    return s;
}

// The part of the JSON with the points of limits: `{"7":[[...],...]}`.
std::string of_limits(std::string const& json) {
    auto const begin = json.find("\"limits\":") + 9;
    return json.substr(begin, json.find(",\"servers\"") - begin);
}

// The number of points in the history of one limit.
std::ptrdiff_t points(std::string const& json) {
    return std::ranges::count(of_limits(json), '[') - 1;
}

struct lately {
    admin::state second() {
        auto s = state_with(one);
        past.add(s);
        return s;
    }
    void pass(int seconds) {
        for (int i = 0; i != seconds; ++i)
            second();
    }
    [[nodiscard]] admin::limit_state look() const {
        auto s = state_with(one);
        past.complete(s);
        return s.limits.front();
    }

    admin::limit_state one = limit(7);
    admin::history past;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(a_history)

BOOST_FIXTURE_TEST_CASE(has_one_point_per_second, lately) {
    BOOST_TEST(past.to_json() == R"({"second":0,"all":[],"limits":{},"servers":{}})");
    second();
    BOOST_TEST(past.to_json() == R"({"second":1,"all":[],"limits":{"7":[]},"servers":{}})");
    one.stats.granted = 5;
    one.stats.granted_immediately = 3;
    one.stats.waiting = 4;
    one.stats.in_use = 6;
    one.waits.add(1023us + 999ns);  // the end of a range of the histogram
    rejected(one, reason::no_permit) = 8;
    rejected(one, reason::closed) = 9;
    second();
    std::string const first = "[3,2,4,6,8,0,0,0,0,0,0,0,0,9,1048]";
    BOOST_TEST(past.to_json() == R"({"second":2,"all":[[0,0,0,0,0,0,0,0,0]],"limits":{"7":[)" +
                                     first + R"(]},"servers":{}})");
    one.stats.granted = 6;
    second();
    std::string const next = "[0,1,4,6,0,0,0,0,0,0,0,0,0,0,0]";
    BOOST_TEST(of_limits(past.to_json()) == R"({"7":[)" + first + "," + next + "]}");
    BOOST_TEST(of_limits(past.last_to_json()) == R"({"7":[)" + next + "]}");
    BOOST_TEST(past.last_to_json().starts_with(R"({"second":3,"all":[[0,0,0,0,0,0,0,0,0]],)"));
}

BOOST_AUTO_TEST_CASE(has_the_responses_and_their_times) {
    admin::history past;
    admin::state s;
    s.requests = {{"answered", 0}, {"rejected", 10}};
    s.responses = {1, 2, 3, 4};
    s.response_times.add(9s);
    auto before = s;
    past.add(before);
    s.requests[1].second = 15;
    s.responses = {11, 22, 33, 44};
    s.active = 7;
    s.waiting = 2;
    for (int i = 0; i != 98; ++i)
        s.response_times.add(weir::wait_histogram::end_of(100));
    s.response_times.add(weir::wait_histogram::end_of(150), 2);
    auto now = s;
    past.add(now);
    auto const us = [](std::size_t range) {
        return std::to_string(weir::wait_histogram::end_of(range).count() / 1000);
    };
    BOOST_TEST(past.last_to_json() == R"({"second":2,"all":[[10,20,30,40,5,)" + us(100) + "," +
                                          us(150) + R"(,7,2]],"limits":{},"servers":{}})");
    // The first second may be of any length, so that its responses are not recent.
    BOOST_TEST(now.recent_response_times.count() == 100u);
    for (int i = 0; i != 60; ++i) {
        now = s;
        past.add(now);
    }
    BOOST_TEST(now.recent_response_times.count() == 0u);
}

BOOST_AUTO_TEST_CASE(has_the_responses_of_servers) {
    admin::history past;
    admin::state s;
    s.upstreams.push_back({.name = "u", .checked = true, .servers = {}});
    auto& server = s.upstreams[0].servers.emplace_back();
    server.name = "a";
    server.responses.counts[3] = 5;
    auto const add = [&] {
        auto now = s;
        past.add(now);
        return now.upstreams[0].servers[0];
    };
    add();
    server.responses.counts[4] = 10;  // from 5 to 10 ms
    server.error_responses = 4;
    server.active = 3;
    auto const seen = add();
    BOOST_TEST(
        past.last_to_json() ==
        R"({"second":2,"all":[[0,0,0,0,0,0,0,0,0]],"limits":{},"servers":{"u\u000aa":[[10,4,9950,3]]}})");
    BOOST_TEST(seen.recent_responses.count() == 10u);
    BOOST_TEST((seen.recent_responses.quantile(0.5) == 7500us));
    BOOST_TEST(!seen.down_since);
    server.down = true;
    s.now += 1h;
    BOOST_TEST((add().down_since == s.now));
    auto const since = s.now;
    s.now += 1s;
    BOOST_TEST((add().down_since == since));
    server.down = false;
    BOOST_TEST(!add().down_since);
    s.upstreams.clear();
    auto now = s;
    past.add(now);
    BOOST_TEST(past.to_json().ends_with(R"("servers":{}})"));
}

BOOST_FIXTURE_TEST_CASE(covers_ten_minutes, lately) {
    pass(600);
    BOOST_TEST(points(past.to_json()) == 599);
    second();
    BOOST_TEST(points(past.to_json()) == 600);
    second();
    BOOST_TEST(points(past.to_json()) == 600);
    BOOST_TEST(points(past.last_to_json()) == 1);
}

// A limit that a reload replaced has another number.
BOOST_FIXTURE_TEST_CASE(drops_a_removed_limit, lately) {
    pass(3);
    one = limit(8);
    second();
    BOOST_TEST(of_limits(past.to_json()) == R"({"8":[]})");
}

// A dry run counts its rejections differently.
BOOST_FIXTURE_TEST_CASE(has_no_rejections_for_the_second_in_which_dry_run_changes, lately) {
    rejected(one, reason::no_permit) = 5;
    second();
    one.dry_run = true;
    rejected(one, reason::no_permit) = 100;
    second();
    BOOST_TEST(of_limits(past.last_to_json()) == R"({"7":[[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]]})");
    rejected(one, reason::no_permit) = 101;
    second();
    BOOST_TEST(of_limits(past.last_to_json()) == R"({"7":[[0,0,0,0,1,0,0,0,0,0,0,0,0,0,0]]})");
    one.dry_run = false;
    rejected(one, reason::no_permit) = 5;
    second();
    BOOST_TEST(of_limits(past.last_to_json()) == R"({"7":[[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]]})");
}

BOOST_FIXTURE_TEST_CASE(has_the_waits_of_ten_minutes, lately) {
    one.waits.add(1s);
    second();
    BOOST_TEST(look().recent_waits.count() == 0u);  // this wait precedes the first second
    one.waits.add(2s);
    BOOST_TEST(look().recent_waits.count() == 1u);
    pass(598);
    BOOST_TEST(look().recent_waits.count() == 1u);
    pass(61);
    BOOST_TEST(look().recent_waits.count() == 0u);
    BOOST_TEST(look().waits.count() == 2u);
}

BOOST_FIXTURE_TEST_CASE(has_the_last_minute, lately) {
    second();
    one.stats.granted = 5;
    one.stats.granted_immediately = 5;
    rejected(one, reason::queue_full) = 4;
    rejected(one, reason::disconnected) = 9;
    one.waits.add(2s);
    second();
    BOOST_TEST(look().minute.granted == 5u);
    BOOST_TEST(look().minute.rejected == 4u);  // a client that disconnected was not rejected
    BOOST_TEST(look().minute.waits.count() == 1u);
    pass(59);
    BOOST_TEST(look().minute.granted == 5u);
    pass(1);
    BOOST_TEST(look().minute.granted == 0u);
    BOOST_TEST(look().minute.rejected == 0u);
    BOOST_TEST(look().minute.waits.count() == 0u);
}

BOOST_FIXTURE_TEST_CASE(has_the_start_of_an_episode, lately) {
    auto const begin = admin::state().now + 1h;
    auto n = begin;
    auto const step = [&] {
        auto s = state_with(one);
        s.now = n;
        n += 1s;
        past.add(s);
        return s.limits.front().since;
    };
    BOOST_TEST(!step());
    rejected(one, reason::disconnected) = 1;
    BOOST_TEST(!step());
    rejected(one, reason::no_permit) = 1;
    BOOST_TEST((step() == begin + 1s));
    for (int i = 0; i != 9; ++i)
        BOOST_TEST((step() == begin + 1s));
    one.stats.waiting = 1;
    BOOST_TEST((step() == begin + 1s));
    one.stats.waiting = 0;
    for (int i = 0; i != 9; ++i)
        BOOST_TEST((step() == begin + 1s));
    BOOST_TEST(!step());
    one.stats.waiting = 1;
    auto const again = n - 1s;  // the time of the state before
    BOOST_TEST((step() == again));
    one.dry_run = true;
    BOOST_TEST(!step());
}

BOOST_FIXTURE_TEST_CASE(has_the_clients_with_the_most_rejections, lately) {
    second();
    for (int i = 1; i <= 12; ++i)
        past.count({7, fmt::format("c{:02}", i)}, i % 2 == 0 ? 5 : 6, 0);
    past.count({7, "c02"}, 3, 1);
    past.count({8, "of another limit"}, 100, 0);
    auto const most = look().top_rejected;
    BOOST_REQUIRE(most.size() == 10u);
    BOOST_TEST(most[0].client == "c02");
    BOOST_TEST(most[0].rejected == 8u);
    BOOST_TEST(most[0].error == 1u);
    BOOST_TEST(most[1].client == "c01");  // clients with equal numbers are sorted by name
    BOOST_TEST(most[6].client == "c11");
    BOOST_TEST(most[7].client == "c04");
}

BOOST_FIXTURE_TEST_CASE(drops_a_client_after_ten_minutes, lately) {
    second();
    past.count({7, "a"}, 1, 0);
    pass(598);
    BOOST_TEST(look().top_rejected.size() == 1u);
    pass(1);
    BOOST_TEST(look().top_rejected.size() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(the_use_of_a_limit)

BOOST_AUTO_TEST_CASE(is_the_part_that_is_taken) {
    auto l = limit(1);
    BOOST_TEST(!l.use());
    l.stats.capacity = 10;
    l.stats.remaining = 4;
    l.stats.in_use = 1;
    BOOST_TEST(*l.use() == 0.6);
    l.seats = true;
    BOOST_TEST(*l.use() == 0.1);
    l.stats.in_use = 12;  // after a change to fewer seats
    BOOST_TEST(*l.use() == 1.0);
    l.keys = 3;  // each key has its own
    BOOST_TEST(!l.use());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(the_quantile_of_latencies)

BOOST_AUTO_TEST_CASE(is_spread_over_its_range) {
    admin::latency l;
    BOOST_TEST((l.quantile(0.5) == 0s));
    l.counts[0] = 2;  // up to 500 us
    l.counts[2] = 2;  // from 1 to 2.5 ms
    BOOST_TEST((l.quantile(0.25) == 250us));
    BOOST_TEST((l.quantile(0.5) == 500us));
    BOOST_TEST((l.quantile(0.75) == 1750us));
    BOOST_TEST((l.quantile(1) == 2500us));
    l.counts[14] = 4;  // above 10 s
    BOOST_TEST((l.quantile(0.99) == 10s));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(the_bottleneck)

namespace {

struct now_and_before {
    now_and_before() {
        before.limits.push_back(limit(1));
        before.now += 1h;
        now = before;
        now.now += 1s;
    }
    [[nodiscard]] std::string said() const { return admin::bottleneck(before, now); }
    admin::limit_state& one() { return now.limits.front(); }

    admin::state before, now;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(is_absent_at_first, now_and_before) {
    BOOST_TEST(said() == "No limit is delaying requests.");
}

BOOST_FIXTURE_TEST_CASE(is_a_limit_that_rejects, now_and_before) {
    rejected(one(), reason::queue_full) = 3;
    rejected(one(), reason::timed_out) = 4;
    BOOST_TEST(said() == "`all` rejects 7 requests per second: they timed out.");
    now.now += 1s;
    rejected(one(), reason::timed_out) = 7;
    BOOST_TEST(said() == "`all` rejects 5 requests per second: they timed out.");
    now.now += 1h;
    BOOST_TEST(said() == "`all` rejects 1 request per second: they timed out.");
}

// Only recent rejections count.
BOOST_FIXTURE_TEST_CASE(is_not_a_limit_that_rejected_earlier, now_and_before) {
    rejected(one(), reason::no_permit) = 9;
    rejected(before.limits.front(), reason::no_permit) = 9;
    BOOST_TEST(said() == "No limit is delaying requests.");
    before.limits.clear();
    BOOST_TEST(said() == "No limit is delaying requests.");
}

BOOST_FIXTURE_TEST_CASE(is_a_limit_at_which_requests_wait, now_and_before) {
    one().stats.waiting = 1;
    BOOST_TEST(said() == "`all` delays requests: 1 waiting.");
    one().stats.waiting = 3;
    one().stats.oldest_wait = 1250ms;
    one().seats = true;
    one().stats.capacity = 5;
    one().stats.in_use = 4;
    BOOST_TEST(said() == "`all` delays requests: 3 waiting, oldest 1.2 s; 4 of 5 seats in use.");
    rejected(one(), reason::no_permit) = 2;
    BOOST_TEST(said() ==
               "`all` rejects 2 requests per second: requests do not wait there; 3 waiting, oldest "
               "1.2 s; 4 of 5 seats in use.");
}

BOOST_FIXTURE_TEST_CASE(is_the_limit_with_the_most_rejections, now_and_before) {
    for (std::uint64_t id = 2; id != 5; ++id) {
        now.limits.push_back(limit(id, fmt::format("l{}", id)));
        before.limits.push_back(now.limits.back());
    }
    now.limits[1].stats.waiting = 100;
    rejected(now.limits[2], reason::no_permit) = 2;
    rejected(now.limits[3], reason::no_permit) = 1;
    BOOST_TEST(said().starts_with("`l3` "));
}

BOOST_FIXTURE_TEST_CASE(ignores_dry_runs_and_clients_that_disconnect, now_and_before) {
    rejected(one(), reason::disconnected) = 9;
    BOOST_TEST(said() == "No limit is delaying requests.");
    rejected(one(), reason::no_permit) = 9;
    one().dry_run = true;
    before.limits.front().dry_run = true;
    one().stats.waiting = 9;
    BOOST_TEST(said() == "No limit is delaying requests.");
}

BOOST_FIXTURE_TEST_CASE(is_an_upstream_without_servers_rather_than_a_limit, now_and_before) {
    rejected(one(), reason::no_permit) = 9;
    now.upstreams.push_back({.name = "shop", .checked = true, .servers = {}});
    now.upstreams[0].servers.resize(2);
    now.upstreams[0].servers[1].name = "b";
    now.upstreams[0].servers[1].down = true;
    BOOST_TEST(said().starts_with("`all` rejects"));
    rejected(one(), reason::no_permit) = 0;
    BOOST_TEST(said() == "No limit is delaying requests. Server b of `shop` is down.");
    now.upstreams[0].servers[0].down = true;
    BOOST_TEST(said() == "All servers of `shop` are down; requests are still sent to them.");
    now.draining = true;
    BOOST_TEST(said() == "The proxy is shutting down and accepts no new connections.");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace histories
