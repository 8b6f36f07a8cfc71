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
/// Complete is the order in which the threads (callers, those that run the contexts, timer) take the
/// lock, as in the model: a critical section is one atomic step, with what its thread does before it
/// and behind it up to the next; a delivery goes with the first section of what is delivered, and the
/// timer fires at any moment once it is due. So every order is there in which a step can be overtaken
/// between its sections, while it sees to the host, and between the handlers that it calls. Time
/// passes when nobody can go on. What lies inside a section, posts that throw and allocations that
/// fail are left to chance, in the schedules that are made from seeds.
void run_all(scenario const& s, report& log);

}  // namespace explorer
