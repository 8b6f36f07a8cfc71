#pragma once

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace bench {

namespace asio = boost::asio;

/// The executors of users: a type-erased one, and one of a known type.
using any = asio::any_io_executor;
using typed = asio::io_context::executor_type;

/// A thread that does nothing. In a process with one thread, glibc's mutex and libstdc++'s `shared_ptr` use shortcuts
/// that a server with several threads does not have.
class idle_thread {
private:
    std::jthread thread_{[](std::stop_token stop) {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any().wait(lock, stop, [] { return false; });
    }};
};

/// An io_context with a pending timer and socket, as in a server. Without them Asio skips its reactor, and measurements
/// are too good.
class live_context {
public:
    live_context() {
        timer_.async_wait([](auto) {});
        socket_.async_wait(asio::socket_base::wait_read, [](auto) {});
    }

    asio::io_context& operator*() { return context_; }
    asio::io_context* operator->() { return &context_; }

    /// Lets `run()` return after the remaining work.
    void finish() {
        timer_.cancel();
        socket_.close();
    }

private:
    asio::io_context context_{1};
    asio::steady_timer timer_{context_, std::chrono::hours(1)};
    asio::ip::udp::socket socket_{
        context_, asio::ip::udp::endpoint(asio::ip::address_v4::loopback(), 0)};
};

/// Runs the coroutine `body(context)` to its end on a live context.
template <class Executor, class Body>
void run_coroutine(Body body) {
    live_context context;
    auto const whole = [&]() -> asio::awaitable<void, Executor> {
        co_await body(*context);
        context.finish();
    };
    asio::co_spawn(Executor(context->get_executor()), whole, [](std::exception_ptr failure) {
        if (failure)
            std::rethrow_exception(failure);
    });
    context->run();
}

/// Measures processor time from its construction on: the time of this thread, or of the whole process. Other programs
/// on the machine hardly affect it, in contrast to wall time.
class processor_time {
public:
    enum class of : clockid_t {
        this_thread = CLOCK_THREAD_CPUTIME_ID,
        process = CLOCK_PROCESS_CPUTIME_ID,
    };

    explicit processor_time(of which = of::this_thread) : which_(which) {}

    [[nodiscard]] double seconds() const { return read() - start_; }

private:
    [[nodiscard]] double read() const {
        timespec t{};
        ::clock_gettime(static_cast<clockid_t>(which_), &t);
        return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
    }

    of which_;
    double start_ = read();
};

/// A benchmark and its floor.
struct comparison {
    std::string what;
    std::string benchmark;
    std::string floor;
};

/// Prints one round of each benchmark, in the format of Google Benchmark: the round at the 10th percentile of the
/// times. Then it prints each comparison as a ratio of these times. The time of a benchmark is the processor time of
/// its thread, or the time that the benchmark measures itself (`UseManualTime`, `UseRealTime`).
class comparing_reporter : public benchmark::ConsoleReporter {
public:
    explicit comparing_reporter(std::vector<comparison> comparisons)
        : ConsoleReporter(OO_Tabular), comparisons_(std::move(comparisons)) {}

    void ReportRuns(std::vector<Run> const& runs) override {
        if (runs.empty() || runs.front().run_type != Run::RT_Iteration)
            return;  // the mean and such
        std::vector<Run> rounds;
        std::ranges::copy_if(runs, std::back_inserter(rounds), [](Run const& run) {
            return run.iterations != 0;
        });
        if (rounds.empty())
            return ConsoleReporter::ReportRuns(runs);  // it prints the error
        std::ranges::sort(rounds, {}, time_of);
        auto low = rounds[rounds.size() / 10];
        times_[low.run_name.function_name + argument(low)] = time_of(low);
        low.run_name.repetitions.clear();
        low.run_name.iterations.clear();
        low.run_name.time_type.clear();
        ConsoleReporter::ReportRuns({low});
    }

    void Finalize() override {
        fmt::print("\n{:<58} {:>12} {:>12} {:>9}\n", "against its floor, 10th percentiles", "time",
                   "floor", "ratio");
        for (auto const& c : comparisons_) {
            auto const time = times_[c.benchmark];
            auto const floor = times_[c.floor];
            if (time > 0 && floor > 0) {
                fmt::print("{:<58} {:>9.1f} ns {:>9.1f} ns {:>8.2f}x\n", c.what, time * 1e9,
                           floor * 1e9, time / floor);
            }
        }
    }

private:
    static std::string argument(Run const& run) {
        return run.run_name.args.empty() ? "" : '/' + run.run_name.args;
    }
    static double time_of(Run const& run) {
        auto const all =
            run.run_name.time_type.empty() ? run.cpu_accumulated_time : run.real_accumulated_time;
        return all / static_cast<double>(run.iterations);
    }

    std::vector<comparison> comparisons_;
    std::map<std::string, double> times_;
};

/// Runs all benchmarks in many short rounds, which alternate at random. The options of Google Benchmark in `argv`
/// replace these defaults: `--benchmark_repetitions`, for example.
inline int run_all(int argc, char** argv, std::vector<comparison> comparisons) {
    // Since version 1.8 the minimum time has a unit.
    std::vector<std::string> arguments{
        argv[0], "--benchmark_repetitions=60", "--benchmark_enable_random_interleaving=true",
        "--benchmark_min_time=0.005" WEIR_BENCHMARK_SECONDS};
    arguments.insert(arguments.end(), argv + 1, argv + argc);
    std::vector<char*> pointers;
    for (auto& argument : arguments)
        pointers.push_back(argument.data());
    auto count = static_cast<int>(pointers.size());
    pointers.push_back(nullptr);
    benchmark::Initialize(&count, pointers.data());
    if (benchmark::ReportUnrecognizedArguments(count, pointers.data()))
        return 1;
    idle_thread const other;
    comparing_reporter reporter(std::move(comparisons));
    benchmark::RunSpecifiedBenchmarks(&reporter);
    return 0;
}

}  // namespace bench
