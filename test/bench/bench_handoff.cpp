// Measures the time of a hand-off, in which a released permit is granted to a waiting coroutine: 200 coroutines enter, yield and leave, with 1 and with 16 seats, so that nearly all of them wait. Floor: two posts, one for the
// hand-off and one for the yield, by as many coroutines as there are seats, since only that many are runnable. With
// fewer runnable coroutines Asio checks for events more often. Also measures 200 coroutines that only yield, and
// `concurrent_channel` as a semaphore, which has no deadlines, no order by weight and no automatic release.
//
// `two_contexts`: 32 coroutines on two io_contexts with one thread each share one limiter, as in a server with one
// context per thread. The time is the processor time of both threads.

#include <weir/weir.hpp>

#include "support.hpp"

#include <boost/asio/experimental/concurrent_channel.hpp>

#include <atomic>
#include <optional>
#include <thread>

namespace {

namespace asio = boost::asio;
using bench::any;
using bench::typed;
template <class Executor>
using channel = asio::experimental::concurrent_channel<Executor, void(boost::system::error_code)>;

constexpr int many = 200;
constexpr long handoffs = 10'000;

struct nothing {};

// Each iteration makes a limiter with `make(executor)` and runs `work(limiter, executor, left)` in each coroutine until
// `handoffs` hand-offs are complete.
template <class Executor, class Make, class Work>
void one_context(benchmark::State& state, Make make, Work work, long coroutines = many) {
    for (auto _ : state) {
        bench::live_context context;
        Executor const ex(context->get_executor());
        auto limiter = make(ex);
        long left = handoffs;
        long running = coroutines;
        auto const whole = [&]() -> asio::awaitable<void, Executor> {
            co_await work(limiter, ex, left);
            if (--running == 0)
                context.finish();
        };
        for (long i = 0; i < coroutines; ++i)
            asio::co_spawn(ex, whole, asio::detached);

        bench::processor_time const spent;
        context->run();
        state.SetIterationTime(spent.seconds() / handoffs);
    }
}

template <class Make, class Work>
void two_contexts(benchmark::State& state, Make make, Work work) {
    for (auto _ : state) {
        std::optional<bench::live_context> contexts[2];
        contexts[0].emplace();
        contexts[1].emplace();
        any const home((**contexts[0]).get_executor());
        auto limiter = make(home);
        std::atomic<long> left = handoffs;
        std::atomic<int> running = 32;
        auto const whole = [&](any ex) -> asio::awaitable<void> {
            co_await work(limiter, ex, left);
            if (--running != 0)
                co_return;
            for (auto& context : contexts)
                asio::post(**context, [&context] { context->finish(); });
        };
        for (int i = 0; i < 32; ++i) {
            any const ex((**contexts[i % 2]).get_executor());
            asio::co_spawn(ex, whole(ex), asio::detached);
        }

        bench::processor_time const spent(bench::processor_time::of::process);
        std::thread other([&] { (**contexts[1]).run(); });
        (**contexts[0]).run();
        other.join();
        state.SetIterationTime(spent.seconds() / handoffs);
    }
}

auto makes_nothing = [](auto const&) { return nothing(); };
auto makes_seats(benchmark::State& state) {
    return [&state]<class Executor>(Executor const& ex) {
        return weir::basic_seats<Executor>(ex, {.seats = state.range(0)});
    };
}
auto makes_channel(benchmark::State& state) {
    return [&state]<class Executor>(Executor const& ex) {
        return channel<Executor>(ex, static_cast<std::size_t>(state.range(0)));
    };
}

// The work of a coroutine. `left` is a long or an atomic long.
template <class Executor, class Left>
asio::awaitable<void, Executor> yields(nothing&, Executor ex, Left& left) {
    while (--left > 0)
        co_await asio::post(ex, asio::deferred);
}

template <class Executor, class Left>
asio::awaitable<void, Executor> yields_twice(nothing&, Executor ex, Left& left) {
    while (--left > 0) {
        co_await asio::post(ex, asio::deferred);
        co_await asio::post(ex, asio::deferred);
    }
}

template <class Executor, class Left>
asio::awaitable<void, Executor> enters(weir::basic_seats<Executor>& seats, Executor ex,
                                       Left& left) {
    while (--left > 0) {
        auto const seat = co_await seats.enter();
        co_await asio::post(ex, asio::deferred);
    }
}

template <class Executor, class Left>
asio::awaitable<void, Executor> async_enters(weir::basic_seats<Executor>& seats, Executor ex,
                                             Left& left) {
    while (--left > 0) {
        auto const seat = co_await seats.async_enter(asio::deferred);
        co_await asio::post(ex, asio::deferred);
    }
}

template <class Executor, class Left>
asio::awaitable<void, Executor> sends(channel<Executor>& seats, Executor ex, Left& left) {
    while (--left > 0) {
        co_await seats.async_send(boost::system::error_code(), asio::deferred);
        co_await asio::post(ex, asio::deferred);
        seats.try_receive([](auto) {});
    }
}

template <class Executor>
void floor_yield(benchmark::State& state) {
    one_context<Executor>(state, makes_nothing, yields<Executor, long>);
}
template <class Executor>
void floor_two_posts(benchmark::State& state) {
    one_context<Executor>(state, makes_nothing, yields_twice<Executor, long>, state.range(0));
}
template <class Executor>
void seats_enter(benchmark::State& state) {
    one_context<Executor>(state, makes_seats(state), enters<Executor, long>);
}
template <class Executor>
void seats_async_enter(benchmark::State& state) {
    one_context<Executor>(state, makes_seats(state), async_enters<Executor, long>);
}
template <class Executor>
void channel_send(benchmark::State& state) {
    one_context<Executor>(state, makes_channel(state), sends<Executor, long>);
}
void two_contexts_seats(benchmark::State& state) {
    two_contexts(state, makes_seats(state), enters<any, std::atomic<long>>);
}
void two_contexts_channel(benchmark::State& state) {
    two_contexts(state, makes_channel(state), sends<any, std::atomic<long>>);
}

BENCHMARK(floor_yield<any>)->UseManualTime()->Iterations(1);
BENCHMARK(floor_yield<typed>)->UseManualTime()->Iterations(1);
BENCHMARK(floor_two_posts<any>)->Arg(1)->Arg(16)->UseManualTime()->Iterations(1);
BENCHMARK(floor_two_posts<typed>)->Arg(1)->Arg(16)->UseManualTime()->Iterations(1);
BENCHMARK(seats_enter<any>)->Arg(1)->Arg(16)->UseManualTime()->Iterations(1);
BENCHMARK(seats_enter<typed>)->Arg(1)->Arg(16)->UseManualTime()->Iterations(1);
BENCHMARK(seats_async_enter<any>)->Arg(1)->Arg(16)->UseManualTime()->Iterations(1);
BENCHMARK(seats_async_enter<typed>)->Arg(1)->Arg(16)->UseManualTime()->Iterations(1);
BENCHMARK(channel_send<any>)->Arg(1)->Arg(16)->UseManualTime()->Iterations(1);
BENCHMARK(channel_send<typed>)->Arg(1)->Arg(16)->UseManualTime()->Iterations(1);
BENCHMARK(two_contexts_seats)->Arg(1)->Arg(16)->UseManualTime()->Iterations(1);
BENCHMARK(two_contexts_channel)->Arg(1)->Arg(16)->UseManualTime()->Iterations(1);

}  // namespace

