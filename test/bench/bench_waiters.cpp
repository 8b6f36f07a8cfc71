// Measures many waiting requests with deadlines on a limiter without free permits: the cost to queue, to time out and
// to cancel one request, its memory, and the lateness of its timeout. The patience of the requests is distributed
// evenly from 50 ms to the given time.
//
// Then, with deadlines that do not occur: the cost to check all requests again after `configure()`, and to reject them
// with `close()`; and the longest time for which a `try_enter` on another thread is blocked meanwhile.
//
// Times are processor times per request. Floors: to post and run a function of the same size, to emit a signal without
// a handler, and the longest `try_enter` without other activity.

#include <weir/weir.hpp>

#include "support.hpp"

#include <malloc.h>

#include <atomic>
#include <numeric>
#include <random>
#include <thread>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;
using bench::processor_time;
using seats = weir::basic_seats<asio::io_context::executor_type>;

std::vector<std::chrono::microseconds> patiences(long count, long longest_ms) {
    std::mt19937_64 random(1);
    std::uniform_int_distribution<long> spread(50'000, longest_ms * 1'000);
    std::vector<std::chrono::microseconds> all(static_cast<std::size_t>(count));
    for (auto& patience : all)
        patience = std::chrono::microseconds(spread(random));
    return all;
}

// The handler of a waiting request. It records how late it is called.
class late {
public:
    late(std::vector<float>& lateness, steady::time_point deadline)
        : lateness_(&lateness), deadline_(deadline) {}
    void operator()(weir::error_code, weir::permit const&) const {
        lateness_->push_back(std::chrono::duration<float>(steady::now() - deadline_).count());
    }

private:
    std::vector<float>* lateness_;
    steady::time_point deadline_;
};

double per(processor_time const& spent, long count) {
    return spent.seconds() / static_cast<double>(count);
}

void report_lateness(benchmark::State& state, std::vector<float> lateness) {
    std::sort(lateness.begin(), lateness.end());
    auto const at = [&](double share) {
        auto const last = static_cast<double>(lateness.size() - 1);
        return 1e3 * lateness[static_cast<std::size_t>(share * last)];
    };
    state.counters["late_p50_ms"] = at(0.5);
    state.counters["late_p99_ms"] = at(0.99);
    state.counters["late_max_ms"] = at(1);
}

