#pragma once

#include "attempt.hpp"
#include "scenario.hpp"

#include <string>
#include <vector>

namespace explorer {

/// A scenario small enough for all of its interleavings.
struct small_scenario {
    std::string name;
    scenario what;
};

[[nodiscard]] std::vector<small_scenario> small_scenarios();

/// Runs `s` in every interleaving of its critical sections.
///
/// The order in which the threads (callers, threads that run the contexts, timer) take the lock is complete, as in
/// the model. A critical section is one atomic step, together with the work of its thread before it and after it up
/// to the next section. A delivery belongs to the first section of the delivered message, and the timer fires at any
/// moment once it is due. So all orders occur in which a step can be overtaken between its sections, while it uses
/// the host, and between the handlers that it calls. Time passes when no thread can continue. Events inside a
/// section, posts that throw and allocations that fail are left to the random schedules.
void run_all(scenario const& s, report& log);

}  // namespace explorer
