#include <weir/shared/memory_store.hpp>
#include <weir/shared/seats.hpp>

#include "support/random.hpp"
#include "support/rethrow.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

// Shared seats on several threads, in real time.

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using fate = weir::store_conduct::fate;

struct tally {
    std::atomic<int> answered = 0;
    std::atomic<int> told = 0;
    std::atomic<int> waits = 0;
};

asio::awaitable<void> visit(weir::shared_seats& kitchen, tally& all, std::uint64_t seed) {
    support::random_source random(seed);
    for (int i = 0; i != 20; ++i) {
        auto const patience = std::chrono::microseconds(random.between(0, 30'000));
        auto [ec, seat] = co_await kitchen.async_enter(
            random.between(1, 2), patience, asio::as_tuple(asio::deferred));
        ++all.answered;
        if (ec)
            continue;
        ++all.waits;
        kitchen.async_wait_lost(seat, [&all](weir::error_code) { ++all.told; });
        static_cast<void>(seat.lost());
        if (random.one_in(3)) {
            asio::steady_timer meal(co_await asio::this_coro::executor,
                                    std::chrono::microseconds(random.between(0, 500)));
            co_await meal.async_wait(asio::deferred);
        }
        if (random.one_in(3))
            seat.settle(1);
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(shared_seats_threads)

BOOST_AUTO_TEST_CASE(every_request_and_every_wait_completes_once_whatever_the_store_does) {
    support::for_each_seed(1, 4, [](auto& random) {
        asio::thread_pool threads(4);
        auto const store = std::make_shared<weir::memory_store>(threads);
        weir::shared_seats_options const options{
            .seats = 3, .lease = 100ms, .timeout = 2ms, .poll = 1ms};
        std::optional<weir::shared_seats> here(std::in_place, threads, store, "kitchen", options);
        weir::shared_seats there(threads, store, "kitchen", options);
        tally all;
        constexpr int visitors = 12;
        for (int i = 0; i != visitors; ++i)
            asio::co_spawn(asio::make_strand(threads),
                           visit(i % 2 == 0 ? *here : there, all, random.bits()), support::rethrow);
        for (int i = 0; i != 200; ++i) {
            store->behave({.there = std::chrono::microseconds(random.between(0, 300)),
                           .back = std::chrono::microseconds(random.between(0, 300)),
                           .what = random.one_of({fate::answered, fate::answered, fate::answer_lost,
                                                  fate::unreachable})});
            BOOST_TEST_REQUIRE(store->held("kitchen") <= 3);
            static_cast<void>(there.shared_stats());
            if (random.one_in(50))
                store->restart_empty();
            if (random.one_in(50))
                here->cancel();
            if (random.one_in(50))
                there.configure([&](auto& o) { o.poll = random.one_of({1ms, 2ms}); });
        }
        store->behave({});
        threads.wait();
        BOOST_TEST(all.answered == visitors * 20);
        BOOST_TEST(all.told == all.waits);
        here.reset();
        BOOST_TEST(there.stats().waiting == 0u);
        BOOST_TEST(there.stats().live == 0u);
        BOOST_TEST(store->held("kitchen") == 0);
    });
}

BOOST_AUTO_TEST_CASE(limiter_is_destroyed_during_its_questions) {
    support::for_each_seed(1, 20, [](auto& random) {
        asio::thread_pool threads(2);
        auto const store = std::make_shared<weir::memory_store>(threads);
        auto limiter = std::make_unique<weir::shared_seats>(
            threads, store, "kitchen", weir::shared_seats_options{.seats = 3});
        std::atomic<int> over = 0;
        for (int i = 0; i != 20; ++i)
            limiter->async_enter(1s, [&over](weir::error_code, weir::permit p) {
                p.leave();
                ++over;
            });
        for (auto spins = random.between(0, 20'000); spins != 0; --spins)
            std::atomic_signal_fence(std::memory_order_seq_cst);
        limiter.reset();
        threads.wait();
        BOOST_TEST(over == 20);
        BOOST_TEST(store->held("kitchen") == 0);
    });
}

BOOST_AUTO_TEST_SUITE_END()
