// Measures the cost of a decision in a tree of rates with 100,000 leaves in three levels: a check and, if the permit is
// free, a grant. Each leaf is asked twice a second, in random order. Floor: the same for a token bucket of each leaf,
// in an array. Then the same by the name of the user, in a limiter: `try_enter` of `rate_tree`, beside `keyed`. Another
// figure is a grant to one of 10,000 waiting requests. At the end it prints the memory of a leaf.

#include <weir/keyed.hpp>
#include <weir/policy/bucket.hpp>
#include <weir/policy/rate_tree.hpp>
#include <weir/policy/rate_tree_turns.hpp>
#include <weir/rate_tree.hpp>
#include <weir/token_bucket.hpp>

#include "support.hpp"

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using weir::policy::rate_tree;
using weir::policy::tree_node;

constexpr std::size_t leaves = 100'000;
constexpr std::size_t teams = 100;
constexpr auto pause = 5us;  // between two requests

std::vector<std::uint32_t> const& order() {
    static auto const made = [] {
        std::mt19937_64 random(1);
        std::vector<std::uint32_t> all(1 << 20);
        for (auto& one : all)
            one = static_cast<std::uint32_t>(random() % leaves);
        return all;
    }();
    return made;
}

struct forest {
    rate_tree tree;
    std::vector<tree_node> leaf;
    std::size_t bytes = 0;  // of the leaves
    weir::time_point now{1h};
    std::size_t next = 0;

    explicit forest(std::string const& of_a_leaf) : tree(options(of_a_leaf)) {
        auto const before = tree.heap_bytes();
        for (std::size_t i = 0; i != leaves; ++i) {
            auto const team = tree.find(rate_tree::root(), std::to_string(i % teams));
            leaf.push_back(tree.add(team.value()).value());
        }
        bytes = tree.heap_bytes() - before;
        for (std::size_t i = 0; i != order().size(); ++i)
            decide();
    }

    bool decide() {
        now += pause;
        auto const who = leaf[order()[next++ % order().size()]];
        return tree.try_take(who, 1, now).has_value();
    }

    static weir::rate_tree_options options(std::string const& of_a_leaf) {
        std::string text = "tree / 150000/1s burst 300000";
        for (std::size_t i = 0; i != teams; ++i) {
            auto const path = ", /" + std::to_string(i);
            text.append(path).append(" 1200/1s burst 2500 most 1800/1s burst 5000");
            text.append(path).append("/* ").append(of_a_leaf).append(" keys 1000");
        }
        return weir::rate_tree_options::parse(text);
    }
};

forest& with_most() {
    static forest made("most 2/1s burst 5");
    return made;
}
forest& with_both() {
    static forest made("1/1s burst 2 most 3/1s burst 5");
    return made;
}

void decide_in_a_tree(benchmark::State& state, forest& all) {
    std::int64_t granted = 0;
    for (auto _ : state)
        granted += all.decide();
    state.counters["granted"] =
        static_cast<double>(granted) / static_cast<double>(state.iterations());
}
void tree_leaf_with_most(benchmark::State& state) {
    decide_in_a_tree(state, with_most());
}
BENCHMARK(tree_leaf_with_most);
void tree_leaf_with_both(benchmark::State& state) {
    decide_in_a_tree(state, with_both());
}
BENCHMARK(tree_leaf_with_both);

// A limiter asked by names, on the clock of the machine: most requests are rejected.
struct names {
    std::vector<std::string> team;
    std::vector<std::string> user;

    names() {
        for (std::size_t i = 0; i != leaves; ++i) {
            team.push_back(std::to_string(i % teams));
            user.push_back("user-" + std::to_string(i));
        }
    }
};
names const& all_names() {
    static names const made;
    return made;
}
void limiter_of_a_tree(benchmark::State& state) {
    static boost::asio::io_context context;
    static weir::rate_tree limiter(context, forest::options("most 2/1s burst 5"));
    auto const& [team, user] = all_names();
    std::size_t next = 0;
    for (auto _ : state) {
        auto const who = order()[next++ % order().size()];
        benchmark::DoNotOptimize(limiter.try_enter({team[who], user[who]}));
    }
}
BENCHMARK(limiter_of_a_tree);
void limiter_by_key(benchmark::State& state) {
    static boost::asio::io_context context;
    static weir::keyed<std::string, weir::token_bucket> limiter(
        context, {.rate = {2, 1s}, .burst = 5});
    auto const& user = all_names().user;
    std::size_t next = 0;
    for (auto _ : state)
        benchmark::DoNotOptimize(limiter.try_enter(user[order()[next++ % order().size()]]));
}
BENCHMARK(limiter_by_key);

// A grant to a leaf that waits, and its next request. All leaves want more than the root can lend.
void turn_of_many(benchmark::State& state) {
    static auto turns = [] {
        forest all("most 2000/1s burst 5");
        weir::policy::rate_tree_turns made(std::move(all.tree));
        for (std::size_t i = 0; i != leaves / 10; ++i) {
            made.open(all.leaf[i]);
            made.wait(all.leaf[i], 1, false, all.now);
        }
        return made;
    }();
    static weir::time_point now{3h};
    for (auto _ : state) {
        auto leaf = turns.next(now);
        for (; !leaf; leaf = turns.next(now))
            now = std::max(now, turns.next_at());
        turns.take(*leaf, 1, now);
        turns.wait(*leaf, 1, false, now);
    }
}
BENCHMARK(turn_of_many);

void floor_bucket(benchmark::State& state) {
    weir::policy::bucket const rule(weir::rate(2, 1s), 5);
    weir::time_point now{1h};
    static std::vector<weir::policy::bucket::state> states(leaves, rule.filled(0, now));
    auto const& asked = order();
    std::size_t next = 0;
    for (auto _ : state) {
        now += pause;
        auto& who = states[asked[next++ % asked.size()]];
        if (rule.ready_at(who, 1, 0, now) <= now)
            rule.take(who, 1, now);
    }
}
BENCHMARK(floor_bucket);

void tell_memory(char const* what, forest const& all) {
    fmt::print("{:<47} {:>10.1f} bytes\n", what, static_cast<double>(all.bytes) / leaves);
}
std::size_t leaves_in_heaps(forest& all) {
    return static_cast<std::size_t>(std::ranges::count_if(all.leaf, [&](tree_node const& node) {
        return all.tree.stats(node, all.now).saved < 2;
    }));
}

}  // namespace

int main(int argc, char** argv) {
    auto const failed = bench::run_all(
        argc, argv,
        {
            {"a leaf with a most, to a bucket", "tree_leaf_with_most", "floor_bucket"},
            {"of 10,000 that wait, to one at once", "turn_of_many", "tree_leaf_with_both"},
            {"a leaf with both, to a bucket", "tree_leaf_with_both", "floor_bucket"},
            {"a limiter by names, to keyed", "limiter_of_a_tree", "limiter_by_key"},
        });
    if (failed == 0) {
        tell_memory("memory of a leaf with a most", with_most());
        tell_memory("memory of a leaf with both", with_both());
        fmt::print("{:<47} {:>10}\n", "leaves with both that are not full",
                   leaves_in_heaps(with_both()));
    }
    return failed;
}
