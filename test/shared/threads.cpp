#include <weir/shared/limiter.hpp>
#include <weir/shared/memory_store.hpp>

#include "support/random.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

// Limiters that share a store, on several threads in real time.

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using fate = weir::store_conduct::fate;

struct tally {
    std::atomic<int> granted = 0;
    std::atomic<int> rejected = 0;
};

asio::awaitable<void> visit(weir::shared_token_bucket& limiter, tally& all, std::uint64_t seed) {
    support::random_source random(seed);
    for (int i = 0; i != 60; ++i) {
        auto const patience = std::chrono::microseconds(random.between(0, 3000));
        auto [ec, granted] = co_await limiter.async_enter(
            random.between(1, 3), patience, asio::as_tuple(asio::deferred));
        ++(ec ? all.rejected : all.granted);
        if (random.one_in(3))
            granted.refund();
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(shared_threads)

BOOST_AUTO_TEST_CASE(every_request_completes_once_whatever_the_store_does) {
    support::for_each_seed(1, 4, [](auto& random) {
        asio::thread_pool threads(4);
        auto const store = std::make_shared<weir::memory_store>(threads);
        weir::shared_options const options{
            .rate = {20'000, 1s}, .burst = 50, .timeout = 2ms, .retry = {.initial = 1ms}};
        std::optional<weir::shared_token_bucket> here(
            std::in_place, threads, store, "calls", options);
        weir::shared_token_bucket there(threads, store, "calls", options);
        tally all;
        constexpr int visitors = 16;
        for (int i = 0; i != visitors; ++i)
            asio::co_spawn(asio::make_strand(threads),
                           visit(i % 2 == 0 ? *here : there, all, random.bits()), asio::detached);
        for (int i = 0; i != 200; ++i) {
            store->behave({.there = std::chrono::microseconds(random.between(0, 300)),
                           .back = std::chrono::microseconds(random.between(0, 300)),
                           .what = random.one_of({fate::answered, fate::answered, fate::answer_lost,
                                                  fate::unreachable})});
            static_cast<void>(there.shared_stats());
            if (random.one_in(50))
                here->cancel();
            if (random.one_in(50))
                there.configure([&](auto& o) { o.burst = random.between(3, 50); });
        }
        store->behave({});
        threads.wait();
        BOOST_TEST(all.granted + all.rejected == visitors * 60);
        here.reset();
        BOOST_TEST(there.stats().waiting == 0u);
        BOOST_TEST(there.stats().live == 0u);
    });
}

BOOST_AUTO_TEST_CASE(limiter_is_destroyed_during_its_questions) {
    support::for_each_seed(1, 20, [](auto& random) {
        asio::thread_pool threads(2);
        auto const store = std::make_shared<weir::memory_store>(threads);
        weir::shared_options const options{.rate = {1'000, 1s}, .burst = 50};
        auto limiter =
            std::make_unique<weir::shared_token_bucket>(threads, store, "calls", options);
        std::atomic<int> over = 0;
        for (int i = 0; i != 20; ++i)
            limiter->async_enter(1s, [&over](weir::error_code, weir::permit p) {
                p.refund();
                ++over;
            });
        for (auto spins = random.between(0, 20'000); spins != 0; --spins)
            std::atomic_signal_fence(std::memory_order_seq_cst);
        limiter.reset();
        threads.wait();
        BOOST_TEST(over == 20);
    });
}

BOOST_AUTO_TEST_SUITE_END()
