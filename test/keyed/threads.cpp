#include <weir/chain.hpp>
#include <weir/keyed.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/seats.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Random operations on real threads, in real time. The interleavings depend on the machine, the checks do not.

namespace asio = boost::asio;
using namespace std::chrono_literals;
using weir::errc;
using weir::error_code;
using weir::permit;

BOOST_AUTO_TEST_SUITE(keyed_threads)

// Seats of few keys with waiting requests, and many other keys that are created and forgotten. No seat is granted
// twice.
BOOST_AUTO_TEST_CASE(never_grant_more_than_each_key_has) {
    constexpr int hot = 4;
    constexpr int seats_each = 2;
    asio::thread_pool pool(3);
    weir::keyed<std::string, weir::policy::seats> tables{
        pool.get_executor(), {.seats = seats_each}, {.shards = 2}, {.max_waiting = 5}};
    std::array<std::atomic<int>, hot> inside{};
    std::atomic<int> too_many = 0;
    auto const guest = [&](unsigned seed) -> asio::awaitable<void> {
        std::minstd_rand random(seed);
        for (int i = 0; i != 400; ++i) {
            auto const which = random() % hot;
            auto const name = "table " + std::to_string(which);
            auto [ec, seat] = co_await tables.async_enter(
                name, std::chrono::microseconds(random() % 2'000), asio::as_tuple(asio::deferred));
            if (!ec) {
                too_many += ++inside[which] > seats_each;
                if (random() % 2 == 0)
                    co_await asio::post(asio::deferred);
                --inside[which];
                if (random() % 4 == 0)
                    seat.refund();
            }
            auto const passing = tables.try_enter(std::to_string(random()));
            if (random() % 64 == 0)
                tables.cancel(name);
        }
    };
    std::vector<std::future<void>> guests;
    for (unsigned i = 0; i != 24; ++i)
        guests.push_back(asio::co_spawn(pool, guest(i), asio::use_future));
    for (int i = 0; i != 20; ++i) {
        tables.configure({.seats = seats_each - i % 2});
        static_cast<void>(tables.stats());
        std::this_thread::yield();
    }
    tables.configure({.seats = seats_each});
    for (auto& g : guests)
        g.get();
    BOOST_TEST(too_many == 0);
    BOOST_TEST(tables.stats().total.live == 0U);
    BOOST_TEST(tables.stats().total.waiting == 0U);
    auto drained = tables.async_drain(asio::use_future);
    drained.get();
    pool.join();
}

// Batches and single requests for the same keys on three threads: together they are granted the permits of each key.
BOOST_AUTO_TEST_CASE(share_the_permits_of_a_key) {
    constexpr int keys = 500;
    asio::io_context ctx;
    weir::keyed<std::uint64_t, weir::policy::token_bucket> calls{
        ctx, {.rate = {1, 24h}, .burst = 10}, {.max_keys = 10'000}};
    std::atomic<int> granted = 0;
    auto const caller = [&](unsigned seed) {
        std::minstd_rand random(seed);
        std::vector<std::uint64_t> batch(100);
        std::vector<permit> outcomes(100);
        for (int round = 0; round != 100; ++round) {
            for (auto& key : batch)
                key = random() % keys;
            calls.try_enter_many<std::uint64_t>(batch, outcomes);
            for (auto const& p : outcomes)
                granted += static_cast<bool>(p);
            for (int i = 0; i != 100; ++i)
                granted += static_cast<bool>(calls.try_enter(random() % keys));
        }
    };
    {
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i != 3; ++i)
            threads.emplace_back(caller, i + 1);
    }
    BOOST_TEST(granted <= keys * 10);
    BOOST_TEST(calls.stats().total.granted == static_cast<std::uint64_t>(granted));
    BOOST_TEST(granted >= keys * 9);
}

// Threads hold seats of about as many keys as the table has places, so they take the last place from each other, and keys
// are forgotten between two requests. A key without a place shares a state, so no request is rejected with `errc::too_many_keys`.
BOOST_AUTO_TEST_CASE(share_whenever_a_key_has_no_place) {
    constexpr unsigned callers = 4;
    for (std::uint32_t const shards : {1U, 4U}) {
        asio::io_context ctx;
        weir::keyed<std::uint64_t, weir::policy::seats> seats{
            ctx,
            {.seats = 1'000},
            {.max_keys = 64 * shards, .no_place = weir::when_no_place::share, .shards = shards}};
        weir::seats all{ctx, {.seats = 1'000}};
        std::atomic<int> without_place = 0;
        auto const caller = [&](unsigned seed) {
            std::minstd_rand random(seed);
            error_code ec;
            auto const note = [&] { without_place += ec == errc::too_many_keys; };
            std::vector<permit> held(64 / callers * shards);
            for (int i = 0; i != 40'000; ++i) {
                held[random() % held.size()] = seats.try_enter(random(), 1, ec);
                note();
                weir::chain both(all, seats.with(random()));
                auto const permits = both.try_enter(ec);
                note();
                if (i % 16 != 0)
                    continue;
                seats.async_enter(random(), 1ms, [&](error_code, permit) {});
                both.async_enter(1ms, [&](error_code, weir::chain_permit<2>) {});
            }
        };
        std::atomic<bool> done = false;
        std::jthread const completes([&] {
            while (!done) {
                ctx.restart();
                ctx.poll();
            }
        });
        {
            std::vector<std::jthread> threads;
            for (unsigned i = 0; i != callers; ++i)
                threads.emplace_back(caller, i + 1);
        }
        done = true;
        BOOST_TEST(without_place == 0);
        BOOST_TEST(seats.stats().total.too_many_keys == 0U);
    }
}

// Two threads change the options of all keys and of all queues. When a change has been made, all keys have its options
// or newer ones, and no change is lost.
BOOST_AUTO_TEST_CASE(change_all_options_at_a_time) {
    constexpr int changes = 50;
    constexpr std::uint64_t keys = 300;
    asio::io_context ctx;
    weir::keyed<std::uint64_t, weir::policy::seats> tables{
        ctx, {.seats = 1}, {.shards = 2}, {.max_waiting = 1}};
    std::vector<permit> all;
    for (std::uint64_t key = 0; key != keys; ++key)
        all.push_back(tables.try_enter(key));
    std::atomic<int> too_old = 0;
    auto const change = [&] {
        for (int i = 0; i != changes; ++i) {
            weir::amount mine = 0;
            tables.configure([&](weir::seats_options& o) { mine = ++o.seats; });
            for (std::uint64_t key = 0; key < keys; key += 7)
                too_old += tables.options(key).seats < mine;
            tables.configure_queue([](weir::queue_options& queue) { ++queue.max_waiting; });
        }
    };
    std::atomic<bool> done = false;
    std::jthread const reader([&] {
        for (weir::amount last = 0; !done;) {
            auto const now = tables.options().seats;
            too_old += now < last;
            last = now;
        }
    });
    {
        std::jthread const one(change);
        std::jthread const other(change);
    }
    done = true;
    BOOST_TEST(too_old == 0);
    for (std::uint64_t key = 0; key != keys; ++key)
        BOOST_TEST_REQUIRE(tables.options(key).seats == 1 + 2 * changes);
    BOOST_TEST(tables.queueing().max_waiting == 1 + 2 * changes);

    // Each shard has the last options of the queues.
    int rejected = 0;
    for (std::uint64_t key = 0; key != 16; ++key) {
        all.push_back(tables.try_enter(key, 2 * changes));
        for (int i = 0; i != 2 + 2 * changes; ++i)
            tables.async_enter(key,
                               [&](error_code ec, permit) { rejected += ec == errc::queue_full; });
    }
    ctx.poll();
    BOOST_TEST(rejected == 16);
    tables.close();
    ctx.restart();
    ctx.poll();
}

BOOST_AUTO_TEST_SUITE_END()
