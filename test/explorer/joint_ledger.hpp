#pragma once

#include "ledger.hpp"
#include "scenario.hpp"

#include <memory>

namespace explorer {

/// The window in which a sliding log beside seats grants its limit.
inline constexpr duration window_of_a_log(5);

/// The ledger of seats and a sliding log of the same limit, both at once.
[[nodiscard]] std::unique_ptr<ledger> ledger_of_seats_and_log(rule in_force, time_point now);

}  // namespace explorer
