#pragma once

#include <weir/stats.hpp>

#include "scenario.hpp"
#include "schedule.hpp"

namespace explorer {

/// The same for the limiters of this world, with what they have besides.
[[nodiscard]] scenario for_this_world(scenario s);

/// Runs `s` with the real core; whatever is wrong ends the process through `violated`. `aloud` prints
/// what happens. Returns what became of all requests.
weir::limiter_stats run(scenario const& s, chooser& choices, grain how_fine, bool aloud);

}  // namespace explorer
