#pragma once

#include <weir/amount.hpp>
#include <weir/partitions.hpp>
#include <weir/time.hpp>
#include <weir/wait_histogram.hpp>

#include <cstdint>
#include <optional>

namespace weir {

/// What a limiter has done since it was made, and what it is doing: taken at one instant.
struct limiter_stats {
    // Since the limiter was made.

    /// Requests that were granted, how many of them did not wait, and the permits that they were
    /// granted together.
    std::uint64_t granted = 0;
    std::uint64_t granted_at_once = 0;
    amount permits_granted = 0;

    /// Requests that were not granted, by reason: a field for each `errc`, and `cancelled`.
    std::uint64_t no_permit = 0;
    std::uint64_t timed_out = 0;
    std::uint64_t deadline_unreachable = 0;
    std::uint64_t queue_full = 0;
    std::uint64_t shed = 0;
    std::uint64_t exceeds_capacity = 0;
    std::uint64_t closed = 0;
    std::uint64_t too_many_keys = 0;
    std::uint64_t unavailable = 0;
    std::uint64_t cancelled = 0;

    /// How long requests have waited that were granted in the end: all together, and the longest.
    duration waited_total{};
    duration waited_max{};

    /// The same for requests that have waited in vain.
    duration rejected_waited_total{};
    duration rejected_waited_max{};

    /// Permits that were reported to `async_wait_overdue`.
    std::uint64_t overdue = 0;

    // Now.

    /// Requests that wait, how many permits they ask for together, and for how long the first of them has
    /// waited.
    std::uint64_t waiting = 0;
    amount waiting_for = 0;
    duration oldest_wait{};

    /// Permit objects that have not come home, and how many permits they stand for.
    std::uint64_t live = 0;
    amount in_use = 0;

    /// The most that one request can be granted; of adaptive seats, how many there are at the moment.
    amount capacity = 0;

    /// How many permits could be granted at once if no request waited.
    amount remaining = 0;

    /// How many permits are owed: they were taken beyond what was free, by `charge` or `settle`, by a
    /// rule that lends, or before a limit was lowered. While any are owed nothing is granted.
    amount debt = 0;

    /// How long it takes until `capacity` permits could be granted at once, if none is granted meanwhile: a
    /// bucket is full then, and a log is empty. Absent if no time can be named, as for seats that are taken.
    std::optional<duration> reset_after{};
};

/// What a partition of `queue_order::shares` has and asks for, now.
struct share_stats {
    partition who;

    /// How many of the seats that there are now are its own, and how many it holds: beyond its share they are
    /// borrowed.
    amount share = 0;
    amount in_use = 0;

    /// Requests of it that wait, and how many seats they ask for together.
    std::uint64_t waiting = 0;
    amount waiting_for = 0;
};

/// What a pool has done since it was made, and what it is doing: taken at one instant.
struct pool_stats {
    /// The requests for objects; a permit is a lease.
    limiter_stats requests;

    // Objects now. Together they are never more than `pool_options::max`.

    /// Objects that could be checked out, perhaps after a check.
    amount idle = 0;
    /// Objects that are out, those whose completion handler has not been called yet included.
    amount in_use = 0;
    /// Idle ones that are being checked, and new ones that are being made, or wait to be tried again.
    amount being_checked = 0;
    amount being_made = 0;

    // Since the pool was made.

    /// Objects that were made, and attempts to make one that have failed.
    std::uint64_t made = 0;
    std::uint64_t failed = 0;

    /// Objects that are no more: discarded by their holders; found broken by the check; destroyed because
    /// they were too old, idle for too long, or not needed by a pool that was closed.
    std::uint64_t discarded = 0;
    std::uint64_t unhealthy = 0;
    std::uint64_t retired = 0;
};

/// What a keyed limiter has done and is doing.
struct keyed_stats {
    /// Of all keys together. What only one key has is 0: the capacity, what remains, the debt and the
    /// oldest wait.
    limiter_stats total;

    /// How many keys are kept, and in how many bytes, not counting text and waiting rooms.
    std::uint64_t keys = 0;
    std::uint64_t bytes = 0;
};

/// What a limiter, a pool or a keyed limiter has done and is doing, with the waits of the requests that were
/// granted: taken at one instant. Those that were granted at once are not among the waits.
template <class Stats>
struct snapshot {
    Stats stats;
    wait_histogram waits;
};

/// A key that comes often, and how often it has come.
template <class Key>
struct heavy_key {
    Key key;
    /// Requests for it: in truth at most so many, and at least `asked - error`.
    std::uint64_t asked = 0;
    std::uint64_t error = 0;
    /// How many of these were rejected, for whatever reason but cancellation: at least so many, and in truth
    /// at most `error` more.
    std::uint64_t rejected = 0;
};

}  // namespace weir
