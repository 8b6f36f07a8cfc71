// Measures the cost of a keyed limiter: `try_enter` for one of a million keys, and the release of the permit, with
// uniform and with skewed keys (Zipf, 1.0), on one and on two threads, where the time is the processor time of a thread.
// Floor: the same decision by the same rule, with a clock read, on states in a bare `boost::unordered_flat_map`, on one
// thread, without locks, permits or removal of keys. Floors of a batch: that map with one clock read for the whole
// batch; and states in a prefetched array, without a search.
//
// At the end it prints the memory per key, and the durations of single calls while a million keys appear and disappear,
// next to a loop that only reads the clock: an interruption by the system makes a call long in both.

#include <weir/keyed.hpp>
#include <weir/policy/token_bucket.hpp>

#include "support.hpp"

#include <boost/unordered/unordered_flat_map.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using policy = weir::policy::token_bucket;
using keyed = weir::keyed<std::uint64_t, policy>;
using weir::permit;

constexpr std::size_t keys = 1'000'000;
constexpr std::size_t calls = 1 << 20;
constexpr std::size_t batch = 256;
// No request is rejected, and no bucket becomes full again during the benchmark.
weir::token_bucket_options const options{.rate = {1, 1h}, .burst = 1'000'000};

// Returns the key of a number. The keys look random.
std::uint64_t name_of(std::uint64_t number) {
    return number * 0x9e3779b97f4a7c15 + 1;
}
std::vector<std::uint64_t> uniform(unsigned seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint64_t> names(calls);
    for (auto& name : names)
        name = name_of(random() % keys);
    return names;
}
// The n-th most frequent key occurs 1/n times as often as the most frequent one.
std::vector<std::uint64_t> zipf(unsigned seed) {
    std::vector<double> up_to(keys);
    double sum = 0;
    for (std::size_t i = 0; i != keys; ++i)
        up_to[i] = sum += 1.0 / static_cast<double>(i + 1);
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> anywhere(0, sum);
    std::vector<std::uint64_t> names(calls);
    for (auto& name : names) {
        auto const at = std::lower_bound(up_to.begin(), up_to.end(), anywhere(random));
        name = name_of(static_cast<std::uint64_t>(at - up_to.begin()));
    }
    return names;
}
std::vector<std::uint64_t> const& names(int which, int thread) {
    static std::vector<std::uint64_t> const all[2][2] = {
        {uniform(1), uniform(2)}, {zipf(1), zipf(2)}};
    return all[which][thread];
}

class limiter {
public:
    explicit limiter(std::uint32_t heavy_keys)
        : all_(context_, options,
               weir::keyed_options{.max_keys = 2 * keys, .heavy_keys = heavy_keys}) {
        for (std::uint64_t i = 0; i != keys; ++i)
            all_.try_enter(name_of(i)).leave();
    }
    keyed* operator->() { return &all_; }

private:
    boost::asio::io_context context_;
    keyed all_;
};
limiter& million() {
    static limiter all(0);
    return all;
}

using rule_type = policy::rule_type;
weir::time_point now() {
    return weir::time_point(std::chrono::steady_clock::now().time_since_epoch());
}
void decide(rule_type const& rule, rule_type::state_type& s, weir::time_point t) {
    if (rule.ready_at(s, 1, 0, t) <= t)
        benchmark::DoNotOptimize(rule.take(s, 1, t));
}
struct bare_map {
    rule_type rule{options};
    boost::unordered_flat_map<std::uint64_t, rule_type::state_type> states;

    bare_map() {
        for (std::uint64_t i = 0; i != keys; ++i)
            states.emplace(name_of(i), rule.begin(now()));
    }
};

void floor_bare_map(benchmark::State& state) {
    static bare_map map;
    auto const& asked = names(static_cast<int>(state.range(0)), 0);
    std::size_t i = 0;
    for (auto _ : state) {
        auto const t = now();
        decide(map.rule, map.states.find(asked[i++ % calls])->second, t);
    }
}
BENCHMARK(floor_bare_map)->Arg(0)->Arg(1);

