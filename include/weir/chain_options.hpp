#pragma once

#include <weir/time.hpp>

#include <chrono>

namespace weir::inline v0_2 {

/// The bounds within which a chain waits for limiters that have free permits at different times.
struct chain_options {
    /// The number of turns that a chain loses before it is overdue, 1 to 1,000,000. A chain loses a turn when it is at
    /// the head of the queue of a limiter that could grant its part, and another limiter could not.
    int passes = 8;

    /// The longest time for which an overdue chain blocks later requests at all its limiters, 1 ns to an hour. The wait
    /// of a chain is bounded if no permit is held longer, and no rate takes longer to grant the chain's part; see
    /// `chain`.
    duration reserve_for = std::chrono::seconds(1);
};

/// Throws `std::invalid_argument` that names the option, its value and the bound, if an option is out of bounds.
void validate(chain_options const& options);

}  // namespace weir::inline v0_2
