#include <weir/chain.hpp>
#include <weir/rate_tree.hpp>
#include <weir/seats.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

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
using weir::amount;
using weir::permit;
using weir::rate_tree_options;

namespace {

rate_tree_options options(bool has_team) {
    return rate_tree_options::parse(
        has_team ? "tree / 20000/1s burst 400, /a 4000/1s burst 50 most 9000/1s, "
                   "/a/* most 3000/1s burst 30 keys 40, /* most 8000/1s burst 90 keys 40"
                 : "tree / 20000/1s burst 400, /* most 8000/1s burst 90 keys 40");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rate_tree_threads)

// Keys come and go, requests wait, chains move, and the options change. Nothing is lost, and the whole tree does not
// exceed its rate and burst.
BOOST_AUTO_TEST_CASE(never_grant_more_than_the_root_has) {
    asio::thread_pool pool(3);
    auto const begin = std::chrono::steady_clock::now();
    weir::rate_tree tree(pool.get_executor(), options(true), {.max_waiting = 5});
    weir::seats workers(pool.get_executor(), {.seats = 3});
    std::atomic<amount> granted = 0;
    auto const guest = [&](unsigned seed) -> asio::awaitable<void> {
        std::minstd_rand random(seed);
        for (int i = 0; i != 300; ++i) {
            auto const user = "user-" + std::to_string(random() % 60);
            amount const n = 1 + random() % 3;
            auto const wait = std::chrono::microseconds(random() % 3'000);
            weir::tree_path const leaf =
                random() % 2 == 0 ? weir::tree_path("a", user) : weir::tree_path(user);
            if (random() % 3 == 0) {
                weir::chain both(workers.with(), tree.with(leaf, n));
                auto [ec, held] = co_await both.async_enter(wait, asio::as_tuple(asio::deferred));
                granted += ec ? 0 : n;
            } else if (random() % 4 == 0) {
                auto passing = tree.try_enter(leaf, n);
                if (random() % 2 == 0)
                    passing.refund();
                else
                    granted += passing.count();
            } else {
                auto [ec, held] =
                    co_await tree.async_enter(leaf, n, wait, asio::as_tuple(asio::deferred));
                granted += held.count();
            }
            if (random() % 64 == 0)
                tree.cancel(leaf);
        }
    };
    std::vector<std::future<void>> guests;
    for (unsigned i = 0; i != 24; ++i)
        guests.push_back(asio::co_spawn(pool, guest(i), asio::use_future));
    bool has_team = true;
    for (auto& g : guests) {
        do {
            tree.configure(options(has_team = !has_team));
            static_cast<void>(tree.stats({"a"}));
            static_cast<void>(tree.stats());
        } while (g.wait_for(500us) != std::future_status::ready);
        g.get();
    }
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    BOOST_TEST(granted > 0);
    BOOST_TEST(static_cast<double>(granted) <= 400 + 20'000 * took.count() + 1);
    BOOST_TEST(tree.stats().total.live == 0U);
    BOOST_TEST(tree.stats().total.waiting == 0U);
    tree.async_drain(asio::use_future).get();
    pool.join();
}

// The tree is destroyed while requests wait, and permits of it remain.
BOOST_AUTO_TEST_CASE(a_destroyed_tree_completes_all) {
    for (int round = 0; round != 30; ++round) {
        asio::thread_pool pool(2);
        std::vector<permit> held;
        std::atomic<int> completed = 0;
        {
            weir::rate_tree tree(
                pool.get_executor(),
                rate_tree_options::parse("tree / 5000/1s burst 4, /* most 5000/1s"));
            for (int i = 0; i != 4; ++i)
                held.push_back(tree.try_enter({std::to_string(i)}));
            for (int i = 0; i != 40; ++i)
                tree.async_enter({std::to_string(i % 7)}, weir::forever,
                                 [&](weir::error_code, permit) { ++completed; });
            while (completed < round)  // 40 will be
                std::this_thread::yield();
        }
        for (auto& one : held)
            one.refund();
        pool.join();
        BOOST_TEST(completed == 40);
    }
}

BOOST_AUTO_TEST_SUITE_END()
