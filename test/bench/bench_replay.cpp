// Measures how many lines of an access log weir-replay replays per second, with one rate limit for all requests.
// Floors: `wc -l` on the same file, and parsing its lines without further work.

#include "logs/format.hpp"
#include "logs/input.hpp"
#include "replay/feed.hpp"
#include "replay/simulation.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t lines_per_second = 200;
constexpr int clients = 5'000;

// A log with the given number of lines. The destructor removes it.
class log_file {
public:
    explicit log_file(std::int64_t lines)
        : path_(std::filesystem::temp_directory_path() /
                fmt::format("weir-bench-{}-{}.log", ::getpid(), lines)) {
        auto* const file = std::fopen(path_.c_str(), "w");
        if (!file)
            throw std::runtime_error("cannot write " + path_.string());
        std::uint64_t random = 1;
        for (std::int64_t i = 0; i != lines; ++i) {
            random = random * 6'364'136'223'846'793'005u + 1'442'695'040'888'963'407u;
            auto const at = static_cast<std::time_t>(807'249'600 + i / lines_per_second);
            fmt::print(file,
                       "host{}.example.org - - [{:%d/%b/%Y:%H:%M:%S} +0000] "
                       "\"GET /images/launch-logo-{}.gif HTTP/1.0\" 200 {}\n",
                       (random >> 33) % clients, fmt::gmtime(at), (random >> 40) % 1000,
                       (random >> 50) % 10'000);
        }
        std::fclose(file);
    }
    log_file(log_file const&) = delete;
    ~log_file() { std::filesystem::remove(path_); }

    [[nodiscard]] std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

std::string path_of(std::int64_t lines) {
    static std::map<std::int64_t, log_file> all;
    return all.try_emplace(lines, lines).first->second.path();
}

void count_by_wc(benchmark::State& state) {
    auto const command = "wc -l " + path_of(state.range(0)) + " >/dev/null";
    for (auto _ : state)
        if (std::system(command.c_str()) != 0)
            state.SkipWithError("wc is not installed");
    state.SetItemsProcessed(state.iterations() * state.range(0));
}

void parse(benchmark::State& state) {
    auto const path = path_of(state.range(0));
    auto const reader = logs::format::parse("common").make_reader({logs::key_source{}});
    for (auto _ : state) {
        logs::line_source file(path);
        logs::line line;
        logs::entry entry;
        std::int64_t read = 0;
        while (file.next(line))
            read += reader->read(line.text, entry) ? 1 : 0;
        if (read != state.range(0))
            state.SkipWithError("unreadable lines");
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}

void replay_by(benchmark::State& state, std::vector<std::string> const& rules, char const* takes) {
    auto const path = path_of(state.range(0));
    replay::plan plan;
    for (auto const& text : rules)
        plan.rules.push_back(replay::rule::parse(text));
    plan.sort();
    replay::settings settings;
    settings.takes = replay::service_time::parse(takes);
    double rejected = 0;
    for (auto _ : state) {
        replay::simulation simulation(settings, {plan});
        replay::log_set logs({.files = {path}, .format = {}, .when = {}});
        (void)logs.feed(simulation);
        rejected = simulation.results().front().rejected_share();
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
    state.counters["rejected"] = rejected;
}

void replay_rate(benchmark::State& state) {
    replay_by(state, {"250/1s"}, "0s");
}
void replay_rate_where_most_wait(benchmark::State& state) {
    replay_by(state, {"150/1s"}, "0s");
}
void replay_rates_of_clients(benchmark::State& state) {
    replay_by(state, {"250/1s", "2/1s burst 10 per client"}, "0s");
}
void replay_seats(benchmark::State& state) {
    replay_by(state, {"30 seats"}, "100ms");
}

void sizes(benchmark::internal::Benchmark* b) {
    b->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
}

BENCHMARK(count_by_wc)->Apply(sizes)->UseRealTime();
BENCHMARK(parse)->Apply(sizes);
BENCHMARK(replay_rate)->Apply(sizes);
BENCHMARK(replay_rate_where_most_wait)->Apply(sizes);
BENCHMARK(replay_rates_of_clients)->Apply(sizes);
BENCHMARK(replay_seats)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
