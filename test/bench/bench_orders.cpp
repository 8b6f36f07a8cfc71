// Measures the queues of several orders: a grant to the next of the waiting requests, and a new request in its place.
// Each flow has two waiting requests, of 1 to 8 permits; the argument is the number of flows. Floor: arrival order.

#include <weir/order.hpp>

#include "support.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;

class guest final : public weir::detail::operation {
public:
    bool post() override { return true; }
    void run() override {}
    void destroy() noexcept override {}
};

// Requests of one class without weights, or of all classes and weights.
enum class kind : std::uint8_t { plain, classes, weights };

weir::request request_of(kind what, std::size_t flow, std::uint64_t random) {
    auto const n = 1 + random % 8;
    switch (what) {
        case kind::plain:
            return {n, {.flow = flow}};
        case kind::classes:
            return {n, {.priority = static_cast<int>(random >> 8 & 7), .flow = flow}};
        case kind::weights:
            return {n, {.flow = flow, .weight = static_cast<int>(1 + flow % weir::max_weight)}};
    }
    return n;
}

template <class Queue>
void grant_and_wait(benchmark::State& state, kind what) {
    auto const flows = static_cast<std::size_t>(state.range(0));
    std::mt19937_64 random(1);
    weir::time_point now(1h);
    std::uint64_t last = 0;
    Queue queue;
    std::vector<std::unique_ptr<guest>> guests;
    std::vector<weir::request> asked;
    auto const wait = [&](guest& one, weir::request const& r) {
        one.ask_for(r);
        one.since = now += 1us;
        one.number = ++last;
        queue.prepare(one);
        queue.push(one);
    };
    for (std::size_t i = 0; i != 2 * flows; ++i) {
        guests.push_back(std::make_unique<guest>());
        wait(*guests.back(), request_of(what, i % flows, random()));
    }
    auto const grant = [&] {
        auto& one = static_cast<guest&>(*queue.next(now));
        queue.grant(one, one.count, now);
        queue.erase(one);
        wait(one, one.asked_for());
    };
    for (std::size_t i = 0; i != 4 * flows; ++i)  // so that all is in the cache
        grant();
    for (auto _ : state)
        grant();
    while (auto* const left = queue.oldest())
        queue.erase(*left);
}

void arrival_order(benchmark::State& state) {
    grant_and_wait<weir::order::fifo>(state, kind::plain);
}
void priority(benchmark::State& state) {
    grant_and_wait<weir::order::priority>(state, kind::classes);
}
void fair(benchmark::State& state) {
    grant_and_wait<weir::order::fair>(state, kind::plain);
}
void fair_with_weights(benchmark::State& state) {
    grant_and_wait<weir::order::fair>(state, kind::weights);
}
void fair_with_classes(benchmark::State& state) {
    grant_and_wait<weir::order::fair>(state, kind::classes);
}

constexpr std::int64_t numbers[] = {1, 100, 10'000};

void add(std::string const& name, void (*run)(benchmark::State&),
         std::vector<bench::comparison>& comparisons) {
    auto* const added = benchmark::RegisterBenchmark(name.c_str(), run);
    for (auto const flows : numbers) {
        added->Arg(flows);
        auto const argument = fmt::format("/{}", flows);
        if (run != &arrival_order)
            comparisons.push_back({name + argument, name + argument, "arrival_order" + argument});
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<bench::comparison> comparisons;
    add("arrival_order", &arrival_order, comparisons);
    add("priority", &priority, comparisons);
    add("fair", &fair, comparisons);
    add("fair_with_weights", &fair_with_weights, comparisons);
    add("fair_with_classes", &fair_with_classes, comparisons);
    return bench::run_all(argc, argv, std::move(comparisons));
}
