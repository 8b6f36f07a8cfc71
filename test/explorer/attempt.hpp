#pragma once

#include <weir/stats.hpp>

#include "scenario.hpp"
#include "schedule.hpp"

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace explorer {

/// What is known of the runs of another process, even if that crashes.
struct report {
    std::uint64_t runs;            // so many came to their end
    std::uint64_t choices;         // in all of them
    weir::limiter_stats requests;  // of all of them
    char invariant[32];            // that was violated; empty if none
    char what[512];
    record log;  // the last run
};

[[nodiscard]] std::string_view invariant_of(report const& r);
[[nodiscard]] std::vector<std::uint8_t> choices_of(report const& r);

/// Runs `body` in a process of its own, for so many seconds at most.
void attempt(std::function<void(report&)> const& body, unsigned seconds);
/// What the last attempt has come to.
[[nodiscard]] report const& last_report();

}  // namespace explorer
