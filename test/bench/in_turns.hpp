#pragma once

#include <fmt/format.h>

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

/// Runs `f` for the given time. Returns how often per second it did its work.
template <class F>
double per_second(F& f, std::chrono::nanoseconds length) {
    auto const begin = std::chrono::steady_clock::now();
    auto const done = f(begin + length);
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(done) / took.count();
}

/// Operations per second of a floor and of the code compared with it. They are medians of alternating rounds, so that
/// other activity of the machine affects both.
struct comparison {
    double floor = 0;
    double ours = 0;
};
template <class Floor, class Ours>
comparison in_turns(int rounds, std::chrono::nanoseconds length, Floor&& floor, Ours&& ours) {
    std::vector<double> of_floor;
    std::vector<double> of_ours;
    for (int i = 0; i != rounds; ++i) {
        of_floor.push_back(per_second(floor, length));
        of_ours.push_back(per_second(ours, length));
    }
    auto const median = [](std::vector<double>& all) {
        std::ranges::sort(all);
        return all[all.size() / 2];
    };
    return {median(of_floor), median(of_ours)};
}

inline void print(std::string_view what, comparison const& c) {
    fmt::print("{:<40} floor {:>9.0f}/s   weir {:>9.0f}/s   {:>5.1f} %   {:+.1f} us\n", what,
               c.floor, c.ours, 100 * c.ours / c.floor, 1e6 / c.ours - 1e6 / c.floor);
}

/// Binds this process, and the processes that it starts later, to one processor, if there are several.
inline void stay_on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(processor), &set);
    ::sched_setaffinity(0, sizeof set, &set);
}

/// Returns the duration of each measurement, from an option such as `--seconds=0.5`.
inline std::chrono::nanoseconds length_of_round(int argc, char** argv, double usual) {
    constexpr std::string_view option = "--seconds=";
    for (int i = 1; i < argc; ++i) {
        if (std::string_view(argv[i]).starts_with(option))
            usual = std::atof(argv[i] + option.size());
    }
    return std::chrono::nanoseconds(static_cast<std::int64_t>(usual * 1e9));
}

}  // namespace bench
