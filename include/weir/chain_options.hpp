#pragma once

#include <weir/time.hpp>

#include <chrono>

namespace weir {

/// For how long a chain puts up with limiters that have room at different times.
struct chain_options {
    /// How many turns a chain loses until it is overdue, 1 to 1,000,000. It loses one when it is first in the
    /// line of one limiter, which has room, and another one has none.
    int passes = 8;

    /// For how long, at the most, a chain that is overdue keeps those behind it waiting at all its limiters,
    /// 1 ns to an hour. If no permit is held for longer, and no rate takes longer to grant what the chain asks
    /// for, its wait is bounded, as `chain` says.
    duration reserve_for = std::chrono::seconds(1);
};

/// Throws `std::invalid_argument`, naming the option, the value and the bound, if one is nonsense.
void validate(chain_options const& options);

}  // namespace weir