// Manual time: the time to queue one request. The context runs between chunks of requests, as in a server.
void queue_and_expire(benchmark::State& state) {
    auto const count = state.range(0);
    auto const all = patiences(count, state.range(1));
    for (auto _ : state) {
        std::vector<float> lateness;
        lateness.reserve(all.size());
        asio::io_context context(1);
        seats limiter(context.get_executor(), {.seats = 1}, {.max_waiting = 1'000'000'000});
        auto const taken = limiter.try_enter();

        auto const before = mallinfo2().uordblks;
        double queueing = 0;
        std::size_t peak = 0;
        for (std::size_t i = 0; i < all.size();) {
            auto const start = steady::now();
            processor_time const spent;
            for (auto const end = std::min(i + 1'000, all.size()); i < end; ++i)
                limiter.async_enter(all[i], late(lateness, start + all[i]));
            queueing += spent.seconds();
            peak = std::max(peak, (mallinfo2().uordblks - before) /
                                      std::max<std::size_t>(limiter.stats().waiting, 1));
            context.poll();
        }
        processor_time const expiring;
        context.run();
        state.counters["expire_ns"] = per(expiring, count) * 1e9;
        state.SetIterationTime(queueing / static_cast<double>(count));
        state.counters["bytes"] = static_cast<double>(peak);
        report_lateness(state, std::move(lateness));
    }
    state.counters["handler_bytes"] = sizeof(late);
}

std::vector<std::size_t> order_of_arrival(long count) {
    std::vector<std::size_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0U);
    return order;
}

// Manual time: the time to cancel and complete one request.
void cancel(benchmark::State& state, std::vector<std::size_t> const& order) {
    auto const count = state.range(0);
    auto const all = patiences(count, state.range(1));
    for (auto _ : state) {
        long cancelled = 0;
        asio::io_context context(1);
        seats limiter(context.get_executor(), {.seats = 1}, {.max_waiting = 1'000'000'000});
        auto const taken = limiter.try_enter();
        std::vector<asio::cancellation_signal> signals(all.size());
        for (std::size_t i = 0; i < all.size(); ++i) {
            limiter.async_enter(
                all[i] + 1h, asio::bind_cancellation_slot(
                                 signals[i].slot(), [&](weir::error_code ec, weir::permit const&) {
                                     cancelled += ec == asio::error::operation_aborted;
                                 }));
        }
        context.poll();

        processor_time const spent;
        for (auto const i : order)
            signals[i].emit(asio::cancellation_type::all);
        state.counters["emit_ns"] = per(spent, count) * 1e9;
        context.run();
        state.SetIterationTime(per(spent, count));
        if (cancelled != count)
            state.SkipWithError("a request was not cancelled");
    }
}

void cancel_in_order(benchmark::State& state) {
    cancel(state, order_of_arrival(state.range(0)));
}

void cancel_at_random(benchmark::State& state) {
    auto order = order_of_arrival(state.range(0));
    std::shuffle(order.begin(), order.end(), std::mt19937_64(2));
    cancel(state, order);
}

// Measures the longest `try_enter` on another thread, which does nothing else during the lifetime of this object.
template <class Limiter>
class prober {
public:
    explicit prober(Limiter& limiter)
        : thread_([this, &limiter](std::stop_token const& stop) {
              for (auto before = steady::now(); !stop.stop_requested();) {
                  benchmark::DoNotOptimize(limiter.try_enter());
                  auto const after = steady::now();
                  longest_ = std::max(longest_, after - before);
                  before = after;
                  started_ = true;
              }
          }) {
        while (!started_)
            std::this_thread::yield();
    }

    double longest_ms() {
        thread_.request_stop();
        thread_.join();
        return std::chrono::duration<double, std::milli>(longest_).count();
    }

private:
    std::atomic<bool> started_ = false;
    steady::duration longest_{};
    std::jthread thread_;
};

using token_bucket = weir::basic_token_bucket<asio::io_context::executor_type>;

// Queues requests at a limiter of 1,000 per second, half of them with a patience of an hour, so that no deadline
// occurs. Then applies `change` to the limiter. Manual time: until all resulting handlers ran.
template <class Change>
void change_all(benchmark::State& state, Change change) {
    auto const count = state.range(0);
    for (auto _ : state) {
        asio::io_context context(1);
        token_bucket limiter(
            context.get_executor(), {.rate = {1'000, 1s}, .burst = 1, .initial = 0},
            {.max_waiting = 10'000'000});
        for (long i = 0; i < count; ++i) {
            auto const wait = i % 2 == 0 ? weir::patience() : weir::patience(1h);
            limiter.async_enter(wait, [](weir::error_code, weir::permit const&) {});
        }
        context.poll();

        prober idle(limiter);
        std::this_thread::sleep_for(100ms);
        state.counters["probe_idle_ms"] = idle.longest_ms();

        prober busy(limiter);
        processor_time const spent;
        change(limiter);
        state.counters["call_ms"] = 1e3 * spent.seconds();
        context.poll();
        state.counters["all_ms"] = 1e3 * spent.seconds();
        state.SetIterationTime(per(spent, count));
        state.counters["probe_ms"] = busy.longest_ms();
    }
}

// Lowers the rate to 1 per hour, so that a patience of an hour is too short for each request.
void reprice(benchmark::State& state) {
    change_all(state, [](token_bucket& limiter) {
        limiter.configure([](weir::token_bucket_options& o) { o.rate = {1, 1h}; });
    });
}

void close(benchmark::State& state) {
    change_all(state, [](token_bucket& limiter) { limiter.close(); });
}

void floor_post(benchmark::State& state) {
    auto const count = state.range(0);
    for (auto _ : state) {
        std::vector<float> lateness;
        lateness.reserve(static_cast<std::size_t>(count));
        asio::io_context context(1);
        processor_time const spent;
        for (long i = 0; i < count; ++i) {
            asio::post(context,
                       [note = late(lateness, steady::now())] { note({}, weir::permit()); });
        }
        context.run();
        state.SetIterationTime(per(spent, count));
    }
}

void floor_emit(benchmark::State& state) {
    auto const count = state.range(0);
    std::vector<asio::cancellation_signal> signals(static_cast<std::size_t>(count));
    for (auto _ : state) {
        processor_time const spent;
        for (auto& signal : signals)
            signal.emit(asio::cancellation_type::all);
        state.SetIterationTime(per(spent, count));
    }
}

void in_short_rounds(benchmark::internal::Benchmark* b) {
    b->Iterations(1)->UseManualTime();
}
void in_long_rounds(benchmark::internal::Benchmark* b) {
    b->Iterations(1)->UseManualTime()->Repetitions(3);
}
void few(benchmark::internal::Benchmark* b) {
    b->Apply(in_short_rounds)->Args({1'000, 100});
}
void many(benchmark::internal::Benchmark* b) {
    b->Apply(in_long_rounds)->Args({100'000, 10'000})->Args({1'000'000, 10'000});
}

BENCHMARK(floor_post)->Apply(few);
BENCHMARK(floor_post)->Apply(many)->Args({200'000, 0})->Args({400'000, 0});
BENCHMARK(floor_emit)->Apply(few);
BENCHMARK(floor_emit)->Apply(many);
BENCHMARK(queue_and_expire)->Apply(few);
BENCHMARK(queue_and_expire)->Apply(many);
BENCHMARK(cancel_in_order)->Apply(few);
BENCHMARK(cancel_in_order)->Apply(many);
BENCHMARK(cancel_at_random)->Apply(few);
BENCHMARK(cancel_at_random)->Apply(many);
BENCHMARK(reprice)->Arg(1'000)->Apply(in_short_rounds);
BENCHMARK(reprice)->Arg(400'000)->Apply(in_long_rounds);
BENCHMARK(close)->Arg(1'000)->Apply(in_short_rounds);
BENCHMARK(close)->Arg(200'000)->Apply(in_long_rounds);

}  // namespace

int main(int argc, char** argv) {
    std::vector<bench::comparison> comparisons;
    for (std::string const size : {"/1000/100", "/100000/10000", "/1000000/10000"}) {
        comparisons.push_back(
            {"queue one" + size + ", to a post", "queue_and_expire" + size, "floor_post" + size});
        comparisons.push_back(
            {"cancel one" + size + ", to a post", "cancel_at_random" + size, "floor_post" + size});
        comparisons.push_back({"cancel one" + size + ", at random, to in order",
                               "cancel_at_random" + size, "cancel_in_order" + size});
    }
    comparisons.push_back(
        {"check one again/400000, to a post", "reprice/400000", "floor_post/400000/0"});
    comparisons.push_back({"reject one/200000, to a post", "close/200000", "floor_post/200000/0"});
    return bench::run_all(argc, argv, std::move(comparisons));
}
