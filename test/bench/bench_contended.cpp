// Measures the cost of entering and leaving a limiter while another thread does the same: two threads, each with its
// own io_context, on one limiter that always has free permits. The time is for one `try_enter()` or `co_await enter()`,
// with its leave. Floor: two threads on one std::mutex, with two lock/unlock pairs per operation. Also measures
// `concurrent_channel` as a semaphore.

#include <weir/weir.hpp>

#include "support.hpp"

#include <boost/asio/experimental/concurrent_channel.hpp>

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

namespace {

namespace asio = boost::asio;
using bench::any;
using bench::typed;
template <class Executor>
using channel = asio::experimental::concurrent_channel<Executor, void(boost::system::error_code)>;

constexpr std::size_t plenty = 1'000;

void floor_two_locks(benchmark::State& state) {
    static std::mutex mutex;
    static int count = 1;
    for (auto _ : state) {
        {
            std::lock_guard const lock(mutex);
            benchmark::DoNotOptimize(--count);
        }
        std::lock_guard const lock(mutex);
        benchmark::DoNotOptimize(++count);
    }
}

// Each thread runs `work(limiter, executor, operations)` on its own context. The limiter uses the first context.
template <class Executor, class Make, class Work>
void two_threads(benchmark::State& state, long operations, Make make, Work work) {
    for (auto _ : state) {
        std::optional<bench::live_context> contexts[2];
        contexts[0].emplace();
        contexts[1].emplace();
        auto limiter = make(Executor((**contexts[0]).get_executor()));
        std::atomic<int> running = 2;
        auto const whole = [&](Executor ex) -> asio::awaitable<void, Executor> {
            co_await work(limiter, ex, operations);
            if (--running != 0)
                co_return;
            for (auto& context : contexts)
                asio::post(**context, [&context] { context->finish(); });
        };
        for (auto& context : contexts) {
            Executor const ex((**context).get_executor());
            asio::co_spawn(ex, whole(ex), asio::detached);
        }

        auto const start = std::chrono::steady_clock::now();
        std::thread other([&] { (**contexts[1]).run(); });
        (**contexts[0]).run();
        other.join();
        std::chrono::duration<double> const took = std::chrono::steady_clock::now() - start;
        state.SetIterationTime(took.count() / static_cast<double>(2 * operations));
    }
}

template <class Executor>
void seats_try_enter(benchmark::State& state) {
    auto const make = [](Executor const& ex) {
        return weir::basic_seats<Executor>(ex, {.seats = plenty});
    };
    auto const work = [](weir::basic_seats<Executor>& seats, Executor,
                         long operations) -> asio::awaitable<void, Executor> {
        for (; operations > 0; --operations)
            benchmark::DoNotOptimize(seats.try_enter());
        co_return;
    };
    two_threads<Executor>(state, 50'000, make, work);
}

template <class Executor>
void seats_enter(benchmark::State& state) {
    auto const make = [](Executor const& ex) {
        return weir::basic_seats<Executor>(ex, {.seats = plenty});
    };
    auto const work = [](weir::basic_seats<Executor>& seats, Executor,
                         long operations) -> asio::awaitable<void, Executor> {
        for (; operations > 0; --operations) {
            auto const seat = co_await seats.enter();
            benchmark::DoNotOptimize(seat.count());
        }
    };
    two_threads<Executor>(state, 50'000, make, work);
}

template <class Executor>
void channel_send(benchmark::State& state) {
    auto const make = [](Executor const& ex) { return channel<Executor>(ex, plenty); };
    auto const work =
        [](channel<Executor>& seats, Executor, long operations) -> asio::awaitable<void, Executor> {
        for (; operations > 0; --operations) {
            co_await seats.async_send(boost::system::error_code(), asio::deferred);
            seats.try_receive([](auto) {});
        }
    };
    two_threads<Executor>(state, 5'000, make, work);
}

BENCHMARK(floor_two_locks)->Threads(2)->UseRealTime();
BENCHMARK(seats_try_enter<any>)->UseManualTime()->Iterations(1);
BENCHMARK(seats_try_enter<typed>)->UseManualTime()->Iterations(1);
BENCHMARK(seats_enter<any>)->UseManualTime()->Iterations(1);
BENCHMARK(seats_enter<typed>)->UseManualTime()->Iterations(1);
BENCHMARK(channel_send<any>)->UseManualTime()->Iterations(1);
BENCHMARK(channel_send<typed>)->UseManualTime()->Iterations(1);

}  // namespace

int main(int argc, char** argv) {
    return bench::run_all(
        argc, argv,
        {
            {"try_enter + leave, any, to two locks", "seats_try_enter<any>", "floor_two_locks"},
            {"try_enter + leave, typed, to two locks", "seats_try_enter<typed>", "floor_two_locks"},
            {"co_await enter() + leave, any, to two locks", "seats_enter<any>", "floor_two_locks"},
            {"co_await enter() + leave, typed, to two locks", "seats_enter<typed>",
             "floor_two_locks"},
            {"channel, any, to co_await enter() + leave", "channel_send<any>", "seats_enter<any>"},
            {"channel, typed, to co_await enter() + leave", "channel_send<typed>",
             "seats_enter<typed>"},
        });
}
