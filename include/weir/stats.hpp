#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <cstdint>

namespace weir {

/// What a limiter has done and is doing, taken at one instant.
struct stats {
    // Since the limiter was made.

    /// Requests that were granted, and how many of these did not wait.
    std::uint64_t granted = 0;
    std::uint64_t granted_at_once = 0;

    /// Requests that were not granted, by reason: a field for each `errc`, and `cancelled`.
    std::uint64_t limited = 0;
    std::uint64_t timed_out = 0;
    std::uint64_t deadline_unreachable = 0;
    std::uint64_t queue_full = 0;
    std::uint64_t shed = 0;
    std::uint64_t exceeds_capacity = 0;
    std::uint64_t closed = 0;
    std::uint64_t cancelled = 0;

    /// How long those who were granted a permit have waited for it, all together and at most.
    duration waited_total{};
    duration waited_max{};

    /// Permits that were reported as held for too long.
    std::uint64_t overdue = 0;

    // Now.

    /// Callers who wait, how much they ask for together, and how long the one at the head has waited.
    std::uint64_t waiting = 0;
    amount waiting_for = 0;
    duration oldest_wait{};

    /// Permit objects that have not been given back.
    std::uint64_t live = 0;

    /// What could be granted at once if nobody waited.
    amount remaining = 0;
};

}  // namespace weir
