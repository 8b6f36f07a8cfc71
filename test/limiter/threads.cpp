#include <weir/seats.hpp>
#include <weir/sliding_log.hpp>
#include <weir/token_bucket.hpp>

#include "support/printing.hpp"
#include "support/storm.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

// Random operations on real threads, in real time. The interleavings depend on the machine, the checks do not. The
// seeded schedules of the core's tests cover more, and can be repeated.

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::scale;
using weir::errc;
using weir::error_code;
using weir::permit;

namespace {

/// Counts the permits in use, and checks that they never exceed the capacity.
class meter {
public:
    explicit meter(weir::amount most) : most_(most) {}
    void enter(weir::amount n) {
        if (used_.fetch_add(n) + n > most_)
            exceeded_ = true;
    }
    void leave(weir::amount n) { used_ -= n; }
    [[nodiscard]] bool exceeded() const { return exceeded_; }
    [[nodiscard]] weir::amount used() const { return used_; }

private:
    weir::amount most_;
    std::atomic<weir::amount> used_ = 0;
    std::atomic<bool> exceeded_ = false;
};

/// A permit with a meter, which counts it until just before its release.
class metered {
public:
    metered(permit seat, meter& m) : seat_(std::move(seat)), meter_(&m) {
        meter_->enter(seat_.count());
    }
    metered(metered&&) = default;
    metered& operator=(metered&&) = delete;
    ~metered() {
        if (seat_)
            meter_->leave(seat_.count());
    }

private:
    permit seat_;
    meter* meter_;
};

/// The results of many requests.
struct tally {
    std::atomic<std::uint64_t> asked = 0;
    std::atomic<std::uint64_t> granted = 0;
    std::atomic<std::uint64_t> rejected = 0;

