#pragma once

#include <weir/time.hpp>

#include <chrono>

namespace weir::inline v0_2::agent::detail {

/// Returns the current time of the clock of agents and their clients, or of another clock.
template <class Clock = std::chrono::steady_clock>
[[nodiscard]] time_point clock_time() noexcept {
    auto const t = Clock::now().time_since_epoch();
    return time_point(std::chrono::duration_cast<duration>(t));
}

}  // namespace weir::inline v0_2::agent::detail
