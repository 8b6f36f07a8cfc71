// Measures the cost of a checkout of an idle object. Floors: an immediate grant and a release of a seat, by the same
// kind of call in the same run. One seat is counted without the lock, which a pool cannot do. Two seats together are
// granted and released under the lock, as an object is. The target is at most 20 ns more than one seat.

#include <weir/weir.hpp>

#include "seats.hpp"
#include "support.hpp"

namespace {

namespace asio = boost::asio;
using bench::any;
using bench::seats_enter;
using bench::seats_try_enter;
using bench::typed;

asio::awaitable<int> make() {
    co_return 1;
}

// Fills a pool with the given number of idle objects.
template <class Pool>
void fill(Pool& pool, asio::io_context& context, int objects) {
    std::vector<typename Pool::lease_type> leases;
    for (int i = 0; i != objects; ++i)
        pool.async_checkout([&](weir::error_code, auto lease) {
            leases.push_back(std::move(lease));
        });
    while (leases.size() != static_cast<std::size_t>(objects))
        context.run_one();
}

void seats_try_enter_under_lock(benchmark::State& state) {
    bench::live_context context;
    weir::seats seats(*context, {.seats = 4});
    for (auto _ : state)
        benchmark::DoNotOptimize(seats.try_enter(2));
}

template <class Executor>
void seats_enter_under_lock(benchmark::State& state) {
    auto const body = [&](asio::io_context& context) -> asio::awaitable<void, Executor> {
        weir::basic_seats<Executor> seats(Executor(context.get_executor()), {.seats = 4});
        for (auto _ : state) {
            auto const both = co_await seats.enter(2);
            benchmark::DoNotOptimize(both.count());
        }
    };
    bench::run_coroutine<Executor>(body);
}

void try_checkout(benchmark::State& state, weir::pool_options const& options) {
    bench::live_context context;
    weir::pool<int> pool(*context, make, options);
    fill(pool, *context, 4);
    for (auto _ : state) {
        auto const lease = pool.try_checkout();
        benchmark::DoNotOptimize(*lease);
    }
}

void pool_try_checkout(benchmark::State& state) {
    try_checkout(state, {.max = 4});
}
void pool_try_checkout_least_recent(benchmark::State& state) {
    try_checkout(state, {.max = 4, .order = weir::reuse::least_recent});
}
void pool_try_checkout_trimmed(benchmark::State& state) {
    try_checkout(state, {.max = 4, .max_idle = std::chrono::minutes(1)});
}

template <class Executor>
void pool_checkout(benchmark::State& state) {
    auto const body = [&](asio::io_context& context) -> asio::awaitable<void, Executor> {
        weir::basic_pool<int, Executor> pool(
            Executor(context.get_executor()), make, weir::pool_options{.max = 4});
        { auto const first = co_await pool.checkout(); }
        for (auto _ : state) {
            auto const lease = co_await pool.checkout();
            benchmark::DoNotOptimize(*lease);
        }
    };
    bench::run_coroutine<Executor>(body);
}

BENCHMARK(seats_try_enter<any>);
BENCHMARK(seats_try_enter_under_lock);
BENCHMARK(pool_try_checkout);
BENCHMARK(pool_try_checkout_least_recent);
BENCHMARK(pool_try_checkout_trimmed);
BENCHMARK(seats_enter<any>);
BENCHMARK(seats_enter_under_lock<any>);
BENCHMARK(pool_checkout<any>);
BENCHMARK(seats_enter<typed>);
BENCHMARK(seats_enter_under_lock<typed>);
BENCHMARK(pool_checkout<typed>);

}  // namespace

int main(int argc, char** argv) {
    return bench::run_all(
        argc, argv,
        {
            {"try_checkout + checkin, to a seat", "pool_try_checkout", "seats_try_enter<any>"},
            {"try_checkout + checkin, to seats under the lock", "pool_try_checkout",
             "seats_try_enter_under_lock"},
            {"try_checkout + checkin, least recently used first", "pool_try_checkout_least_recent",
             "seats_try_enter<any>"},
            {"try_checkout + checkin, with max_idle: a clock read", "pool_try_checkout_trimmed",
             "seats_try_enter<any>"},
            {"co_await checkout() + checkin, any executor, to a seat", "pool_checkout<any>",
             "seats_enter<any>"},
            {"co_await checkout() + checkin, any executor, under the lock", "pool_checkout<any>",
             "seats_enter_under_lock<any>"},
            {"co_await checkout() + checkin, typed, to a seat", "pool_checkout<typed>",
             "seats_enter<typed>"},
            {"co_await checkout() + checkin, typed, under the lock", "pool_checkout<typed>",
             "seats_enter_under_lock<typed>"},
        });
}
