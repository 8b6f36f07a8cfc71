// Measures how exactly the limiters keep a rate in real time, at 1,000, 10,000 and 100,000 grants per second, with
// callers that always wait. Columns:
// - achieved: the grants as a share of the target rate
// - excess: the grants above the promise of the limiter, in the worst window of 10 ms and of 1 s, at the times that its
//   policy receives; 0 if the limiter keeps its promise
// - CPU: the CPU time of the whole process, as a share of one core
//
// Floor: a coroutine that waits for a timer before each step.
//
//     bench_accuracy [--seconds=N]         default: 5 seconds per measurement

#include <weir/weir.hpp>

#include "support.hpp"

#include <boost/asio.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using weir::amount;
using weir::duration;
using weir::time_point;

constexpr int callers = 16;
constexpr auto tenth = 10ms;  // the window that contains a hundredth of the rate

std::vector<time_point>
    grants;  // its capacity is reserved first, because a policy must not allocate

// A policy that keeps a record of its grants.
template <class Policy>
struct recorded : Policy {
    using Policy::Policy;
    weir::ticket take(amount n, time_point now) {
        grants.push_back(now);
        return Policy::take(n, now);
    }
};

// Returns the largest number of grants in any half-open window.
amount worst(duration window) {
    std::size_t most = 0;
    for (std::size_t first = 0, end = 0; end != grants.size(); ++end) {
        while (grants[end] - grants[first] >= window)
            ++first;
        most = std::max(most, end - first + 1);
    }
    return static_cast<amount>(most);
}

template <class Limiter>
asio::awaitable<void> always_waits(Limiter& limiter) {
    for (;;)
        (void)co_await limiter.enter();
}

double cpu_seconds() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// `promised(d)` is the largest permitted number of grants in a window of length `d`.
template <class Policy, class Promise>
void measure(std::string_view name, amount rate, typename Policy::options_type const& options,
             std::chrono::duration<double> length, Promise promised) {
    using limiter_type = weir::basic_limiter<recorded<Policy>>;
    grants.clear();
    grants.reserve(
        static_cast<std::size_t>(2 * length.count() * static_cast<double>(rate)) + 1'000);
    std::chrono::duration<double> elapsed{};
    double cpu = 0;
    {
        asio::io_context context{1};
        limiter_type limiter(context.get_executor(), options);
        for (int i = 0; i != callers; ++i)
            asio::co_spawn(context, always_waits(limiter), asio::detached);
        auto const began = clock::now();
        auto const used = cpu_seconds();
        context.run_for(std::chrono::duration_cast<clock::duration>(length));
        elapsed = clock::now() - began;
        cpu = cpu_seconds() - used;
    }
    auto const took = std::chrono::duration_cast<duration>(elapsed);
    auto const excess = [&](duration window) {
        return std::max<amount>(worst(window) - promised(window), 0);
    };
    fmt::print("{:<36} {:>7}/s {:>10.3f}% {:>14} {:>14} {:>8.1f}%\n", name, rate,
               100 * static_cast<double>(grants.size()) / static_cast<double>(promised(took)),
               excess(10ms), excess(1s), 100 * cpu / elapsed.count());
}

asio::awaitable<void> steps(amount rate, std::size_t& done) {
    asio::steady_timer timer(co_await asio::this_coro::executor, clock::now());
    for (;; ++done) {
        timer.expires_at(timer.expiry() + duration(1s) / rate);
        co_await timer.async_wait(asio::deferred);
    }
}

void measure_floor(amount rate, std::chrono::duration<double> length) {
    asio::io_context context{1};
    std::size_t done = 0;
    asio::co_spawn(context, steps(rate, done), asio::detached);
    auto const began = clock::now();
    auto const used = cpu_seconds();
    context.run_for(std::chrono::duration_cast<clock::duration>(length));
    std::chrono::duration<double> const elapsed = clock::now() - began;
    fmt::print("{:<36} {:>7}/s {:>10.3f}% {:>14} {:>14} {:>8.1f}%\n", "floor: a timer", rate,
               100 * static_cast<double>(done) / (elapsed.count() * static_cast<double>(rate)), "",
               "", 100 * (cpu_seconds() - used) / elapsed.count());
}

void measure_all(amount rate, std::chrono::duration<double> length) {
    auto const some = rate / 100;
    auto const by_windows = [&](duration d) { return some * (d / tenth); };
    auto const at_a_rate = [&](amount burst) {
        return [=](duration d) { return burst + rate * d.count() / 1'000'000'000; };
    };
    // An arbitrary window overlaps one more fixed window.
    auto const by_fixed_windows = [&](duration d) { return some * (d / tenth + 1); };

    measure_floor(rate, length);
    using namespace weir::policy;
    measure<sliding_log>("sliding_log, 10 ms", rate, {.limit = some, .window = tenth}, length,
                         by_windows);
    measure<sliding_window>(
        "sliding_window, 10 ms", rate, {.limit = some, .window = tenth}, length, by_windows);
    measure<fixed_window>("fixed_window, 10 ms", rate, {.limit = some, .window = tenth}, length,
                          by_fixed_windows);
    measure<token_bucket>("token_bucket, burst of 10 ms", rate, {.rate = {rate, 1s}, .burst = some},
                          length, at_a_rate(some));
    measure<token_bucket>("token_bucket, by intervals of 10 ms", rate,
                          {.rate = {some, tenth}, .burst = some, .refill = weir::refill::interval},
                          length, by_fixed_windows);
    measure<leaky_bucket>("leaky_bucket, capacity of 10 ms", rate,
                          {.rate = {rate, 1s}, .capacity = some}, length, at_a_rate(some));
    measure<leaky_bucket>("leaky_bucket, one by one", rate, {.rate = {rate, 1s}}, length,
                          at_a_rate(1));
}

}  // namespace

int main(int argc, char** argv) {
    std::chrono::duration<double> length = 5s;
    constexpr std::string_view option = "--seconds=";
    for (int i = 1; i < argc; ++i) {
        std::string const argument = argv[i];
        char* end = nullptr;
        if (argument.starts_with(option))
            length =
                std::chrono::duration<double>(std::strtod(argument.c_str() + option.size(), &end));
        if (!end || *end != '\0' || !(length > 0s)) {
            fmt::print(stderr, "bench_accuracy [--seconds=N]\n");
            return 1;
        }
    }
    bench::idle_thread const other;
    fmt::print("{:<36} {:>9} {:>11} {:>14} {:>14} {:>9}\n", "", "target", "achieved",
               "excess, 10 ms", "excess, 1 s", "CPU");
    for (amount const rate : {1'000, 10'000, 100'000})
        measure_all(rate, length);
}
