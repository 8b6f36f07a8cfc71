// The schedule explorer: runs the real core of the limiters in a simulated world, in many interleavings, and checks
// all that must never happen (oracle.hpp).
//
//     explore [--policy NAME|all] [--schedules N] [--seed S] [--callers N]
//     explore --exhaustive
//
// `explore_keyed` does the same for a limiter with three keys in two cores, of seats, resting_seats, sliding_log or
// token_bucket: each key must behave like a plain limiter. `explore_chain` does it for chains of three limiters, and
// `explore_tree` for a random tree of rates, as `explore_tree --policy token_bucket`: each node consists of token buckets.
//
// Each schedule is a scenario and an interleaving, and depends only on its seed. If one fails, the program prints its
// seed, the invariant and the shortest trace that it found; `--policy P --seed S` runs that schedule again. A million
// schedules: --schedules 1000000. Without --seed the first seed is WEIR_SEED of the environment, or else 1. With
// --expect it is 1, since the mistake must be found within that number.
//
//     --callers N       at most N callers (64)
//     --minimise N      search for a shorter trace for N seconds; 0 disables the search (10)
//     --expect NAME     succeed if this invariant is violated, fail if none is: for mutants; `any` for
//                       a mistake that is undefined behaviour
//     --trace           with --seed: print all events, even if nothing is wrong

#include "attempt.hpp"
#include "exhaustive.hpp"
#include "minimise.hpp"
#include "oracle.hpp"
#include "scenario.hpp"
#include "world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace explorer {
namespace {

constexpr unsigned seconds_for_all = 24 * 3600;

struct settings {
    std::vector<policy> policies{all_policies.begin(), all_policies.end()};
    std::optional<std::uint64_t> schedules;
    std::optional<std::uint64_t> seed;
    int callers = 64;
    std::chrono::seconds minimise{10};
    std::string expect;
    bool trace = false;
    bool exhaustive = false;
};

[[noreturn]] void usage(std::string const& why) {
    fmt::print(stderr, "explore: {}; see the top of explore.cpp\n", why);
    std::exit(2);
}

std::uint64_t number_of(std::string_view text) {
    std::uint64_t n = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || end != text.data() + text.size())
        usage(fmt::format("{} is not a number", text));
    return n;
}

settings parse(int argc, char* argv[]) {
    settings s;
    for (int i = 1; i < argc; ++i) {
        std::string_view const option = argv[i];
        auto const value = [&]() -> std::string_view {
            if (++i == argc)
                usage(fmt::format("{} needs a value", option));
            return argv[i];
        };
        auto const number = [&] { return number_of(value()); };
        if (option == "--policy") {
            auto const name = value();
            auto const found = std::ranges::find(all_policies, name, name_of);
            if (found != all_policies.end())
                s.policies = {*found};
            else if (name != "all")
                usage(fmt::format("no policy {}", name));
        } else if (option == "--schedules") {
            s.schedules = number();
        } else if (option == "--seed") {
            s.seed = number();
        } else if (option == "--callers") {
            s.callers = static_cast<int>(number());
            if (s.callers < 1 || s.callers > 64)
                usage("1 to 64 callers");
        } else if (option == "--minimise") {
            s.minimise = std::chrono::seconds(number());
        } else if (option == "--expect") {
            s.expect = value();
        } else if (option == "--trace") {
            s.trace = true;
        } else if (option == "--exhaustive") {
            s.exhaustive = true;
        } else {
            usage(fmt::format("no option {}", option));
        }
    }
    return s;
}

std::uint64_t first_seed(settings const& set) {
    auto const* const given = std::getenv("WEIR_SEED");
    if (set.seed || given == nullptr || !set.expect.empty())
        return set.seed.value_or(1);
    return number_of(given);
}

scenario scenario_of(settings const& set, policy which, std::uint64_t seed) {
    return for_this_world(make_scenario(which, mix(seed, 1), set.callers));
}

double seconds_since(std::chrono::steady_clock::time_point began) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void print_trace(failing_run const& f) {
    fmt::print("\n{}\n", to_string(f.what));
    attempt(
        [&](report& r) {
            chooser told(f.choices, r.log);
            run(f.what, told, f.how_fine, true);
        },
        60);
    fmt::print("\n");
}

// Prints the violation in `r`, and the shortest trace of it that is found.
void print_violation(settings const& set, report const& r, failing_run failed,
                     std::string const& how) {
    failed.invariant = invariant_of(r);
    failed.choices = choices_of(r);
    auto const verdict = fmt::format("VIOLATED: {}: {}\n{}\n", failed.invariant, r.what, how);
    fmt::print("{}", verdict);
    if (set.minimise.count() == 0)
        return;
    print_trace(minimise(std::move(failed), set.minimise));
    fmt::print("{}", verdict);
}

