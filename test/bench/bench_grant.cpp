// Measures the cost of an immediate grant. Floors:
// - two lock/unlock pairs: the minimum for a grant and a release on any thread
// - an awaitable child that returns immediately: the minimum for any `co_await x.enter()`
// - one clock read: the minimum for any rate limit

#include <weir/weir.hpp>

#include "seats.hpp"
#include "support.hpp"

#include <mutex>

namespace {

namespace asio = boost::asio;
using bench::any;
using bench::seats_enter;
using bench::seats_try_enter;
using bench::typed;

void floor_two_locks(benchmark::State& state) {
    std::mutex mutex;
    int count = 1;
    for (auto _ : state) {
        {
            std::lock_guard const lock(mutex);
            benchmark::DoNotOptimize(--count);
        }
        std::lock_guard const lock(mutex);
        benchmark::DoNotOptimize(++count);
    }
}

void floor_clock(benchmark::State& state) {
    for (auto _ : state)
        benchmark::DoNotOptimize(std::chrono::steady_clock::now());
}

template <class Executor>
asio::awaitable<int, Executor> child() {
    co_return 1;
}

template <class Executor>
void floor_child(benchmark::State& state) {
    auto const body = [&](asio::io_context&) -> asio::awaitable<void, Executor> {
        for (auto _ : state)
            benchmark::DoNotOptimize(co_await child<Executor>());
    };
    bench::run_coroutine<Executor>(body);
}

template <class Executor>
void seats_async_enter(benchmark::State& state) {
    auto const body = [&](asio::io_context& context) -> asio::awaitable<void, Executor> {
        weir::basic_seats<Executor> seats(Executor(context.get_executor()), {.seats = 4});
        for (auto _ : state) {
            auto const seat = co_await seats.async_enter();
            benchmark::DoNotOptimize(seat.count());
        }
    };
    bench::run_coroutine<Executor>(body);
}

template <class Executor>
void seats_enter_with_patience(benchmark::State& state) {
    auto const body = [&](asio::io_context& context) -> asio::awaitable<void, Executor> {
        weir::basic_seats<Executor> seats(Executor(context.get_executor()), {.seats = 4});
        for (auto _ : state) {
            auto const seat = co_await seats.enter(std::chrono::seconds(1));
            benchmark::DoNotOptimize(seat.count());
        }
    };
    bench::run_coroutine<Executor>(body);
}

// A request that the count in the lock does not serve.
void seats_try_enter_3(benchmark::State& state) {
    bench::live_context context;
    weir::seats seats(context->get_executor(), {.seats = 4});
    for (auto _ : state)
        benchmark::DoNotOptimize(seats.try_enter(3));
}

void three_try_enter(benchmark::State& state) {
    bench::live_context context;
    weir::seats one(context->get_executor(), {.seats = 4});
    weir::seats two(context->get_executor(), {.seats = 4});
    weir::seats three(context->get_executor(), {.seats = 4});
    for (auto _ : state) {
        auto const a = one.try_enter();
        auto const b = two.try_enter();
        auto const c = three.try_enter();
        benchmark::DoNotOptimize(a.count() + b.count() + c.count());
    }
}

void chain_try_enter(benchmark::State& state) {
    bench::live_context context;
    weir::seats one(context->get_executor(), {.seats = 4});
    weir::seats two(context->get_executor(), {.seats = 4});
    weir::seats three(context->get_executor(), {.seats = 4});
    weir::chain all(one, two, three);
    for (auto _ : state)
        benchmark::DoNotOptimize(all.try_enter());
}

void token_bucket_try_enter(benchmark::State& state) {
    bench::live_context context;
    weir::token_bucket bucket(
        context->get_executor(), {.rate = {1, std::chrono::nanoseconds(1)}, .burst = 1'000});
    for (auto _ : state)
        benchmark::DoNotOptimize(bucket.try_enter());
}

// A limit that is never reached, with a log that always contains many entries.
template <class Executor>
void sliding_log_try_enter(benchmark::State& state) {
    bench::live_context context;
    weir::basic_sliding_log<Executor> log(
        Executor(context->get_executor()),
        {.limit = 1'000'000, .window = std::chrono::milliseconds(1)});
    for (auto _ : state)
        benchmark::DoNotOptimize(log.try_enter());
}

template <class Executor>
void sliding_log_enter(benchmark::State& state) {
    auto const body = [&](asio::io_context& context) -> asio::awaitable<void, Executor> {
        weir::basic_sliding_log<Executor> log(
            Executor(context.get_executor()),
            {.limit = 1'000'000, .window = std::chrono::milliseconds(1)});
        for (auto _ : state) {
            auto const call = co_await log.enter();
            benchmark::DoNotOptimize(call.count());
        }
    };
    bench::run_coroutine<Executor>(body);
}

void sliding_log_reject(benchmark::State& state) {
    bench::live_context context;
    weir::sliding_log log(context->get_executor(),
                          {.limit = 1000, .window = std::chrono::hours(1)});
    weir::permit const all = log.try_enter(1000);
    for (auto _ : state)
        benchmark::DoNotOptimize(log.try_enter());
}

BENCHMARK(floor_two_locks);
BENCHMARK(floor_clock);
BENCHMARK(floor_child<any>);
BENCHMARK(floor_child<typed>);
BENCHMARK(seats_try_enter<any>);
BENCHMARK(seats_try_enter<typed>);
BENCHMARK(seats_enter<any>);
BENCHMARK(seats_enter<typed>);
BENCHMARK(seats_async_enter<any>);
BENCHMARK(seats_async_enter<typed>);
BENCHMARK(seats_enter_with_patience<any>);
BENCHMARK(seats_enter_with_patience<typed>);
BENCHMARK(seats_try_enter_3);
BENCHMARK(three_try_enter);
BENCHMARK(chain_try_enter);
BENCHMARK(token_bucket_try_enter);
BENCHMARK(sliding_log_try_enter<any>);
BENCHMARK(sliding_log_enter<any>);
BENCHMARK(sliding_log_enter<typed>);
BENCHMARK(sliding_log_reject);

}  // namespace

int main(int argc, char** argv) {
    return bench::run_all(
        argc, argv,
        {
            {"seats: try_enter + leave, to two locks", "seats_try_enter<any>", "floor_two_locks"},
            {"seats: try_enter + leave, typed, to two locks", "seats_try_enter<typed>",
             "floor_two_locks"},
            {"seats: co_await enter() + leave, any executor, to a child", "seats_enter<any>",
             "floor_child<any>"},
            {"seats: co_await enter() + leave, typed, to a child", "seats_enter<typed>",
             "floor_child<typed>"},
            {"seats: co_await async_enter() + leave, any, to a child", "seats_async_enter<any>",
             "floor_child<any>"},
            {"seats: co_await async_enter() + leave, typed, to a child", "seats_async_enter<typed>",
             "floor_child<typed>"},
            {"seats: co_await enter(1s) + leave, any, to a child", "seats_enter_with_patience<any>",
             "floor_child<any>"},
            {"seats: try_enter(3) + leave, to two locks", "seats_try_enter_3", "floor_two_locks"},
            {"chain of three seats: try_enter + leave, to the three", "chain_try_enter",
             "three_try_enter"},
            {"token_bucket: try_enter + leave, to a clock read", "token_bucket_try_enter",
             "floor_clock"},
            {"sliding_log: try_enter, to a clock read", "sliding_log_try_enter<any>",
             "floor_clock"},
            {"sliding_log: co_await enter(), any, to a child", "sliding_log_enter<any>",
             "floor_child<any>"},
            {"sliding_log: a rejection, to a clock read", "sliding_log_reject", "floor_clock"},
        });
}
