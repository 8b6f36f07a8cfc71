#include <weir/pool.hpp>

#include "support/storm.hpp"
#include "support/workshop.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

// Random operations on real threads, in real time. The interleavings depend on the machine, the checks do not.

using namespace support;

namespace {

using real_pool = weir::pool<thing>;

// Fails or pauses at random.
struct chance {
    std::shared_ptr<census> all = std::make_shared<census>();
    std::atomic<unsigned> draws = 0;

    [[nodiscard]] bool one_in(unsigned n) { return (draws += 7919) % 1009 % n == 0; }

    auto maker() {
        return [this]() -> asio::awaitable<thing> { return make(); };
    }
    auto checker() {
        return [this](thing& one) -> asio::awaitable<bool> { return check(one); };
    }

private:
    asio::awaitable<void> hesitate() {
        if (one_in(2))
            co_return;
        asio::steady_timer timer(co_await asio::this_coro::executor, 100us);
        co_await timer.async_wait(asio::deferred);
    }
    asio::awaitable<thing> make() {
        thing one(all);
        co_await hesitate();
        if (one_in(5))
            throw std::runtime_error("the factory fails");
        co_return one;
    }
    asio::awaitable<bool> check(thing& one) {
        one.begin_use();
        co_await hesitate();
        one.end_use();
        if (one_in(7))
            throw std::runtime_error("the check fails");
        co_return !one_in(7);
    }
};

asio::awaitable<void> visits(real_pool& pool, chance& luck, int times, std::atomic<int>& served) {
    for (int i = 0; i != times; ++i) {
        try {
            weir::patience const patience = luck.one_in(3) ? 1ms : weir::forever;
            auto lease = co_await pool.checkout(patience);
            lease->begin_use();
            if (luck.one_in(3))
                co_await asio::post(asio::deferred);
            lease->end_use();
            ++served;
            if (luck.one_in(10))
                lease.discard();
        } catch (weir::checkout_rejection const& rejected) {
            if (rejected.code() == weir::errc::closed)
                co_return;
        }
        if (luck.one_in(50))
            pool.trim();
    }
}

weir::pool_options busy_options(weir::amount maximum) {
    return {.min = 1,
            .max = maximum,
            .max_age = 3ms,
            .max_idle = 1ms,
            .check_after = 500us,
            .retry = {.initial = 100us, .max = 1ms}};
}

// Checks the counts of a pool whose callers have all finished.
void all_are_accounted_for(weir::pool_stats const& s, chance const& luck) {
    BOOST_TEST(s.in_use == 0);
    BOOST_TEST(s.being_created == 0);
    BOOST_TEST(s.being_checked == 0);
    BOOST_TEST(s.idle == luck.all->alive);
    BOOST_TEST(s.created ==
               static_cast<std::uint64_t>(s.idle) + s.discarded + s.unhealthy + s.retired);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pool_threads)

BOOST_AUTO_TEST_CASE(many_coroutines_on_many_threads) {
    chance luck;
    std::atomic<int> served = 0;
    {
        asio::thread_pool threads(4);
        real_pool pool(threads, luck.maker(), luck.checker(), busy_options(3));
        for (int i = 0; i != 16; ++i)
            co_spawn(asio::make_strand(threads), visits(pool, luck, 40 * scale, served),
                     asio::detached);
        threads.join();
        all_are_accounted_for(pool.stats(), luck);
    }
    BOOST_TEST(luck.all->max <= 3);
    BOOST_TEST(luck.all->alive == 0);
    BOOST_TEST(served > 0);
}

BOOST_AUTO_TEST_CASE(with_a_check_before_each_use) {
    chance luck;
    std::atomic<int> served = 0;
    {
        asio::thread_pool threads(3);
        auto options = busy_options(2);
        options.check_after = 0s;
        real_pool pool(threads, luck.maker(), luck.checker(), options);
        for (int i = 0; i != 6; ++i)
            co_spawn(asio::make_strand(threads), visits(pool, luck, 40 * scale, served),
                     asio::detached);
        threads.join();
        BOOST_TEST(pool.stats().in_use == 0);
    }
    BOOST_TEST(luck.all->max <= 2);
    BOOST_TEST(luck.all->alive == 0);
}

BOOST_AUTO_TEST_CASE(resized_on_other_threads) {
    chance luck;
    std::atomic<int> served = 0;
    {
        asio::thread_pool threads(3);
        real_pool pool(threads, luck.maker(), luck.checker(), {.max = 1});
        for (int i = 0; i != 8; ++i)
            co_spawn(asio::make_strand(threads), visits(pool, luck, 40 * scale, served),
                     asio::detached);
        {
            std::vector<std::jthread> managers;
            for (int i = 0; i != 2; ++i)
                managers.emplace_back([&] {
                    for (int n = 0; n != 100 * scale; ++n) {
                        if (luck.one_in(3)) {
                            pool.configure(busy_options(1 + n % 4));
                        } else {
                            pool.configure([n](weir::pool_options& o) { o.max = 1 + n % 5; });
                        }
                        std::this_thread::yield();
                    }
                    // No object above the last maximum stays.
                    pool.configure({.max = 2, .retry = {.initial = 100us, .max = 1ms}});
                });
        }
        threads.join();
        all_are_accounted_for(pool.stats(), luck);
        BOOST_TEST(pool.stats().idle <= 2);
    }
    BOOST_TEST(luck.all->max <= 5);
    BOOST_TEST(luck.all->alive == 0);
    BOOST_TEST(served > 0);
}

BOOST_AUTO_TEST_CASE(leases_are_returned_on_threads_without_a_context) {
    chance luck;
    {
        asio::thread_pool threads(2);
        real_pool pool(threads, luck.maker(), {.max = 4, .retry = {.initial = 100us}});
        std::vector<std::jthread> users;
        for (int i = 0; i != 3; ++i)
            users.emplace_back([&] {
                for (int n = 0; n != 200 * scale; ++n) {
                    auto lease = pool.async_checkout(asio::use_future).get();
                    lease->begin_use();
                    lease->end_use();
                    if (n % 10 == 0)
                        lease.discard();
                    if (auto other = pool.try_checkout()) {
                        other->begin_use();
                        other->end_use();
                    }
                }
            });
        users.clear();
        BOOST_TEST(pool.stats().in_use == 0);
    }
    BOOST_TEST(luck.all->max <= 4);
    BOOST_TEST(luck.all->alive == 0);
}

BOOST_AUTO_TEST_CASE(closed_and_destroyed_during_requests) {
    for (int round = 0; round != 20 * scale; ++round) {
        chance luck;
        std::atomic<int> served = 0;
        {
            asio::thread_pool threads(3);
            auto pool =
                std::make_shared<real_pool>(threads, luck.maker(), luck.checker(), busy_options(3));
            std::vector<weir::lease<thing>> kept;
            std::mutex mutex;
            for (int i = 0; i != 20; ++i)
                pool->async_checkout(5ms, [&, i](weir::error_code ec, weir::lease<thing> lease) {
                    std::lock_guard lock(mutex);
                    if (!ec && i == 0)
                        kept.push_back(std::move(lease));
                });
            for (int i = 0; i != 4; ++i)
                co_spawn(
                    asio::make_strand(threads),
                    [](std::shared_ptr<real_pool> p, chance& l,
                       std::atomic<int>& s) -> asio::awaitable<void> {
                        co_await visits(*p, l, 1000, s);
                    }(pool, luck, served),
                    asio::detached);
            while (served < round % 5 * 20)
                std::this_thread::yield();
            switch (round % 3) {
                case 0:
                    pool->close();
                    break;
                case 1:
                    pool->shutdown();
                    pool->cancel();
                    pool->close();
                    break;
                default:
                    threads.stop();
            }
            pool.reset();
            {
                std::lock_guard lock(mutex);
                kept.clear();
            }
            threads.join();
            kept.clear();
        }
        BOOST_TEST_REQUIRE(luck.all->max <= 3);
        BOOST_TEST_REQUIRE(luck.all->alive == 0);
    }
}

BOOST_AUTO_TEST_CASE(cancelled_by_operators) {
    using namespace asio::experimental::awaitable_operators;
    chance luck;
    {
        asio::thread_pool threads(3);
        real_pool pool(threads, luck.maker(), {.max = 1, .retry = {.initial = 100us}});
        auto const tries = [](real_pool& p, int times) -> asio::awaitable<void> {
            for (int i = 0; i != times; ++i) {
                asio::steady_timer timer(co_await asio::this_coro::executor, 20us * (i % 10));
                auto won = co_await (p.async_checkout(asio::as_tuple(asio::use_awaitable)) ||
                                     timer.async_wait(asio::use_awaitable));
                if (won.index() == 0) {
                    auto& lease = std::get<1>(std::get<0>(won));
                    if (lease) {
                        lease->begin_use();
                        lease->end_use();
                    }
                }
            }
        };
        for (int i = 0; i != 4; ++i)
            co_spawn(asio::make_strand(threads), tries(pool, 60 * scale), asio::detached);
        threads.join();
        BOOST_TEST(pool.stats().in_use == 0);
    }
    BOOST_TEST(luck.all->max <= 1);
    BOOST_TEST(luck.all->alive == 0);
}

BOOST_AUTO_TEST_SUITE_END()