void floor_bare_map_batch(benchmark::State& state) {
    static bare_map map;
    auto const& asked = names(static_cast<int>(state.range(0)), 0);
    std::size_t i = 0;
    while (state.KeepRunningBatch(batch)) {
        auto const t = now();
        for (auto const name : std::span(asked).subspan(i, batch))
            decide(map.rule, map.states.find(name)->second, t);
        i = (i + batch) % (calls - batch);
    }
}
BENCHMARK(floor_bare_map_batch)->Arg(0)->Arg(1);

void floor_prefetched_array(benchmark::State& state) {
    struct place {
        std::uint64_t name;
        rule_type::state_type of_name;
    };
    static rule_type const rule(options);
    static std::vector<place> places(keys, {0, rule.begin(now())});
    auto const& asked = names(static_cast<int>(state.range(0)), 0);
    std::size_t i = 0;
    while (state.KeepRunningBatch(batch)) {
        auto const t = now();
        auto const these = std::span(asked).subspan(i, batch);
        for (auto const name : these)
            __builtin_prefetch(&places[name % keys], 1);
        for (auto const name : these)
            decide(rule, places[name % keys].of_name, t);
        i = (i + batch) % (calls - batch);
    }
}
BENCHMARK(floor_prefetched_array)->Arg(0)->Arg(1);

void keyed_try_enter(benchmark::State& state) {
    auto const& asked = names(static_cast<int>(state.range(0)), 0);
    auto& all = million();
    std::size_t i = 0;
    for (auto _ : state)
        benchmark::DoNotOptimize(static_cast<bool>(all->try_enter(asked[i++ % calls])));
}
BENCHMARK(keyed_try_enter)->Arg(0)->Arg(1);

// With a limiter that also counts the 64 heaviest keys of each part.
void keyed_try_enter_counting(benchmark::State& state) {
    static limiter all(64);
    auto const& asked = names(static_cast<int>(state.range(0)), 0);
    std::size_t i = 0;
    for (auto _ : state)
        benchmark::DoNotOptimize(static_cast<bool>(all->try_enter(asked[i++ % calls])));
}
BENCHMARK(keyed_try_enter_counting)->Arg(0)->Arg(1);

void keyed_two_threads(benchmark::State& state) {
    auto const& asked = names(static_cast<int>(state.range(0)), state.thread_index());
    auto& all = million();
    std::size_t i = 0;
    for (auto _ : state)
        benchmark::DoNotOptimize(static_cast<bool>(all->try_enter(asked[i++ % calls])));
}
BENCHMARK(keyed_two_threads)->Arg(0)->Arg(1)->Threads(2);

// The time is per key. The counter has the time of the call alone, without the release of the permits.
void keyed_try_enter_many(benchmark::State& state) {
    auto const& asked = names(static_cast<int>(state.range(0)), 0);
    auto& all = million();
    std::vector<permit> permits(batch);
    std::size_t i = 0;
    double spent = 0;
    while (state.KeepRunningBatch(batch)) {
        for (auto& p : permits)
            p.leave();
        bench::processor_time const call;
        all->try_enter_many<std::uint64_t>(std::span(asked).subspan(i, batch), permits);
        spent += call.seconds();
        i = (i + batch) % (calls - batch);
    }
    state.counters["ns_a_key_without_leave"] =
        1e9 * spent / static_cast<double>(state.iterations());
}
BENCHMARK(keyed_try_enter_many)->Arg(0)->Arg(1);

