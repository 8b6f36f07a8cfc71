#pragma once

#include "outcomes.hpp"
#include "scenario.hpp"
#include "schedule.hpp"

namespace explorer {

/// Returns the scenario with the additional features of this world's limiters.
[[nodiscard]] scenario for_this_world(scenario s);

/// Runs `s` with the real core; any error ends the process through `violated`. `aloud` prints all events. Returns the
/// outcomes of all requests.
outcomes run(scenario const& s, chooser& choices, grain how_fine, bool aloud);

}  // namespace explorer