    void count(error_code ec) { ++(ec ? rejected : granted); }
    [[nodiscard]] bool complete() const { return asked == granted + rejected; }
};

auto const rethrow = [](std::exception_ptr failure) {
    if (failure)
        std::rethrow_exception(failure);
};

/// Runs `ctx` on `n` threads until it has no more work.
class crew {
public:
    crew(asio::io_context& ctx, int threads) : work_(ctx.get_executor()) {
        for (int i = 0; i != threads; ++i)
            threads_.emplace_back([&ctx] { ctx.run(); });
    }
    crew(crew const&) = delete;
    crew& operator=(crew const&) = delete;
    ~crew() { join(); }
    void join() {
        work_.reset();
        for (auto& thread : threads_)
            thread.join();
        threads_.clear();
    }

private:
    asio::executor_work_guard<asio::io_context::executor_type> work_;
    std::vector<std::thread> threads_;
};

/// An executor that pauses before it posts to a context.
class slow_executor {
public:
    explicit slow_executor(asio::io_context& ctx) noexcept : inner_(ctx.get_executor()) {}
    [[nodiscard]] asio::execution_context& query(asio::execution::context_t) const noexcept {
        return inner_.context();
    }
    [[nodiscard]] static constexpr asio::execution::blocking_t query(
        asio::execution::blocking_t) noexcept {
        return asio::execution::blocking.never;
    }
    [[nodiscard]] slow_executor require(asio::execution::blocking_t::never_t) const noexcept {
        return *this;
    }
    template <class F>
    void execute(F&& f) const {
        // Not by yielding: on a busy machine that takes a turn of all other processes each time.
        auto const end = std::chrono::steady_clock::now() + 20us;
        while (std::chrono::steady_clock::now() < end) {}
        asio::post(inner_, std::forward<F>(f));
    }
    [[nodiscard]] bool operator==(slow_executor const&) const noexcept = default;

private:
    asio::io_context::executor_type inner_;
};

/// Makes requests in all ways, and holds the permits in all ways.
template <class Limiter>
asio::awaitable<void> guest(Limiter& limiter, meter& in_use, tally& results, int times,
                            asio::any_io_executor elsewhere, unsigned seed) {
    using namespace asio::experimental::awaitable_operators;
    std::minstd_rand random(seed);
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (int i = 0; i != times; ++i) {
        auto const n = static_cast<weir::amount>(1 + random() % 3);
        permit seat;
        error_code ec;
        ++results.asked;
        switch (random() % 6) {
            case 0:
                seat = limiter.try_enter(n, ec);
                break;
            case 1: {
                auto patience = std::chrono::microseconds(random() % 300);
                std::tie(ec, seat) =
                    co_await limiter.async_enter(n, patience, asio::as_tuple(asio::deferred));
                break;
            }
            case 2: {
                timer.expires_after(std::chrono::microseconds(random() % 300));
                auto result =
                    co_await (limiter.async_enter(n, asio::as_tuple(asio::use_awaitable)) ||
                              timer.async_wait(asio::as_tuple(asio::use_awaitable)));
                if (result.index() == 0)
                    std::tie(ec, seat) = std::move(std::get<0>(result));
                else
                    ec = asio::error::operation_aborted;
                break;
            }
            default:
                try {
                    seat = co_await limiter.enter(n);
                } catch (weir::rejection const& why) {
                    ec = why.code();
                }
        }
        results.count(ec);
        if (ec)
            continue;
        auto held = std::make_shared<metered>(std::move(seat), in_use);
        switch (random() % 3) {
            case 0:
                break;
            case 1:
                co_await asio::post(asio::deferred);
                break;
            default:
                asio::post(elsewhere, [held = std::move(held)] {});
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(limiter_threads)

BOOST_AUTO_TEST_CASE(requests_on_strands_of_a_pool) {
    asio::thread_pool pool(4);
    weir::seats kitchen{pool, {.seats = 4}, {.max_waiting = 1000}};
    meter in_use(4);
    tally results;
    for (unsigned i = 0; i != 16; ++i) {
        co_spawn(asio::make_strand(pool),
                 guest(kitchen, in_use, results, 300 * scale, pool.get_executor(), i + 1), rethrow);
    }
    pool.join();
    BOOST_TEST(!in_use.exceeded());
    BOOST_TEST(results.complete());
    BOOST_TEST(results.asked == static_cast<unsigned>(16 * 300 * scale));
    auto const now = kitchen.stats();
    BOOST_TEST(now.live == 0U);
    BOOST_TEST(now.waiting == 0U);
    BOOST_TEST(now.waiting_for == 0);
    BOOST_TEST(now.remaining == 4);
    BOOST_TEST(now.granted >= results.granted);  // `||` may have dropped some
}

BOOST_AUTO_TEST_CASE(two_contexts_share_a_limiter) {
    asio::io_context other;
    asio::io_context ctx;
    weir::seats kitchen{ctx, {.seats = 4}, {.max_waiting = 1000}};
    meter in_use(4);
    tally results;
    for (unsigned i = 0; i != 12; ++i) {
        auto& home = i % 2 == 0 ? ctx : other;
        auto& elsewhere = i % 4 < 2 ? ctx : other;
        co_spawn(asio::make_strand(home),
                 guest(kitchen, in_use, results, 300 * scale, elsewhere.get_executor(), i + 1),
                 rethrow);
    }
    {
        crew const one(ctx, 2);
        crew const two(other, 2);
        while (!results.complete() || results.asked != static_cast<unsigned>(12 * 300 * scale))
            std::this_thread::yield();
    }
    BOOST_TEST(!in_use.exceeded());
    BOOST_TEST(results.complete());
    BOOST_TEST(kitchen.stats().live == 0U);
    BOOST_TEST(kitchen.stats().waiting == 0U);
    BOOST_TEST(kitchen.stats().remaining == 4);
}

BOOST_AUTO_TEST_CASE(each_context_is_kept_running_independently_while_it_is_needed) {
    for (int round = 0; round != 40 * scale; ++round) {
        asio::io_context other;
        asio::io_context ctx;
        weir::seats kitchen{ctx, {.seats = 1}};
        auto seat = kitchen.try_enter();
        int calls = 0;  // only the thread of `other` uses it
        auto callback = [&](error_code ec, permit) { calls += ec ? 100 : 1; };
        using erased = asio::any_completion_handler<void(error_code, permit)>;
        for (int i = 0; i != 4; ++i) {
            kitchen.async_enter(asio::bind_executor(other, callback));
            kitchen.async_enter(erased(asio::bind_executor(other, callback)));
        }
        std::thread one([&] { ctx.run(); });
        std::thread two([&] { other.run(); });
        std::thread third([held = std::move(seat)]() mutable { held.leave(); });
        one.join();
        two.join();
        third.join();
        BOOST_TEST(calls == 8);
        BOOST_TEST(kitchen.stats().remaining == 1);
    }
}

BOOST_AUTO_TEST_CASE(threads_without_a_context_call_try_enter) {
    asio::io_context ctx;  // no thread runs it
    weir::seats kitchen{ctx, {.seats = 5}};
    meter in_use(5);
    tally results;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t != 8; ++t) {
        threads.emplace_back([&, t] {
            std::minstd_rand random(t + 1);
            for (int i = 0; i != 4000 * scale; ++i) {
                auto const n = static_cast<weir::amount>(1 + random() % 3);
                ++results.asked;
                error_code ec;
                auto seat = kitchen.try_enter(n, ec);
                results.count(ec);
                if (ec)
                    continue;
                in_use.enter(n);
                if (random() % 4 == 0) {
                    auto part = seat.split(1);
                    in_use.leave(1);
                    part.leave();
                }
                in_use.leave(seat.count());
            }
        });
    }
    for (auto& thread : threads)
        thread.join();
    BOOST_TEST(!in_use.exceeded());
    BOOST_TEST(results.complete());
    BOOST_TEST(kitchen.stats().granted == results.granted);
    BOOST_TEST(kitchen.stats().no_permit == results.rejected);
    BOOST_TEST(kitchen.stats().live == 0U);
    BOOST_TEST(kitchen.stats().remaining == 5);
}

BOOST_AUTO_TEST_CASE(cancellations_on_the_strand_during_releases) {
    asio::thread_pool pool(4);
    weir::seats kitchen{pool, {.seats = 1}, {.max_waiting = 100'000}};
    tally results;
    meter in_use(1);
    auto seat = std::make_shared<permit>(kitchen.try_enter());

    struct caller {
        explicit caller(asio::thread_pool& p) : line(asio::make_strand(p)) {}
        asio::strand<asio::thread_pool::executor_type> line;
        asio::cancellation_signal signal;
    };
    std::vector<std::unique_ptr<caller>> callers;
    for (int i = 0; i != 800 * scale; ++i) {
        auto& c = *callers.emplace_back(std::make_unique<caller>(pool));
        ++results.asked;
        asio::post(c.line, [&] {
            auto callback = [&](error_code ec, permit granted) {
                if (granted) {
                    in_use.enter(1);
                    in_use.leave(1);
                }
                results.count(ec);
            };
            kitchen.async_enter(asio::bind_cancellation_slot(
                c.signal.slot(), asio::bind_executor(c.line, callback)));
            asio::post(c.line, [&c] { c.signal.emit(asio::cancellation_type::total); });
        });
        if (i == 400 * scale)
            asio::post(pool, [seat] { seat->leave(); });
    }
    pool.join();
    BOOST_TEST(!in_use.exceeded());
    BOOST_TEST(results.complete());
    BOOST_TEST(kitchen.stats().granted == results.granted + 1);
    BOOST_TEST(kitchen.stats().cancelled == results.rejected);
    BOOST_TEST(kitchen.stats().remaining == 1);
}

BOOST_AUTO_TEST_CASE(configure_cancel_and_drain_during_requests) {
    asio::thread_pool pool(3);
    weir::seats kitchen{pool, {.seats = 3}, {.max_waiting = 1000, .tolerance = 100us}};
    meter in_use(5);
    tally results;
    std::atomic<int> guests = 12;
    for (unsigned i = 0; i != 12; ++i) {
        co_spawn(asio::make_strand(pool),
                 guest(kitchen, in_use, results, 200 * scale, pool.get_executor(), i + 1),
                 [&](std::exception_ptr failure) {
                     --guests;
                     rethrow(failure);
                 });
    }
    std::atomic<int> drains = 0;
    int drains_asked = 0;
    std::minstd_rand random(7);
    while (guests != 0) {
        auto const seats = static_cast<weir::amount>(1 + random() % 5);
        kitchen.configure([&](weir::seats_options& o) { o.seats = seats; });
        if (random() % 8 == 0)
            kitchen.cancel();
        if (random() % 4 == 0) {
            ++drains_asked;
            kitchen.async_drain([&](error_code) { ++drains; });
        }
        auto const now = kitchen.stats();
        BOOST_TEST_REQUIRE(now.remaining >= 0);
        std::this_thread::yield();
    }
    kitchen.configure({.seats = 5});
    pool.join();
    BOOST_TEST(!in_use.exceeded());
    BOOST_TEST(results.complete());
    BOOST_TEST(drains == drains_asked);
    BOOST_TEST(kitchen.stats().live == 0U);
    BOOST_TEST(kitchen.stats().waiting == 0U);
    BOOST_TEST(kitchen.stats().remaining == 5);
}

BOOST_AUTO_TEST_CASE(close_during_requests) {
    for (int round = 0; round != 10 * scale; ++round) {
        asio::thread_pool pool(3);
        weir::seats kitchen{pool, {.seats = 2}};
        meter in_use(2);
        tally results;
        for (unsigned i = 0; i != 8; ++i)
            co_spawn(asio::make_strand(pool),
                     guest(kitchen, in_use, results, 50, pool.get_executor(), i + 1), rethrow);
        std::this_thread::yield();
        kitchen.close();
        auto drained = kitchen.async_drain(asio::use_future);
        drained.get();
        pool.join();
        BOOST_TEST(!in_use.exceeded());
        BOOST_TEST(results.complete());
        BOOST_TEST(kitchen.stats().live == 0U);
    }
}

BOOST_AUTO_TEST_CASE(the_limiter_is_destroyed_during_releases) {
    for (int round = 0; round != 40 * scale; ++round) {
        asio::thread_pool pool(2);
        std::optional<weir::seats> kitchen(std::in_place, pool, weir::seats_options{.seats = 4});
        std::atomic<int> over = 0;
        std::atomic<int> wrong = 0;
        std::vector<permit> seats;
        for (int i = 0; i != 4; ++i)
            seats.push_back(kitchen->try_enter());
        for (int i = 0; i != 20; ++i) {
            kitchen->async_enter([&](error_code ec, permit granted) {
                wrong += (ec ? ec == errc::closed : bool(granted)) ? 0 : 1;
                ++over;
            });
            kitchen->async_enter(
                asio::bind_executor(asio::make_strand(pool), [&](error_code, permit) { ++over; }));
        }
        std::latch start(5);
        std::vector<std::thread> threads;
        for (auto& seat : seats) {
            threads.emplace_back([&start, mine = std::move(seat)]() mutable {
                start.arrive_and_wait();
                mine.leave();
            });
        }
        start.arrive_and_wait();
        kitchen.reset();
        for (auto& thread : threads)
            thread.join();
        pool.join();
        BOOST_TEST(over == 40);
        BOOST_TEST(wrong == 0);
    }
}

// Without handlers on strands: Asio forbids a post to a strand while its context is destroyed.
BOOST_AUTO_TEST_CASE(the_context_is_destroyed_during_releases_on_other_threads) {
    using erased = asio::any_completion_handler<void(error_code, permit)>;
    for (int round = 0; round != 200 * scale; ++round) {
        // Setup: handlers on the limiter's context, on an executor of another type, and erased.
        auto ctx = std::make_unique<asio::io_context>();
        auto kitchen = std::make_unique<weir::seats>(*ctx, weir::seats_options{.seats = 4});
        auto const alive = std::make_shared<int>();
        std::vector<permit> seats;
        for (int i = 0; i != 4; ++i)
            seats.push_back(kitchen->try_enter());
        std::atomic<int> calls = 0;
        auto const never = [alive, &calls](error_code, permit) { ++calls; };
        for (int i = 0; i != 4; ++i) {
            kitchen->async_enter(1h, asio::bind_executor(ctx->get_executor(), never));
            kitchen->async_enter(erased(asio::bind_executor(ctx->get_executor(), never)));
            kitchen->async_enter(never);
        }
        if (round % 2 == 0)
            ctx->poll();

        // Act
        std::latch start(5);
        std::vector<std::thread> threads;
        for (auto& seat : seats) {
            threads.emplace_back([&start, mine = std::move(seat)]() mutable {
                start.arrive_and_wait();
                mine.leave();
            });
        }
        start.arrive_and_wait();
        if (round % 3 == 0)
            kitchen.reset();
        ctx.reset();
        for (auto& thread : threads)
            thread.join();

        // Check
        BOOST_TEST(calls == 0);
        if (kitchen) {
            BOOST_TEST(kitchen->stats().live == 0U);
            BOOST_TEST(kitchen->stats().remaining == 4);
        }
        kitchen.reset();
        BOOST_TEST(alive.use_count() == 2);  // this one, and the one in `never`
    }
}

BOOST_AUTO_TEST_CASE(requests_on_many_threads_during_releases) {
    asio::io_context ctx;
    weir::seats kitchen{ctx, {.seats = 2}, {.max_waiting = 1'000'000}};
    tally results;
    meter in_use(2);
    {
        crew const cooks(ctx, 2);
        std::vector<std::thread> threads;
        for (int t = 0; t != 4; ++t) {
            threads.emplace_back([&] {
                for (int i = 0; i != 1500 * scale; ++i) {
                    ++results.asked;
                    kitchen.async_enter([&](error_code ec, permit granted) {
                        if (granted) {
                            in_use.enter(1);
                            in_use.leave(1);
                        }
                        granted.leave();
                        results.count(ec);
                    });
                }
            });
        }
        for (auto& thread : threads)
            thread.join();
    }
    BOOST_TEST(!in_use.exceeded());
    BOOST_TEST(results.complete());
    BOOST_TEST(results.rejected == 0U);
    BOOST_TEST(kitchen.stats().granted == results.granted);
    BOOST_TEST(kitchen.stats().remaining == 2);
}

BOOST_AUTO_TEST_CASE(a_rate_under_many_threads) {
    asio::thread_pool pool(4);
    weir::sliding_log printer{pool, {.limit = 100, .window = 5ms}, {.max_waiting = 10'000}};
    tally results;
    meter ignored(weir::max_amount);
    auto const start = std::chrono::steady_clock::now();
    for (unsigned i = 0; i != 8; ++i)
        co_spawn(asio::make_strand(pool),
                 guest(printer, ignored, results, 200 * scale, pool.get_executor(), i + 1),
                 rethrow);
    pool.join();
    auto const windows = (std::chrono::steady_clock::now() - start) / 5ms + 1;
    BOOST_TEST(results.complete());
    BOOST_TEST(printer.stats().granted <= static_cast<std::uint64_t>(100 * windows));
    BOOST_TEST(printer.stats().live == 0U);
    BOOST_TEST(printer.stats().waiting == 0U);
}

// A posting thread needs the context until its post ends; the other waiting requests are destroyed with the context.
BOOST_AUTO_TEST_CASE(permits_are_released_while_the_context_and_the_limiter_are_destroyed) {
    auto const mark = std::make_shared<int>();
    for (int i = 0; i != 100 * scale; ++i) {
        std::atomic<int> called = 0;
        asio::io_context other;
        auto ctx = std::make_unique<asio::io_context>();
        std::optional<weir::seats> kitchen(
            std::in_place, *ctx, weir::seats_options{.seats = 6, .max_hold = 1h});
        std::vector<permit> held;
        for (int n = 0; n != 6; ++n)
            held.push_back(kitchen->try_enter());
        auto const note = [&, mark](error_code, auto const&...) { ++called; };
        for (int n = 0; n != 4; ++n) {
            kitchen->async_enter(asio::bind_executor(other, note));
            kitchen->async_enter(1, 1h, asio::bind_executor(slow_executor(*ctx), note));
        }
        kitchen->async_drain(asio::bind_executor(other, note));
        kitchen->async_wait_overdue(asio::bind_executor(other, note));
        ctx->poll();

        std::latch begin(4);
        std::vector<std::thread> threads;
        threads.emplace_back([&] {
            begin.arrive_and_wait();
            for (int n = 0; n != 3; ++n)
                held[static_cast<std::size_t>(n)].leave();
        });
        threads.emplace_back([&] {
            begin.arrive_and_wait();
            for (int n = 3; n != 6; ++n)
                held[static_cast<std::size_t>(n)].refund();
        });
        threads.emplace_back([&] {
            begin.arrive_and_wait();
            if (i % 3 == 0)
                kitchen.reset();
            else if (i % 3 == 1)
                kitchen->cancel();
        });
        begin.arrive_and_wait();
        ctx.reset();
        for (auto& thread : threads)
            thread.join();
        other.poll();
        BOOST_TEST(called <= 6);  // at most the handlers on the other context
        if (kitchen)
            BOOST_TEST(kitchen->stats().remaining == 6);
    }
    BOOST_TEST(mark.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(each_wait_for_an_overdue_permit_ends_once_despite_concurrent_events) {
    asio::thread_pool pool(3);
    std::uint64_t told = 0;
    for (int i = 0; i != 100 * scale; ++i) {
        std::atomic<int> ended = 0;
        std::atomic<int> reports = 0;
        std::optional<weir::seats> kitchen(
            std::in_place, pool, weir::seats_options{.seats = 4, .max_hold = 1us});
        std::vector<permit> held;
        for (int n = 0; n != 2; ++n)
            held.push_back(kitchen->try_enter());
        std::latch begin(3);
        std::thread waits([&] {
            begin.arrive_and_wait();
            for (int n = 0; n != 4; ++n) {
                kitchen->async_wait_overdue([&](error_code ec, weir::overdue const&) {
                    reports += ec ? 0 : 1;
                    ++ended;
                });
            }
        });
        std::thread leaves([&] {
            begin.arrive_and_wait();
            held[0].leave();
            held.push_back(kitchen->try_enter());
        });
        begin.arrive_and_wait();
        kitchen->cancel();
        waits.join();
        leaves.join();
        BOOST_TEST(kitchen->stats().overdue <= 3U);
        told += kitchen->stats().overdue;
        kitchen->cancel();
        kitchen.reset();
        while (ended != 4)
            std::this_thread::yield();
        BOOST_TEST(reports <= 3);
    }
    BOOST_TEST_MESSAGE(told << " permits were reported");
    pool.join();
}

BOOST_AUTO_TEST_CASE(overdue_permits_are_reported_once_each) {
    asio::thread_pool pool(4);
    weir::seats kitchen{pool, {.seats = 8, .max_hold = 1ms}};
    std::atomic<std::uint64_t> reports = 0;
    std::atomic<int> dining = 8;
    std::atomic<int> watching = 3;
    auto watches = [&]() -> asio::awaitable<void> {
        while (dining != 0) {
            auto const [ec, found] =
                co_await kitchen.async_wait_overdue(asio::as_tuple(asio::deferred));
            reports += ec ? 0 : 1;
        }
        --watching;
    };
    auto dismisses = [&]() -> asio::awaitable<void> {
        while (watching != 0) {
            kitchen.cancel();
            co_await asio::post(asio::deferred);
        }
    };
    auto leaves = [&](std::exception_ptr failure) {
        rethrow(failure);
        if (--dining == 0)
            co_spawn(asio::make_strand(pool), dismisses(), rethrow);
    };
    for (unsigned i = 0; i != 3; ++i)
        co_spawn(asio::make_strand(pool), watches(), rethrow);
    tally results;
    meter in_use(8);
    auto late = [&]() -> asio::awaitable<void> {
        asio::steady_timer timer(co_await asio::this_coro::executor);
        for (int i = 0; i != 5 * scale; ++i) {
            permit const seat = co_await kitchen.enter();
            timer.expires_after(2ms);
            co_await timer.async_wait(asio::deferred);
        }
    };
    for (unsigned i = 0; i != 4; ++i) {
        co_spawn(asio::make_strand(pool), late(), leaves);
        co_spawn(asio::make_strand(pool),
                 guest(kitchen, in_use, results, 100 * scale, pool.get_executor(), i + 1), leaves);
    }
    pool.join();
    BOOST_TEST(results.complete());
    BOOST_TEST(reports == kitchen.stats().overdue);
    BOOST_TEST(reports <= kitchen.stats().granted);
    BOOST_TEST(kitchen.stats().remaining == 8);
}

BOOST_AUTO_TEST_CASE(reservations_are_made_awaited_and_released) {
    asio::io_context ctx;
    weir::token_bucket calls(ctx, {.rate = {1'000'000, 1s}, .burst = 3}, {.max_waiting = 64});
    tally all;
    crew workers(ctx, 2);
    std::vector<std::thread> callers;
    for (unsigned seed = 0; seed != 3; ++seed) {
        callers.emplace_back([&, seed] {
            std::mt19937 random(seed);
            for (int i = 0; i != 1000 * scale; ++i) {
                error_code ec;
                auto place = calls.reserve(1 + random() % 2, 1s, ec);
                if (!place || random() % 3 == 0)
                    continue;  // releases it
                ++all.asked;
                if (random() % 2 == 0) {
                    place.async_enter([&](error_code end, permit const&) { all.count(end); });
                } else {
                    permit granted;
                    do
                        granted = place.try_enter(ec);
                    while (ec == errc::no_permit);
                    all.count(ec);
                }
            }
        });
    }
    for (auto& one : callers)
        one.join();
    workers.join();
    BOOST_TEST(all.complete());
    BOOST_TEST(all.granted > 100U);
    auto const s = calls.stats();
    BOOST_TEST((s.waiting == 0U && s.in_use == 0 && s.live == 0U));
}

BOOST_AUTO_TEST_SUITE_END()
