#pragma once

#include "outcomes.hpp"
#include "scenario.hpp"
#include "schedule.hpp"

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace explorer {

/// The results of the runs of another process, even after a crash.
struct report {
    std::uint64_t runs;     // completed runs
    std::uint64_t choices;  // in all of them
    outcomes requests;      // of all of them
    char invariant[32];     // the violated invariant; empty if there is none
    char what[512];
    record log;  // the last run
};

[[nodiscard]] std::string_view invariant_of(report const& r);
[[nodiscard]] std::vector<std::uint8_t> choices_of(report const& r);

/// Runs `body` in a separate process, for at most this number of seconds.
void attempt(std::function<void(report&)> const& body, unsigned seconds);
/// Returns the results of the last attempt.
[[nodiscard]] report const& last_report();

}  // namespace explorer
