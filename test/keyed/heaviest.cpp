#include <weir/detail/keyed/heavy_keys.hpp>
#include <weir/keyed.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/token_bucket.hpp>

#include "support/random.hpp"
#include "support/says.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// Compares the reported counts with an exact count.

using namespace support;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

template <class Key, class Policy>
using watched = weir::basic_keyed<Key, Policy, asio::any_io_executor, weir::testing::timer>;
using watched_buckets = watched<std::uint64_t, weir::policy::token_bucket>;

struct truth {
    std::uint64_t requests = 0;
    std::uint64_t rejected = 0;
};
template <class Key>
using truths = std::map<Key, truth>;

// Checks the bounds that `found` promises for each key. No error may exceed `most_error`.
template <class Key>
void check(std::vector<weir::heavy_key<Key>> const& found, truths<Key> const& exact,
           std::uint64_t most_error) {
    for (std::size_t i = 0; i != found.size(); ++i) {
        auto const& f = found[i];
        BOOST_TEST_REQUIRE(exact.contains(f.key));
        auto const& t = exact.at(f.key);
        BOOST_TEST_REQUIRE(t.requests <= f.requests);
        BOOST_TEST_REQUIRE(t.requests >= f.requests - f.error);
        BOOST_TEST_REQUIRE(f.error <= most_error);
        BOOST_TEST_REQUIRE(t.rejected >= f.rejected);
        BOOST_TEST_REQUIRE(t.rejected <= f.rejected + f.error);
        BOOST_TEST_REQUIRE((i == 0 || f.requests <= found[i - 1].requests));
    }
    for (auto const& [key, t] : exact) {
        bool const is_there =
            std::ranges::any_of(found, [&](auto const& f) { return f.key == key; });
        BOOST_TEST_REQUIRE((is_there || t.requests <= most_error));
    }
}

