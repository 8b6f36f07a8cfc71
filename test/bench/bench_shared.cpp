// Measures the cost of a decision of a shared limiter with prefetched permits, and the number of requests to the store
// for it: `try_enter` and the release of the permit on one thread, while another thread runs the context. Floor: the
// same calls with a token bucket of this process.

#include <weir/shared/limiter.hpp>
#include <weir/shared/memory_store.hpp>
#include <weir/token_bucket.hpp>

#include "support.hpp"

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <thread>

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

// A rate above the demand.
constexpr weir::amount permits = 200'000'000;

void local(benchmark::State& state) {
    bench::idle_thread const other;
    asio::io_context ctx;
    weir::token_bucket limiter(ctx, {.rate = {permits, 1s}});
    for (auto _ : state)
        benchmark::DoNotOptimize(limiter.try_enter());
}
BENCHMARK(local);

void leased(benchmark::State& state) {
    asio::io_context ctx;
    auto work = asio::make_work_guard(ctx);
    std::jthread const thread([&] { ctx.run(); });
    auto const store = std::make_shared<weir::memory_store>(ctx);
    weir::shared_token_bucket limiter(
        ctx, store, "calls",
        {.rate = {permits, 1s}, .prefetch = state.range(0), .prefetch_time = 1s});
    std::uint64_t granted = 0;
    for (auto _ : state) {
        if (limiter.try_enter()) {
            ++granted;
            continue;
        }
        std::promise<void> done;  // no prefetched permit is left
        limiter.async_enter([&](weir::error_code ec, weir::permit) {
            granted += !ec;
            done.set_value();
        });
        done.get_future().wait();
    }
    work.reset();
    auto const questions = static_cast<double>(limiter.shared_stats().questions);
    state.counters["grants"] =
        benchmark::Counter(static_cast<double>(granted), benchmark::Counter::kIsRate);
    state.counters["grants_per_question"] = static_cast<double>(granted) / questions;
}
BENCHMARK(leased)->Arg(64)->Arg(1'000)->Arg(1'000'000)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
