#pragma once

#include <weir/seats.hpp>

#include "support.hpp"

namespace bench {

/// Measures an immediate grant and the release of a seat.
template <class Executor>
void seats_try_enter(benchmark::State& state) {
    live_context context;
    weir::basic_seats<Executor> seats(Executor(context->get_executor()), {.seats = 4});
    for (auto _ : state)
        benchmark::DoNotOptimize(seats.try_enter());
}

/// Measures an immediate grant and the release of a seat in a coroutine.
template <class Executor>
void seats_enter(benchmark::State& state) {
    auto const body = [&](asio::io_context& context) -> asio::awaitable<void, Executor> {
        weir::basic_seats<Executor> seats(Executor(context.get_executor()), {.seats = 4});
        for (auto _ : state) {
            auto const seat = co_await seats.enter();
            benchmark::DoNotOptimize(seat.count());
        }
    };
    run_coroutine<Executor>(body);
}

}  // namespace bench