// Streams of keys.
using stream = std::function<std::uint64_t(std::uint64_t number, random_source&)>;
std::uint64_t zipf(std::uint64_t, random_source& random) {
    // The n-th key is 1/n as frequent as the first: exp of a uniform number.
    auto const u = static_cast<double>(random.between(0, 1'000'000)) / 1e6;
    return static_cast<std::uint64_t>(std::exp(u * std::log(100'000.0)));
}
// All keys in turn, so that each takes a counter from another.
std::uint64_t in_turn(std::uint64_t number, random_source&) {
    return number % 1'000;
}
// A heavy key among keys that occur once.
std::uint64_t hiding(std::uint64_t number, random_source&) {
    return number % 20 == 0 ? 7 : 1'000 + number;
}
// Heavy keys stop, and others start.
std::uint64_t shifting(std::uint64_t number, random_source& random) {
    return number / 5'000 * 10 + static_cast<std::uint64_t>(random.between(0, 30));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(keyed_heaviest)

BOOST_AUTO_TEST_CASE(keeps_its_error_bound_on_any_stream) {
    constexpr std::uint64_t events = 20'000;
    for (stream const& next : {stream(zipf), stream(in_turn), stream(hiding), stream(shifting)}) {
        for (std::uint32_t const counters : {1U, 2U, 7U, 64U, 1'000U}) {
            random_source random(counters);
            weir::detail::heavy_keys<std::uint64_t> counted(counters);
            using handle = weir::detail::key_handle<std::uint64_t>;
            truths<std::uint64_t> exact;
            for (std::uint64_t i = 0; i != events; ++i) {
                auto const key = next(i, random);
                bool const rejected = random.one_in(3);
                ++exact[key].requests;
                exact[key].rejected += rejected;
                // Some buckets are full, and some are empty.
                counted.count(key, key % 50 << 32, rejected, [&] { return handle::from(key); });
            }
            std::vector<weir::heavy_key<std::uint64_t>> found;
            counted.for_each([&](auto const& f) {
                found.push_back({f.key.key(), f.count, f.error, f.rejected});
            });
            std::ranges::sort(found, std::ranges::greater(),
                              &weir::heavy_key<std::uint64_t>::requests);
            BOOST_TEST(found.size() == std::min<std::size_t>(counters, exact.size()));
            check(found, exact, exact.size() <= counters ? 0 : events / counters);
            auto const others = counted.count_without_counter();
            BOOST_TEST(others <= events / counters);
            for (auto const& [key, t] : exact) {
                if (std::ranges::none_of(found, [&](auto const& f) { return f.key == key; }))
                    BOOST_TEST_REQUIRE(t.requests <= others);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(names_the_most_frequent_keys) {
    asio::io_context ctx;
    watched_buckets per_client{
        ctx, {.rate = {1, 1h}, .burst = 5}, {.shards = 4, .heavy_keys = 100}};
    random_source random(1);
    truths<std::uint64_t> exact;
    for (int i = 0; i != 50'000; ++i) {
        auto const key = zipf(0, random);
        error_code ec;
        per_client.try_enter(key, 1, ec).leave();
        ++exact[key].requests;
        exact[key].rejected += static_cast<bool>(ec);
    }
    check(per_client.heaviest(400), exact, 50'000 / 100);
    auto const five = per_client.heaviest(5);
    BOOST_TEST_REQUIRE(five.size() == 5U);
    for (std::size_t i = 0; i != 5; ++i)
        BOOST_TEST(five[i].key == i + 1);
    BOOST_TEST(per_client.heaviest(0).empty());

    watched_buckets without{ctx, {.rate = {1, 1h}, .burst = 5}};
    without.try_enter(1U).leave();
    BOOST_TEST(without.heaviest(5).empty());
    BOOST_CHECK_EXCEPTION(
        (watched_buckets{ctx, {.rate = {1, 1h}}, {.heavy_keys = 65'537}}), std::invalid_argument,
        says("weir::keyed: heavy_keys is 65537, but must be from 0 to 65536"));
}

// A request counts once, however it is made, and once more if it is rejected.
BOOST_AUTO_TEST_CASE(counts_each_request_once) {
    asio::io_context ctx;
    watched<std::string, weir::policy::seats> tables{
        ctx, {.seats = 1}, {.heavy_keys = 8}, {.max_waiting = 2}};
    auto const count = [&] {
        auto const found = tables.heaviest(9);
        BOOST_TEST_REQUIRE(found.size() == 1U);
        BOOST_TEST(found[0].key == "a");
        BOOST_TEST(found[0].error == 0U);
        return std::pair(found[0].requests, found[0].rejected);
    };
    using pair = std::pair<std::uint64_t, std::uint64_t>;
    auto seat = tables.try_enter("a");
    BOOST_TEST((count() == pair(1, 0)));
    BOOST_TEST(!tables.try_enter("a"));  // the key has no room object yet
    BOOST_TEST((count() == pair(2, 1)));
    std::vector<visit> visits(4);
    tables.async_enter("a", visits[0].callback());
    BOOST_TEST((count() == pair(3, 1)));
    BOOST_TEST(!tables.try_enter("a"));  // the key has a room object
    BOOST_TEST((count() == pair(4, 2)));
    tables.async_enter("a", 1s, visits[1].callback());
    tables.async_enter("a", visits[2].callback());  // the queue is full
    settle(ctx);
    BOOST_TEST(visits[2].rejected(errc::queue_full));
    BOOST_TEST((count() == pair(6, 3)));
    run_for(ctx, 2s);
    BOOST_TEST(visits[1].rejected(errc::timed_out));
    BOOST_TEST((count() == pair(6, 4)));
    auto const caller = [&]() -> asio::awaitable<void> {
        try {
            auto const none = co_await tables.enter("a", 10s);
        } catch (weir::rejection const&) {}
    };
    co_spawn(ctx, caller(), rethrow);
    settle(ctx);
    BOOST_TEST((count() == pair(7, 4)));
    seat.leave();
    settle(ctx);
    BOOST_TEST(visits[0].granted());
    BOOST_TEST((count() == pair(7, 4)));
    tables.async_enter("a", visits[3].callback());
    tables.cancel("a");  // does not count as a rejection
    settle(ctx);
    BOOST_TEST(visits[3].rejected(asio::error::operation_aborted));
    BOOST_TEST((count() == pair(8, 4)));
    std::vector<permit> outcomes(2);
    std::vector<std::string> const twice{"a", "a"};
    tables.try_enter_many<std::string>(twice, outcomes);
    BOOST_TEST((count() == pair(10, 6)));
    tables.close();
    BOOST_TEST(!tables.try_enter("a"));
    BOOST_TEST((count() == pair(11, 7)));
}

// Keys without room in the table count too, with `reject` and with `share`.
BOOST_AUTO_TEST_CASE(counts_keys_without_room) {
    asio::io_context ctx;
    for (auto const no_place : {weir::when_no_place::reject, weir::when_no_place::share}) {
        for (std::uint32_t const counters : {20U, 200U}) {
            watched<std::string, weir::policy::seats> tables{
                ctx,
                {.seats = 1'000'000},
                {.max_keys = 10, .no_place = no_place, .shards = 2, .heavy_keys = counters}};
            random_source random(counters);
            truths<std::string> exact;
            std::vector<permit> seats;
            for (int i = 0; i != 5'000; ++i) {
                auto const key =
                    "a long name, which is not small: " + std::to_string(zipf(0, random));
                auto p = tables.try_enter(key);
                ++exact[key].requests;
                exact[key].rejected += !p;
                // Occasionally there is room again.
                seats.push_back(std::move(p));
                if (i % 500 == 0)
                    seats.clear();
            }
            auto const parts = no_place == weir::when_no_place::share ? 2U : 1U;
            check(tables.heaviest(10'000), exact, parts * (5'000U / counters));
        }
    }
}

BOOST_AUTO_TEST_CASE(can_be_read_while_threads_count) {
    asio::io_context ctx;
    watched<std::string, weir::policy::token_bucket> calls{
        ctx, {.rate = {1, 24h}, .burst = 10}, {.max_keys = 300, .shards = 2, .heavy_keys = 16}};
    constexpr std::uint64_t each = 5'000;
    auto const caller = [&](unsigned seed) {
        random_source random(seed);
        for (std::uint64_t i = 0; i != each; ++i)
            calls.try_enter(std::to_string(zipf(0, random))).leave();
    };
    {
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i != 3; ++i)
            threads.emplace_back(caller, i + 1);
        for (int i = 0; i != 50; ++i) {
            for (auto const& found : calls.heaviest(5))
                BOOST_TEST_REQUIRE(found.requests <= 3 * each);
        }
    }
    auto const found = calls.heaviest(100);
    std::uint64_t sum = 0;
    for (auto const& f : found)
        sum += f.requests;
    BOOST_TEST(found.size() == 32U);
    BOOST_TEST(sum == 3 * each);  // because each request counts somewhere
    BOOST_TEST(found.front().key == "1");
}

BOOST_AUTO_TEST_SUITE_END()