void add(outcomes const& one, outcomes& all) {
    all.granted += one.granted;
    all.granted_immediately += one.granted_immediately;
    all.no_permit += one.no_permit;
    all.timed_out += one.timed_out;
    all.deadline_unreachable += one.deadline_unreachable;
    all.queue_full += one.queue_full;
    all.shed += one.shed;
    all.exceeds_capacity += one.exceeds_capacity;
    all.closed += one.closed;
    all.cancelled += one.cancelled;
    all.chains_by_counting += one.chains_by_counting;
}

// Runs these schedules until one fails.
void run_schedules(settings const& set, policy which, std::uint64_t first,
                   std::uint64_t schedules) {
    attempt(
        [&](report& log) {
            for (; log.runs != schedules; ++log.runs) {
                auto const seed = first + log.runs;
                auto const s = scenario_of(set, which, seed);
                chooser by_chance(mix(seed, 2), log.log);
                add(run(s, by_chance, grain::fine, false), log.requests);
                log.choices += log.log.size;
            }
        },
        seconds_for_all);
}

bool explore(settings const& set, policy which) {
    auto const first = first_seed(set);
    auto const schedules = set.schedules.value_or(set.seed ? 1 : 10000);
    auto const began = std::chrono::steady_clock::now();
    std::uint64_t choices = 0;
    outcomes all;
    for (std::uint64_t done = 0; done != schedules;) {
        run_schedules(set, which, first + done, schedules - done);
        auto const& r = last_report();
        choices += r.choices;
        add(r.requests, all);
        done += r.runs;
        if (invariant_of(r).empty())
            continue;
        auto const seed = first + done++;
        auto const how =
            fmt::format("after {} schedules: --policy {} --seed {}{}", done, name_of(which), seed,
                        set.callers == 64 ? "" : fmt::format(" --callers {}", set.callers));
        bool const expected = set.expect == "any" || invariant_of(r) == set.expect;
        if (set.expect.empty() || expected) {
            print_violation(set, r, {.what = scenario_of(set, which, seed)}, how);
            return expected;
        }
        fmt::print("{}, not {}: {}\n", r.invariant, set.expect, how);
    }
    if (set.trace && schedules == 1)
        print_trace({.what = scenario_of(set, which, first), .choices = choices_of(last_report())});
    fmt::print("{}: {} schedules from seed {}, {} choices, {:.1f} s: {} is violated\n",
               name_of(which), schedules, first, choices, seconds_since(began),
               set.expect.empty() ? "nothing" : "something else or nothing");
    fmt::print("granted {}, {} of them immediately; no permit {}, timed out {}, unreachable {}, "
               "queue full {}, shed {}, over capacity {}, closed {}, cancelled {}\n",
               all.granted, all.granted_immediately, all.no_permit, all.timed_out,
               all.deadline_unreachable, all.queue_full, all.shed, all.exceeds_capacity, all.closed,
               all.cancelled);
    if (all.chains_by_counting != 0)
        fmt::print("{} chains are granted by counting\n", all.chains_by_counting);
    return set.expect.empty();
}

bool exhaust(settings const& set) {
    std::uint64_t runs = 0;
    auto const start = std::chrono::steady_clock::now();
    for (auto const& one : small_scenarios()) {
        auto const began = std::chrono::steady_clock::now();
        attempt([&](report& log) { run_all(one.what, log); }, seconds_for_all);
        auto const& r = last_report();
        if (!invariant_of(r).empty()) {
            print_violation(set, r, {.what = one.what, .how_fine = grain::sections},
                            fmt::format("{}, interleaving {}", one.name, r.runs + 1));
            return false;
        }
        fmt::print("{}: all {} interleavings, {:.1f} s: nothing is violated\n", one.name, r.runs,
                   seconds_since(began));
        std::fflush(stdout);
        runs += r.runs;
    }
    fmt::print("{} interleavings in all, {:.1f} s\n", runs, seconds_since(start));
    return true;
}

}  // namespace
}  // namespace explorer

int main(int argc, char* argv[]) {
    using namespace explorer;
    auto const set = parse(argc, argv);
    bool good = true;
    if (set.exhaustive) {
        good = exhaust(set);
    } else {
        for (auto const which : set.policies)
            good = explore(set, which) && good;
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
