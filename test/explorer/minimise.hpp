#pragma once

#include "scenario.hpp"
#include "schedule.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace explorer {

/// A run that fails.
struct failing_run {
    scenario what;
    std::vector<std::uint8_t> choices{};
    grain how_fine = grain::fine;
    std::string invariant{};
};

/// Returns a shorter run that violates the same invariant: fewer actions, then fewer switches between threads. Takes
/// about `at_most`.
[[nodiscard]] failing_run minimise(failing_run run, std::chrono::seconds at_most);

}  // namespace explorer