int main(int argc, char** argv) {
    std::vector<bench::comparison> comparisons;
    for (std::string const seats : {"/1", "/16"}) {
        for (std::string const ex : {"<any>", "<typed>"}) {
            auto const where = ex + ", seats" + seats;
            comparisons.push_back({"co_await enter(), " + where + ", to two posts",
                                   "seats_enter" + ex + seats, "floor_two_posts" + ex + seats});
            comparisons.push_back(
                {"co_await async_enter(), " + where + ", to two posts",
                 "seats_async_enter" + ex + seats, "floor_two_posts" + ex + seats});
            comparisons.push_back({"co_await enter(), " + where + ", to a yield",
                                   "seats_enter" + ex + seats, "floor_yield" + ex});
            comparisons.push_back({"co_await enter(), " + where + ", to channel",
                                   "seats_enter" + ex + seats, "channel_send" + ex + seats});
            comparisons.push_back({"co_await async_enter(), " + where + ", to channel",
                                   "seats_async_enter" + ex + seats, "channel_send" + ex + seats});
        }
        comparisons.push_back({"two contexts, enter(), seats" + seats + ", to channel",
                               "two_contexts_seats" + seats, "two_contexts_channel" + seats});
    }
    return bench::run_all(argc, argv, std::move(comparisons));
}
