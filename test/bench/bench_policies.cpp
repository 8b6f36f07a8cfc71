// Measures the cost of a decision of a policy, without lock, queue and permit: a check and a grant; and the check
// alone, if no permit is free. Each is measured with a constant time and with the clock read that each rate limit
// needs. The floor is that clock read.

#include <weir/weir.hpp>

#include "support.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using weir::time_point;
namespace policy = weir::policy;

// The policies, with permits for a grant every 10 ns; and without permits for an hour.
template <class Policy>
struct sizes;

template <>
struct sizes<policy::seats> {
    static policy::seats roomy() { return policy::seats({.seats = weir::max_amount}); }
    static policy::seats full() { return policy::seats({.seats = 1}); }
};
template <>
struct sizes<policy::sliding_log> {
    static auto roomy() { return policy::sliding_log({.limit = 100'000, .window = 1ms}); }
    static auto full() { return policy::sliding_log({.limit = 1'000, .window = 1h}); }
};
template <>
struct sizes<policy::sliding_window> {
    static auto roomy() {
        return policy::sliding_window({.limit = 110'000, .window = 1ms, .slices = 100});
    }
    static auto full() {
        return policy::sliding_window({.limit = 1'000, .window = 1h, .slices = 100});
    }
};
template <>
struct sizes<policy::fixed_window> {
    static auto roomy() { return policy::fixed_window({.limit = 100'000, .window = 1ms}); }
    static auto full() { return policy::fixed_window({.limit = 1'000, .window = 1h}); }
};
template <>
struct sizes<policy::calendar_window> {
    static auto roomy() { return policy::calendar_window({.limit = weir::max_amount}); }
    static auto full() { return policy::calendar_window({.limit = 1'000}); }
};
template <>
struct sizes<policy::token_bucket> {
    static auto roomy() { return policy::token_bucket({.rate = {1, 1ns}, .burst = 1'000}); }
    static auto full() { return policy::token_bucket({.rate = {1'000, 1h}, .burst = 1'000}); }
};
template <>
struct sizes<policy::leaky_bucket> {
    static auto roomy() { return policy::leaky_bucket({.rate = {1, 1ns}}); }
    static auto full() { return policy::leaky_bucket({.rate = {1, 1h}}); }
};

template <>
struct sizes<policy::smooth_bursty> {
    static auto roomy() { return policy::smooth_bursty({.rate = {1, 1ns}}); }
    static auto full() { return policy::smooth_bursty({.rate = {1, 1h}}); }
};
template <>
struct sizes<policy::smooth_warming_up> {
    static auto roomy() { return policy::smooth_warming_up({.rate = {1, 1ns}}); }
    static auto full() { return policy::smooth_warming_up({.rate = {1, 1h}}); }
};

// The policy selected at run time, to measure the added cost.
template <>
struct sizes<policy::any> {
    static policy::any any_of(weir::token_bucket_options const& o) { return policy::any(o); }
    static auto roomy() { return any_of({.rate = {1, 1ns}, .burst = 1'000}); }
    static auto full() { return any_of({.rate = {1'000, 1h}, .burst = 1'000}); }
};

// A token bucket that is refilled by intervals.
struct interval_bucket : policy::token_bucket {
    using ruled::ruled;
};
template <>
struct sizes<interval_bucket> {
    static auto roomy() {
        return interval_bucket(
            {.rate = {1'000, 1us}, .burst = 100'000, .refill = weir::refill::interval});
    }
    static auto full() {
        return interval_bucket(
            {.rate = {1'000, 1h}, .burst = 1'000, .refill = weir::refill::interval});
    }
};

struct free_time {
    time_point t{1h};
    time_point now() { return t += 10ns; }
};

struct clock_time {
    static time_point now() {
        return time_point(std::chrono::steady_clock::now().time_since_epoch());
    }
};

void floor_clock(benchmark::State& state) {
    for (auto _ : state)
        benchmark::DoNotOptimize(std::chrono::steady_clock::now());
}

template <class Policy, class Time>
void grant(benchmark::State& state) {
    auto p = sizes<Policy>::roomy();
    Time time;
    std::size_t rejected = 0;
    for (auto _ : state) {
        auto const now = time.now();
        if (p.ready_at(1, 0, now) <= now)
            benchmark::DoNotOptimize(p.take(1, now));
        else
            ++rejected;
    }
    if (rejected != 0)
        state.SkipWithError("a request was rejected");
}

template <class Policy, class Time>
void reject(benchmark::State& state) {
    auto p = sizes<Policy>::full();
    Time time;
    auto const first = time.now();
    while (p.ready_at(1, 0, first) <= first)
        p.take(1, first);
    std::size_t granted = 0;
    for (auto _ : state) {
        auto const now = time.now();
        auto ready = p.ready_at(1, 0, now);  // not const: DoNotOptimize warns of it since 1.9
        benchmark::DoNotOptimize(ready);
        granted += ready <= now;
    }
    if (granted != 0)
        state.SkipWithError("a request was granted");
}

template <class Policy>
void add(std::string const& name, std::vector<bench::comparison>& comparisons) {
    auto const add_one = [&](std::string const& what, auto* run) {
        benchmark::RegisterBenchmark((name + what).c_str(), run);
    };
    add_one("/grant", &grant<Policy, free_time>);
    add_one("/reject", &reject<Policy, free_time>);
    add_one("/grant_with_clock", &grant<Policy, clock_time>);
    add_one("/reject_with_clock", &reject<Policy, clock_time>);
    for (auto const* what : {"/grant", "/reject"})
        comparisons.push_back({name + what + ", with the clock, to the clock alone",
                               name + what + "_with_clock", "floor_clock"});
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<bench::comparison> comparisons;
    benchmark::RegisterBenchmark("floor_clock", &floor_clock);
    add<policy::seats>("seats", comparisons);
    add<policy::sliding_log>("sliding_log", comparisons);
    add<policy::sliding_window>("sliding_window", comparisons);
    add<policy::fixed_window>("fixed_window", comparisons);
    add<policy::calendar_window>("calendar_window", comparisons);
    add<policy::token_bucket>("token_bucket", comparisons);
    add<interval_bucket>("token_bucket_by_intervals", comparisons);
    add<policy::leaky_bucket>("leaky_bucket", comparisons);
    add<policy::smooth_bursty>("smooth_bursty", comparisons);
    add<policy::smooth_warming_up>("smooth_warming_up", comparisons);
    add<policy::any>("any", comparisons);
    return bench::run_all(argc, argv, std::move(comparisons));
}
