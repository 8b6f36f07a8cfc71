// The record of a limit's requests: ten minutes, at most 4 MiB, thinned evenly.

#include "proxy/arrivals.hpp"

#include "local_proxy.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

// Files of this folder are compiled together.
namespace recorded {
namespace {

using namespace std::chrono_literals;
using proxy::arrival;
using proxy::arrivals;
using time_point = net::clock::time_point;

constexpr time_point start{1h};

/// The kept requests in the time of the record, in the order of the blocks.
std::vector<arrival> kept(arrivals::copy const& record) {
    std::vector<arrival> all;
    for (auto const& b : record.blocks)
        std::ranges::copy_if(b->kept, std::back_inserter(all), [&](arrival const& a) {
            return a.at >= record.since && a.at <= record.until;
        });
    return all;
}
std::size_t bytes(arrivals::copy const& record) {
    std::size_t n = 0;
    for (auto const& b : record.blocks)
        n += b->kept.capacity() * sizeof(arrival);
    return n;
}
std::uint64_t seen(arrivals::copy const& record) {
    std::uint64_t n = 0;
    for (auto const& b : record.blocks)
        n += b->seen;
    return n;
}
unsigned highest_level(arrivals::copy const& record) {
    unsigned most = 0;
    for (auto const& b : record.blocks)
        most = std::max(most, b->level);
    return most;
}

/// A proxy that keeps the records of its limits, and its upstream.
std::string changeable(std::string const& limits, std::string const& names) {
    return "[admin]\nwrite = true\n[[upstream]]\nname = \"a\"\nservers = [\"UPSTREAM\"]\n" +
           limits + "[[route]]\nupstream = \"a\"\nlimits = [" + names + "]\n";
}
std::vector<arrival> record_of(support::local_proxy const& p, std::size_t limit = 0) {
    return kept(p.plan().limits[limit]->record()->at(net::clock::now()));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(a_record_of_requests)

BOOST_AUTO_TEST_CASE(begins_when_it_is_created) {
    arrivals some(false, start);
    auto const empty = some.at(start + 5s);
    BOOST_TEST(kept(empty).empty());
    BOOST_TEST((empty.since == start && empty.until == start + 5s));
    some.add({.at = start + 6s, .key = 0, .permits = 7, .held = 8, .status = 200, .granted = true});
    auto const one = kept(some.at(start + 7s));
    BOOST_REQUIRE(one.size() == 1u);
    BOOST_TEST((one[0].at == start + 6s && one[0].permits == 7 && one[0].held == 8));
    BOOST_TEST((one[0].status == 200 && one[0].granted));
}

BOOST_AUTO_TEST_CASE(has_ten_minutes) {
    for (bool const is_keyed : {false, true}) {
        arrivals some(is_keyed, start);
        for (int i = 0; i != 1800; ++i) {
            auto const now = start + i * 1s;
            some.add({.at = now, .key = std::uint64_t(i % 7)});
            auto const record = some.at(now);
            BOOST_TEST_REQUIRE((record.since == std::max(start, now - 10min)));
            BOOST_TEST_REQUIRE(kept(record).size() == std::size_t(std::min(i, 600)) + 1);
            // Older requests are soon forgotten.
            BOOST_TEST_REQUIRE(seen(record) <= 600u + 30u);
        }
    }
}

BOOST_AUTO_TEST_CASE(without_a_key_keeps_one_request_in_2_4_8) {
    arrivals some(false, start);
    std::uint64_t n = 0;
    for (auto now = start; now != start + 10min; now += 200us) {
        some.add({.at = now});
        if (++n % 100'000 == 0)
            BOOST_TEST_REQUIRE(bytes(some.at(now)) <= 4u * 1024 * 1024 + 16 * 1024);
    }
    auto const record = some.at(start + 10min);
    BOOST_TEST((record.since == start));
    BOOST_TEST(seen(record) == n);
    BOOST_TEST(kept(record).size() > arrivals::most / 2);
    for (auto const& b : record.blocks) {
        BOOST_TEST_REQUIRE((b->level == 5u || b->level == 4u));  // 3,000,000 / 131,072 is 23
        for (std::size_t i = 1; i < b->kept.size(); ++i)
            BOOST_TEST_REQUIRE((b->kept[i].at - b->kept[i - 1].at == (1 << b->level) * 200us));
        if (b != record.blocks.back())
            BOOST_TEST_REQUIRE((b->kept.size() << b->level) >= b->seen);
    }
}

BOOST_AUTO_TEST_CASE(with_a_key_keeps_all_requests_of_some_keys) {
    constexpr std::uint64_t keys = 5000;
    arrivals some(true, start);
    std::map<std::uint64_t, std::size_t> added;
    std::uint64_t random = 1;
    for (auto now = start; now != start + 10min; now += 500us) {
        random = random * 6364136223846793005 + 1442695040888963407;
        auto const key = (random >> 40) % keys;
        ++added[key];
        some.add({.at = now, .key = key});
    }
    auto const record = some.at(start + 10min);
    BOOST_TEST((record.since == start));
    BOOST_TEST(bytes(record) <= 4u * 1024 * 1024 + 16 * 1024);
    auto const level = highest_level(record);
    BOOST_TEST((level == 4u || level == 5u));  // 1,200,000 / 131,072 is 9.2
    std::map<std::uint64_t, std::size_t> found;
    for (auto const& a : kept(record))
        if (arrivals::keeps_key(a.key, level))
            ++found[a.key];
    for (auto const& [key, n] : found)
        BOOST_TEST_REQUIRE(n == added[key]);
    auto const expected = double(keys) / (1 << level);
    BOOST_TEST(std::abs(double(found.size()) - expected) < expected / 2);
}

// A thinner record could lack the key that has half of the requests.
BOOST_AUTO_TEST_CASE(with_a_heavy_key_has_the_newest_requests) {
    arrivals some(true, start);
    std::vector<time_point> added;
    for (auto now = start; now != start + 10min; now += 1ms) {
        some.add({.at = now, .key = added.size() % 2 == 0 ? 1 : added.size()});
        added.push_back(now);
    }
    auto const record = some.at(start + 10min);
    BOOST_TEST(highest_level(record) == 0u);
    BOOST_TEST(bytes(record) <= 4u * 1024 * 1024 + 16 * 1024);
    BOOST_TEST((record.since > start + 7min && record.since < start + 8min));
    auto const from = std::ranges::lower_bound(added, record.since);
    // The request at the first instant may have been the last of the forgotten ones.
    BOOST_TEST(std::size_t(added.end() - from) - kept(record).size() <= 1u);
}

// Once most of the many requests are forgotten, further requests are all kept. Ten minutes later there are no others.
BOOST_AUTO_TEST_CASE(is_complete_again_once_there_are_few_requests) {
    for (bool const is_keyed : {false, true}) {
        arrivals some(is_keyed, start);
        auto now = start;
        for (std::uint64_t i = 0; i != 1'000'000; ++i)
            some.add({.at = now += 500us, .key = i % 1000});
        BOOST_TEST(highest_level(some.at(now)) > 2u);
        for (int i = 0; i != 1200; ++i)
            some.add({.at = now += 1s, .key = std::uint64_t(i)});
        auto const record = some.at(now);
        BOOST_TEST(highest_level(record) == 0u);
        BOOST_TEST(kept(record).size() == 601u);
    }
}

BOOST_AUTO_TEST_CASE(counts_the_requests_of_all_threads) {
    arrivals some(true, start);
    std::vector<std::thread> threads;
    for (std::uint64_t key = 0; key != 4; ++key)
        threads.emplace_back([&some, key] {
            for (int i = 0; i != 10'000; ++i)
                some.add({.at = start + i * 1ms, .key = key});
        });
    for (auto& t : threads)
        t.join();
    auto const record = some.at(start + 10s);
    BOOST_TEST(seen(record) == 40'000u);
    BOOST_TEST(kept(record).size() == 40'000u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(a_limit)

BOOST_AUTO_TEST_CASE(keeps_a_record_where_its_rule_may_be_changed) {
    std::string const limit = "[[limit]]\nname = \"l\"\nrule = \"9/1s\"\n";
    std::string const rest = "[[upstream]]\nname = \"a\"\nservers = [\"UPSTREAM\"]\n" + limit;
    support::local_proxy some("[admin]\nwrite = true\n" + rest);
    auto const record = [&] { return some.plan().limits.front()->record(); };
    auto const first = record();
    BOOST_TEST(bool(first));
    some.reload("[admin]\nwrite = true\n" + rest + "queue = \"patience 2s\"\n");
    BOOST_TEST((record() == first));
    some.reload(rest);
    BOOST_TEST(!record());
    some.reload("[admin]\naddress = \"none\"\nwrite = true\n" + rest);
    BOOST_TEST(!record());
}

BOOST_AUTO_TEST_CASE(records_what_it_decided) {
    support::local_proxy some(changeable(
        "[[limit]]\nname = \"l\"\nrule = \"1/90s\"\ncost = 1\n"
        "queue = \"max_waiting 0 patience 0s\"\n"
        "[[limit]]\nname = \"m\"\nrule = \"9 seats\"\n",
        "\"l\", \"m\""));
    auto const before = net::clock::now();
    BOOST_TEST(some.ask() == 200u);
    some.pass(3s);
    BOOST_TEST(some.ask() == 429u);
    auto const all = record_of(some);
    BOOST_REQUIRE(all.size() == 2u);
    BOOST_TEST((all[0].at == before && all[0].granted && all[0].status == 200));
    BOOST_TEST((all[1].at == before + 3s && !all[1].granted));
    // The other limit did not decide on the second request.
    BOOST_TEST(record_of(some, 1).size() == 1u);
}

BOOST_AUTO_TEST_CASE(records_how_long_a_request_was_served_after_its_wait) {
    support::local_proxy some(changeable(
        "[[limit]]\nname = \"l\"\nrule = \"1 seats\"\nqueue = \"patience 1min\"\n", "\"l\""));
    some.upstream.answer = [](auto const&) { return std::nullopt; };
    auto first = some.connect();
    BOOST_TEST(some.ask(first, support::get) == 0u);
    auto second = some.connect();
    BOOST_TEST(some.ask(second, support::get) == 0u);
    some.pass(4s);
    some.upstream.connections.back().send(support::ok().text);
    some.settle();
    some.pass(7s);
    some.upstream.connections.back().send(support::ok().text);
    some.settle();
    auto const all = record_of(some);
    BOOST_REQUIRE(all.size() == 2u);
    BOOST_TEST((all[0].at == all[1].at));
    BOOST_TEST(all[0].held == 4'000'000u);
    BOOST_TEST(all[1].held == 7'000'000u);
}

BOOST_AUTO_TEST_CASE(records_keys_without_an_override) {
    support::local_proxy some(changeable(
        "[[limit]]\nname = \"l\"\nrule = \"9/1s\"\nkey = \"client\"\n"
        "overrides = { \"10.0.0.2\" = \"8/1s\", \"10.0.0.3\" = "
        "\"unlimited\" }\n",
        "\"l\""));
    for (auto const* const client : {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.1", "10.0.0.4"})
        BOOST_TEST(some.ask(client) == 200u);
    auto const all = record_of(some);
    BOOST_REQUIRE(all.size() == 3u);
    BOOST_TEST(all[0].key == all[1].key);
    BOOST_TEST(all[0].key != all[2].key);
}

BOOST_AUTO_TEST_CASE(records_costs) {
    support::local_proxy some(changeable(
        "[[limit]]\nname = \"l\"\nrule = \"1000/1s\"\ncost = \"response bytes\"\n", "\"l\""));
    some.upstream.answer = [](auto const&) { return support::ok("12345"); };
    BOOST_TEST(some.ask() == 200u);
    auto const all = record_of(some);
    BOOST_REQUIRE(all.size() == 1u);
    BOOST_TEST(all[0].permits == 5u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace recorded