// Prints quantiles of the durations of `count` calls of `f`.
template <class F>
void tell_tail(char const* what, std::size_t count, F f) {
    using clock = std::chrono::steady_clock;
    std::vector<float> micros(count);
    auto const start = clock::now();
    auto before = start;
    for (std::size_t i = 0; i != count; ++i) {
        f(i);
        auto const after = clock::now();
        micros[i] = std::chrono::duration<float, std::micro>(after - before).count();
        before = after;
    }
    auto const seconds = std::chrono::duration<double>(before - start).count();
    std::sort(micros.begin(), micros.end());
    auto const quantile = [&](double q) {
        return micros[static_cast<std::size_t>(q * static_cast<double>(count - 1))];
    };
    auto const above = micros.end() - std::upper_bound(micros.begin(), micros.end(), 50.0F);
    fmt::print("{:<46} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.1f} {:>9.1f} {:>7} {:>9.1f}\n", what,
               quantile(0.5), quantile(0.999), quantile(0.9999), quantile(0.99999), micros.back(),
               above, static_cast<double>(above) / seconds);
}

void tell_memory_and_longest_calls() {
    boost::asio::io_context context;
    keyed coming_and_going{
        context, {.rate = {1, 1ms}, .burst = 1}, weir::keyed_options{.max_keys = 4 * keys}};
    fmt::print("\n{:<46} {:>8} {:>8} {:>8} {:>8} {:>9} {:>7} {:>9}\n",
               "duration of single calls in us", "median", "99.9 %", "99.99 %", "99.999 %",
               "longest", "> 50 us", "per second");
    auto const read_the_clock = [] { tell_tail("a clock read", 20 * keys, [](std::size_t) {}); };
    read_the_clock();
    tell_tail("try_enter and leave, with new and expired keys", 4 * keys,
              [&](std::size_t i) { coming_and_going.try_enter(name_of(i)).leave(); });
    read_the_clock();
    keyed coming{context, options, weir::keyed_options{.max_keys = 4 * keys}};
    tell_tail("try_enter and leave, with a million new keys", keys,
              [&](std::size_t i) { coming.try_enter(name_of(i)).leave(); });
    auto const stats = coming.stats();
    fmt::print("{:<58} {:>9.1f} bytes\n", "memory of a 64-bit key with its token_bucket",
               static_cast<double>(stats.bytes) / static_cast<double>(stats.keys));
}

}  // namespace

int main(int argc, char** argv) {
    auto const failed = bench::run_all(
        argc, argv,
        {
            {"try_enter + leave, uniform, to a bare map", "keyed_try_enter/0", "floor_bare_map/0"},
            {"try_enter + leave, Zipf, to a bare map", "keyed_try_enter/1", "floor_bare_map/1"},
            {"two threads, uniform, a call, to a bare map", "keyed_two_threads/0",
             "floor_bare_map/0"},
            {"two threads, Zipf, a call, to a bare map", "keyed_two_threads/1", "floor_bare_map/1"},
            {"with heavy keys counted, uniform, to without", "keyed_try_enter_counting/0",
             "keyed_try_enter/0"},
            {"with heavy keys counted, Zipf, to without", "keyed_try_enter_counting/1",
             "keyed_try_enter/1"},
            {"try_enter + leave, uniform, to try_enter_many", "keyed_try_enter/0",
             "keyed_try_enter_many/0"},
            {"try_enter + leave, Zipf, to try_enter_many", "keyed_try_enter/1",
             "keyed_try_enter_many/1"},
            {"try_enter_many, uniform, to a bare map, one clock read", "keyed_try_enter_many/0",
             "floor_bare_map_batch/0"},
            {"try_enter_many, Zipf, to a bare map, one clock read", "keyed_try_enter_many/1",
             "floor_bare_map_batch/1"},
            {"try_enter_many, uniform, to a prefetched array", "keyed_try_enter_many/0",
             "floor_prefetched_array/0"},
            {"try_enter_many, Zipf, to a prefetched array", "keyed_try_enter_many/1",
             "floor_prefetched_array/1"},
        });
    if (failed == 0)
        tell_memory_and_longest_calls();
    return failed;
}
