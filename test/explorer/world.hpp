#pragma once

#include <weir/stats.hpp>

#include "scenario.hpp"
#include "schedule.hpp"

namespace explorer {

/// How many keys the limiters of this world tell apart.
extern int const keys_of_limiter;
/// Whether requests are for several limiters at once: then there are neither places nor ranges.
extern bool const has_chains;

/// Runs `s` with the real core; whatever is wrong ends the process through `violated`. `aloud` prints
/// what happens. Returns what became of all requests.
weir::limiter_stats run(scenario const& s, chooser& choices, grain how_fine, bool aloud);

}  // namespace explorer
