// Measures chains that wait for two limiters in several orders: a permit of each is released, the next request is
// granted, and a new one waits in its place. Half of the requests are chains, the others wait for one of the limiters.
// The argument is the number of waiting requests. Floor: the order fifo.

#include <weir/chain.hpp>
#include <weir/seats.hpp>

#include "support.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;

constexpr weir::amount seats_of_each = 4;
constexpr std::uint64_t flows = 20;

class crowd {
public:
    crowd(weir::queue_order order, std::int64_t waiting)
        : one_(context_, {.seats = seats_of_each}, queueing(order)),
          other_(context_, {.seats = seats_of_each}, queueing(order)) {
        for (std::int64_t i = 0; i != waiting + 2 * seats_of_each; ++i)
            ask();
        run();
        for (std::int64_t i = 0; i != 4 * waiting;
             ++i)  // so that chains have lost their turns, as later
            step();
    }
    ~crowd() {
        one_.close();
        other_.close();
        run();
    }

    // A request releases its permits, and another one waits.
    void step() {
        std::swap(held_[random_() % held_.size()], held_.front());
        held_.pop_front();
        ask();
        run();
    }
    [[nodiscard]] std::int64_t granted() const noexcept { return granted_; }

private:
    // The permits of a chain, or of a plain request.
    struct holder {
        weir::chain_permit<2> both;
        weir::permit one;
    };

    static weir::queue_options queueing(weir::queue_order order) {
        return {.max_waiting = 100'000, .order = order};
    }

    void ask() {
        weir::request const r(1, {.flow = random_() % flows});
        if (random_() % 2 == 0) {
            weir::chain(one_.with(r), other_.with(r))
                .async_enter([this](weir::error_code ec, weir::chain_permit<2> permit) {
                    keep(ec, {std::move(permit), {}});
                });
            return;
        }
        auto& limiter = random_() % 2 == 0 ? one_ : other_;
        limiter.async_enter(r, [this](weir::error_code ec, weir::permit permit) {
            keep(ec, {{}, std::move(permit)});
        });
    }
    void keep(weir::error_code ec, holder granted) {
        if (ec)
            return;
        held_.push_back(std::move(granted));
        ++granted_;
    }
    void run() {
        context_.restart();
        context_.poll();
    }

    asio::io_context context_{1};
    weir::seats one_;
    weir::seats other_;
    std::mt19937_64 random_{1};
    std::deque<holder> held_;
    std::int64_t granted_ = 0;
};

template <weir::queue_order order>
void wait_and_grant(benchmark::State& state) {
    crowd all(order, state.range(0));
    for (auto _ : state)
        all.step();
    if (all.granted() == 0)
        state.SkipWithError("nothing was granted");
}

void fifo(benchmark::State& state) {
    wait_and_grant<weir::queue_order::fifo>(state);
}
void priority(benchmark::State& state) {
    wait_and_grant<weir::queue_order::priority>(state);
}
void fair(benchmark::State& state) {
    wait_and_grant<weir::queue_order::fair>(state);
}

void add(std::string const& name, void (*run)(benchmark::State&),
         std::vector<bench::comparison>& comparisons) {
    auto* const added = benchmark::RegisterBenchmark(name.c_str(), run);
    for (std::int64_t const waiting : {10, 100, 1'000}) {
        added->Arg(waiting);
        auto const argument = fmt::format("/{}", waiting);
        if (run != &fifo)
            comparisons.push_back({name + argument, name + argument, "fifo" + argument});
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<bench::comparison> comparisons;
    add("fifo", &fifo, comparisons);
    add("priority", &priority, comparisons);
    add("fair", &fair, comparisons);
    return bench::run_all(argc, argv, std::move(comparisons));
}
