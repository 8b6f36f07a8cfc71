#pragma once

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
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

/// A benchmark and its floor.
struct comparison {
    std::string what;
    std::string benchmark;
    std::string floor;
};

/// Prints the output of Google Benchmark, and then each comparison as a ratio of times, which are medians if there are
/// repetitions.
class comparing_reporter : public benchmark::ConsoleReporter {
public:
    explicit comparing_reporter(std::vector<comparison> comparisons)
        : ConsoleReporter(OO_Tabular), comparisons_(std::move(comparisons)) {}

    void ReportRuns(std::vector<Run> const& runs) override {
        for (auto const& run : runs) {
            if (run.run_type == Run::RT_Iteration && run.iterations != 0) {
                times_[run.run_name.function_name + argument(run)].push_back(
                    run.real_accumulated_time / static_cast<double>(run.iterations));
            }
        }
        ConsoleReporter::ReportRuns(runs);
    }

    void Finalize() override {
        fmt::print("\n{:<58} {:>12} {:>12} {:>9}\n", "against its floor", "time", "floor", "ratio");
        for (auto const& c : comparisons_) {
            auto const time = median(c.benchmark);
            auto const floor = median(c.floor);
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

    double median(std::string const& name) {
        auto& all = times_[name];
        if (all.empty())
            return 0;
        std::sort(all.begin(), all.end());
        return all[all.size() / 2];
    }

    std::vector<comparison> comparisons_;
    std::map<std::string, std::vector<double>> times_;
};

inline int run_all(int argc, char** argv, std::vector<comparison> comparisons) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return 1;
    idle_thread const other;
    comparing_reporter reporter(std::move(comparisons));
    benchmark::RunSpecifiedBenchmarks(&reporter);
    return 0;
}

}  // namespace bench
