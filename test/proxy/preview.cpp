// A preview: the effect of a rule on recorded requests.

#include "proxy/preview.hpp"

#include "proxy/scaled_rule.hpp"
#include "support/zone_file.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Files of this folder are compiled together.
namespace previewed {
namespace {

using namespace std::chrono_literals;
using proxy::arrival;
using proxy::arrivals;
using proxy::preview;

constexpr net::clock::time_point start{1h};

config::limit limit(std::string_view rule, std::string_view queue = "max_waiting 0 patience 0s") {
    config::limit l;
    l.name = "l";
    l.rule = config::rule_of(rule);
    l.queue = config::queue_of(queue, config::limit::default_patience);
    return l;
}

preview of(config::limit const& now, std::string_view rule, arrivals::copy const& record) {
    auto then = now;
    then.rule = config::rule_of(rule);
    std::atomic<bool> const stop = false;
    return make_preview(now, then, record, stop);
}

/// Requests with these times from the start, of a minute.
arrivals::copy record_of(std::vector<arrival> all, bool is_keyed = false) {
    auto b = std::make_shared<arrivals::block>();
    b->kept = std::move(all);
    b->seen = b->kept.size();
    return {.blocks = {b}, .is_keyed = is_keyed, .since = start, .until = start + 1min};
}
arrival request(net::clock::duration at, std::uint32_t permits = 1, std::uint32_t held = 0,
                std::uint64_t key = 0) {
    return {.at = start + at,
            .key = key,
            .permits = permits,
            .held = held,
            .status = 200,
            .granted = true};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_preview)

BOOST_AUTO_TEST_CASE(of_a_rate) {
    auto const record = record_of({request(0s), request(1s), request(2s), request(12s)});
    auto const p = of(limit("2/10s"), "3/10s", record);
    BOOST_TEST((p.over == 1min));
    BOOST_TEST(p.requests == 4u);
    BOOST_TEST(p.kept == 1.0);
    BOOST_TEST((p.now == proxy::rule_effect{"2/10s", 3, 1, 0, {}}));
    BOOST_TEST((p.then == proxy::rule_effect{"3/10s", 4, 0, 0, {}}));
}

// The times of a record count from the start of the machine. In this zone midnight was five minutes ago.
BOOST_AUTO_TEST_CASE(of_a_quota_knows_when_the_day_began) {
    support::zone_folder const folder;
    auto const clock = std::chrono::system_clock::now() - 5min;
    auto const day = std::chrono::floor<std::chrono::days>(clock);
    auto const east = std::chrono::floor<std::chrono::seconds>(day - clock) + 24h;
    auto const offset = east > 12h ? east - 24h : east;
    static_cast<void>(
        folder.add("Test/Recent", {.offsets = {static_cast<std::int32_t>(offset.count())}}));

    auto const now = net::clock::now();
    std::vector<arrival> all;
    for (auto const ago : {9min, 8min, 7min, 4min, 3min, 2min}) {
        all.push_back(request(0s));
        all.back().at = now - ago;
    }
    auto record = record_of(all);
    record.since = now - 10min;
    record.until = now;
    auto const p = of(limit("2/day zone Test/Recent"), "1/day zone Test/Recent", record);
    BOOST_TEST((p.now == proxy::rule_effect{"2/day zone Test/Recent", 4, 2, 0, {}}));
    BOOST_TEST((p.then == proxy::rule_effect{"1/day zone Test/Recent", 2, 4, 0, {}}));
}

BOOST_AUTO_TEST_CASE(is_of_the_time_of_the_record) {
    auto record = record_of({request(0s), request(1s), request(2s), request(59s)});
    record.since = start + 1s;
    record.until = start + 30s;
    auto const p = of(limit("1/10s"), "2/10s", record);
    BOOST_TEST((p.over == 29s));
    BOOST_TEST(p.requests == 2u);
    BOOST_TEST(p.now.granted == 1u);
    BOOST_TEST(p.then.granted == 2u);
}

BOOST_AUTO_TEST_CASE(has_requests_in_the_order_of_their_arrival) {
    // The longest request ended last.
    auto const record = record_of({request(2s), request(1s), request(0s, 2)});
    auto const p = of(limit("2/10s"), "3/10s", record);
    BOOST_TEST(p.now.granted == 1u);
    BOOST_TEST(p.then.granted == 2u);
}

BOOST_AUTO_TEST_CASE(of_seats_has_waits) {
    auto const record = record_of(
        {request(0s, 1, 1'000'000), request(0s, 1, 1'000'000), request(0s, 1, 1'000'000)});
    auto const p = of(limit("1 seats", "max_waiting 9 patience 1500ms"), "3 seats", record);
    BOOST_TEST(p.now.granted == 2u);
    BOOST_TEST(p.now.rejected == 1u);
    BOOST_TEST(p.now.waited == 1u);
    BOOST_TEST((p.now.p99_wait == 1s));
    BOOST_TEST((p.then == proxy::rule_effect{"3 seats", 3, 0, 0, {}}));
}

// The longest waits are of one request in a hundred.
BOOST_AUTO_TEST_CASE(has_a_wait_of_0_for_requests_granted_immediately) {
    std::vector<arrival> all;
    for (int i = 0; i != 98; ++i)
        all.push_back(request(i * 100ms, 1, 50'000));
    auto const without = of(limit("1 seats", "patience 9s"), "2 seats", record_of(all));
    BOOST_TEST(without.now.waited == 0u);
    all.push_back(request(98 * 100ms, 1, 50'000));
    all.push_back(request(98 * 100ms, 1, 50'000));
    auto const one = of(limit("1 seats", "patience 9s"), "2 seats", record_of(all));
    BOOST_TEST(one.now.waited == 1u);
    BOOST_TEST((one.now.p99_wait == 0s));
    all.push_back(request(98 * 100ms, 1, 50'000));
    auto const two = of(limit("1 seats", "patience 9s"), "2 seats", record_of(all));
    BOOST_TEST(two.now.waited == 2u);
    BOOST_TEST((two.now.p99_wait > 50ms && two.now.p99_wait < 57ms));
}

// The service time of a rejected request is unknown: it takes the time of the last granted request of its key.
BOOST_AUTO_TEST_CASE(completes_rejected_requests) {
    auto const rejected = [](net::clock::duration at, std::uint64_t key) {
        return arrival{.at = start + at, .key = key};
    };
    auto l = limit("1 seats");
    l.key = {config::key_part()};
    auto const record =
        record_of({request(0s, 1, 2'000'000, 7), rejected(1s, 7), rejected(3500ms, 7),
                   request(4s, 1, 100'000, 8), rejected(10s, 7), rejected(11s, 7), rejected(13s, 7),
                   rejected(20s, 9), rejected(20050ms, 9), rejected(20200ms, 9)},
                  true);
    auto const p = of(l, "2 seats", record);
    // Of key 7: 0 s is granted until 2 s, 1 s rejected, 3.5 s granted, 10 s granted until 12 s, 11 s rejected, 13 s
    // granted. Of key 8: granted. Key 9 is new, and takes the 100 ms: 20.05 s is rejected.
    BOOST_TEST(p.now.rejected == 3u);
    BOOST_TEST(p.then.rejected == 0u);
}

BOOST_AUTO_TEST_CASE(of_a_limit_with_a_key_has_a_limiter_for_each_key) {
    auto l = limit("1/10s");
    l.key = {config::key_part{.what = config::key_part::kind::header, .name = "X"}};
    l.overrides = {{"vip", config::rule_of("9/10s")}};
    auto const record = record_of(
        {request(0s, 1, 0, 1), request(1s, 1, 0, std::uint64_t(1) << 40), request(2s, 1, 0, 1)},
        true);
    auto const p = of(l, "2/10s", record);
    BOOST_TEST(p.now.granted == 2u);
    BOOST_TEST(p.then.granted == 3u);
}

BOOST_AUTO_TEST_CASE(has_costs) {
    auto l = limit("10/10s");
    l.cost = {.what = config::cost::kind::bytes, .estimate = 1};
    auto const record = record_of({request(0s, 6), request(1s, 6), request(2s, 30)});
    auto const p = of(l, "40/10s", record);
    BOOST_TEST(p.now.granted == 1u);
    BOOST_TEST(p.then.granted == 2u);
}

BOOST_AUTO_TEST_CASE(counts_only_responses_that_count) {
    auto l = limit("1/10s");
    l.count = {{401, 401}};
    auto all = std::vector{request(0s), request(1s), request(2s), request(3s)};
    all[1].status = all[2].status = 401;
    auto const p = of(l, "2/10s", record_of(all));
    BOOST_TEST(p.now.granted == 2u);
    BOOST_TEST(p.then.granted == 3u);
}

BOOST_AUTO_TEST_CASE(of_a_dry_run_has_what_it_would_reject) {
    auto l = limit("1/10s", "patience 9s");
    l.dry_run = true;
    auto const p = of(l, "2/10s", record_of({request(0s), request(1s), request(2s)}));
    BOOST_TEST((p.now == proxy::rule_effect{"1/10s", 1, 2, 0, {}}));
    BOOST_TEST((p.then == proxy::rule_effect{"2/10s", 2, 1, 0, {}}));
}

// The multiples of a rule are 1.1, 1.21, 1.33, 1.46, 1.61, ..., 9.85 and 10, rounded up to whole permits.
BOOST_AUTO_TEST_CASE(finds_the_least_larger_rule_that_rejects_few) {
    auto const larger = [](config::limit const& l, arrivals::copy const& record) {
        std::atomic<bool> const stop = false;
        return find_larger_rule(l, record, stop);
    };
    auto const at_once = [](int n) {
        return record_of(std::vector(static_cast<std::size_t>(n), request(0s, 1, 59'000'000)));
    };
    auto const p = larger(limit("100/10s"), at_once(150));
    BOOST_TEST((p.now == proxy::rule_effect{"100/10s", 100, 50, 0, {}}));
    BOOST_TEST((p.then == proxy::rule_effect{"161/10s", 150, 0, 0, {}}));
    BOOST_TEST(p.requests == 150u);
    // At most a hundredth of the requests is rejected,
    BOOST_TEST(larger(limit("200 seats"), at_once(402)).then.rule == "428 seats");
    BOOST_TEST(larger(limit("182 seats"), at_once(404)).then.rule == "430 seats");
    // and at most a tenth of the rejections.
    std::vector<arrival> mostly_alone;
    for (int i = 0; i != 990; ++i)
        mostly_alone.push_back(request(i * 10ms));
    mostly_alone.insert(mostly_alone.end(), 10, request(20s, 1, 5'000'000));
    BOOST_TEST(larger(limit("2 seats"), record_of(mostly_alone)).then.rule == "10 seats");
    BOOST_TEST(larger(limit("10 seats"), at_once(100)).then.rule == "99 seats");
    // Ten times the permits do not suffice.
    auto const least = larger(limit("1/1min"), at_once(20));
    BOOST_TEST((least.then == proxy::rule_effect{"10/1min", 10, 10, 0, {}}));
    // Nothing is rejected.
    auto const calm = larger(limit("5 seats"), at_once(5));
    BOOST_TEST((calm.then == calm.now));
    BOOST_TEST(calm.then.rule == "5 seats");
    BOOST_TEST(larger(limit("5 seats"), record_of({})).then.rule == "5 seats");
}

BOOST_AUTO_TEST_CASE(multiplies_all_permits_of_a_rule) {
    auto const times = [](std::string_view rule, int percent) {
        return to_string(proxy::scaled(config::rule_of(rule), percent));
    };
    for (auto const& [rule, larger] : std::vector<std::pair<std::string_view, std::string_view>>{
             {"3 seats max_hold 30s", "5 seats max_hold 30s"},
             {"3 seats rest 2s", "5 seats rest 2s"},
             {"10/60s", "15/1min"},
             {"10/60s sliding slices 6", "15/1min sliding slices 6"},
             {"10/60s fixed alignment epoch", "15/1min fixed alignment epoch"},
             {"1000/day", "1500/day"},
             {"100/1s burst 20", "150/1s burst 30"},
             {"100/1s bucket", "150/1s bucket"},
             {"100/1s burst 20 initial 4", "150/1s burst 30 initial 6"},
             {"100/1s leaky capacity 5", "150/1s leaky capacity 8"},
             {"100/1s bursty max_burst 2s", "150/1s bursty max_burst 2s"},
             {"100/1s warming warm_up 4s", "150/1s warming warm_up 4s"},
             {"5/1min penalty first 2min", "8/1min penalty first 2min"},
             {"10/1s & 100/1min", "15/1s & 150/1min"}})
        BOOST_TEST(times(rule, 150) == larger);
    BOOST_TEST(times("10 seats", 110) == "11 seats");
    BOOST_TEST(times("1000000000000000 seats", 1000) == "1000000000000000 seats");
}

BOOST_AUTO_TEST_CASE(of_no_requests) {
    auto const p = of(limit("1/10s"), "2/10s", record_of({}));
    BOOST_TEST(p.requests == 0u);
    BOOST_TEST(p.kept == 1.0);
    BOOST_TEST(p.then.granted == 0u);
    BOOST_TEST(to_json(p) ==
               R"({"seconds":60,"requests":0,"kept":1,)"
               R"("now":{"rule":"1/10s","granted":0,"rejected":0,"waited":0,"p99_wait":0},)"
               R"("then":{"rule":"2/10s","granted":0,"rejected":0,"waited":0,"p99_wait":0}})");
}

// A thinned record gives nearly the numbers of all requests.
BOOST_AUTO_TEST_CASE(of_a_thinned_record) {
    for (bool const is_keyed : {false, true}) {
        arrivals some(is_keyed, start);
        std::uint64_t n = 0;
        auto const step = is_keyed ? 400us : 1200us;
        for (auto now = start; now != start + 10min; now += step)
            some.add({.at = now, .key = is_keyed ? n++ % 500 : 0, .granted = true});
        auto l = limit(is_keyed ? "25/10s" : "500/1s");
        if (is_keyed)
            l.key = {config::key_part()};
        auto const p = of(l, is_keyed ? "100/10s" : "900/1s", some.at(start + 10min));
        BOOST_TEST_CONTEXT("with a key: " << is_keyed) {
            BOOST_TEST((p.over == 10min));
            BOOST_TEST(p.requests == 10min / step);
            BOOST_TEST(
                (is_keyed ? p.kept > 0.03 && p.kept < 0.09 : p.kept > 0.13 && p.kept < 0.27));
            auto const granted = is_keyed ? 750'000.0 : 300'000.0;
            BOOST_TEST(std::abs(double(p.now.granted) - granted) < granted / 100);
            BOOST_TEST(p.now.granted + p.now.rejected == p.requests);
            BOOST_TEST(p.then.granted == p.requests);
        }
    }
}

// One part of the record has a quarter of the keys, and another part all keys.
BOOST_AUTO_TEST_CASE(of_parts_that_are_thinned_differently) {
    auto thin = std::make_shared<arrivals::block>(
        arrivals::block{.kept = {}, .seen = 4000, .level = 2, .end = {}});
    auto whole = std::make_shared<arrivals::block>(
        arrivals::block{.kept = {}, .seen = 400, .level = 0, .end = {}});
    for (std::uint64_t key = 0; key != 400; ++key) {
        for (int i = 0; i != 10 && arrivals::keeps_key(key, 2); ++i)
            thin->kept.push_back(request(0s, 1, 0, key));
        whole->kept.push_back(request(20s, 1, 0, key));
    }
    auto record = record_of({}, true);
    record.blocks = {thin, whole};
    auto l = limit("1/10s");
    l.key = {config::key_part()};
    auto const p = of(l, "5/10s", record);
    BOOST_TEST(p.requests == 4400u);
    BOOST_TEST(p.now.rejected == 3600u);
    BOOST_TEST(p.then.rejected == 2000u);
    BOOST_TEST((p.kept > 0.2 && p.kept < 0.3));
}

// More requests would take too long.
BOOST_AUTO_TEST_CASE(is_of_524_288_requests_at_most) {
    arrivals some(false, start);
    for (auto now = start; now != start + 10min; now += 150us)
        some.add({.at = now});
    auto const p = of(limit("1000/1s"), "9000/1s", some.at(start + 10min));
    BOOST_TEST(p.requests <= 525'000u);
    BOOST_TEST(p.requests > 520'000u);
    BOOST_TEST((p.over > 78s && p.over < 79s));  // 524,288 requests take 78.6 s
    BOOST_TEST(std::abs(double(p.now.granted) - 78'600.0) < 1000);
}

BOOST_AUTO_TEST_CASE(is_not_for_each_limit) {
    auto const has = [](std::string const& text, std::string_view part) {
        return text.find(part) != text.npos;
    };
    BOOST_TEST(proxy::why_no_preview(limit("1/1s")) == "");
    BOOST_TEST(proxy::why_no_preview(limit("1/1s", "order codel")) == "");
    BOOST_TEST(has(proxy::why_no_preview(limit("20 vegas max 40")), "adaptive seats depend"));
    BOOST_TEST(has(proxy::why_no_preview(limit("1 seats", "order fair")), "`fair`"));
    BOOST_TEST(has(proxy::why_no_preview(limit("1 seats", "order priority")), "`priority`"));
    auto none = limit("1/1s");
    none.is_unlimited = true;
    BOOST_TEST(has(proxy::why_no_preview(none), "`unlimited`"));
    auto shared = limit("1/1s");
    shared.store = "redis";
    BOOST_TEST(has(proxy::why_no_preview(shared), "`redis`"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace previewed
