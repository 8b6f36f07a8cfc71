#pragma once

#include <weir/amount.hpp>
#include <weir/limiter_name.hpp>
#include <weir/partitions.hpp>
#include <weir/time.hpp>
#include <weir/wait_histogram.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace weir::inline v0_2 {

/// The counters of a limiter since construction and its current state, all of one instant.
struct limiter_stats {
    /// The name of the limiter: `queue_options::name`.
    limiter_name name{};

    // Since construction.

    /// Granted requests.
    std::uint64_t granted = 0;
    /// Requests that were granted immediately.
    std::uint64_t granted_immediately = 0;
    /// Permits of all granted requests.
    amount permits_granted = 0;

    // Requests that were not granted, by reason: a field for each `errc`, and `cancelled`.

    /// Requests rejected with `errc::no_permit`.
    std::uint64_t no_permit = 0;
    /// Requests rejected with `errc::timed_out`.
    std::uint64_t timed_out = 0;
    /// Requests rejected with `errc::deadline_unreachable`.
    std::uint64_t deadline_unreachable = 0;
    /// Requests rejected with `errc::queue_full`.
    std::uint64_t queue_full = 0;
    /// Requests rejected with `errc::shed`.
    std::uint64_t shed = 0;
    /// Requests rejected with `errc::exceeds_capacity`.
    std::uint64_t exceeds_capacity = 0;
    /// Requests rejected with `errc::closed`.
    std::uint64_t closed = 0;
    /// Requests rejected with `errc::too_many_keys`.
    std::uint64_t too_many_keys = 0;
    /// Requests rejected with `errc::unavailable` or `errc::misconfigured`.
    std::uint64_t unavailable = 0;
    /// Requests that were cancelled.
    std::uint64_t cancelled = 0;

    // Requests that passed in a dry run, see `queue_options::dry_run`. They count in no other field.

    /// Requests that would have been rejected.
    std::uint64_t would_reject = 0;
    /// Requests that would have had to wait.
    std::uint64_t would_wait = 0;

    /// The sum of the wait times of granted requests.
    duration waited_total{};
    /// The longest wait time of a granted request.
    duration waited_max{};

    /// The sum of the wait times of requests that waited and were not granted.
    duration rejected_waited_total{};
    /// The longest wait time of a request that waited and was not granted.
    duration rejected_waited_max{};

    /// Permits that `async_wait_overdue` reported.
    std::uint64_t overdue = 0;

    // Now.

    /// Waiting requests.
    std::uint64_t waiting = 0;
    /// Permits for which all waiting requests together ask.
    amount waiting_for = 0;
    /// Wait time of the first waiting request.
    duration oldest_wait{};

    /// Permit objects that are not released.
    std::uint64_t live = 0;
    /// Permits in use.
    amount in_use = 0;

    /// The most permits that one request can be granted; for adaptive seats, their current number.
    amount capacity = 0;

    /// Permits that the limiter could grant now if no request waited.
    amount remaining = 0;

    /// Permits that were taken beyond the free ones: by `charge` or `settle`, by a rule that lends, or before a limit
    /// was lowered. While the debt lasts, the limiter grants none.
    amount debt = 0;

    /// The time until `capacity` permits could be granted immediately, if none is granted before: then a bucket is full
    /// and a log is empty. Absent if it is unknown, as for seats in use.
    std::optional<duration> reset_after{};

    /// The time for which the limiter is still paused, see `pause_until`; 0 if it is not paused.
    duration paused_for{};

    /// Adds the counters, the waiting requests and the permits in use of another limiter. The fields that only a single
    /// limiter has do not change: the oldest wait, the fields from `capacity` on, and the name, unless it is empty.
    limiter_stats& operator+=(limiter_stats const& other) noexcept;
};

inline limiter_stats& limiter_stats::operator+=(limiter_stats const& other) noexcept {
    if (name.empty())
        name = other.name;
    granted += other.granted;
    granted_immediately += other.granted_immediately;
    permits_granted += other.permits_granted;
    no_permit += other.no_permit;
    timed_out += other.timed_out;
    deadline_unreachable += other.deadline_unreachable;
    queue_full += other.queue_full;
    shed += other.shed;
    exceeds_capacity += other.exceeds_capacity;
    closed += other.closed;
    too_many_keys += other.too_many_keys;
    unavailable += other.unavailable;
    cancelled += other.cancelled;
    would_reject += other.would_reject;
    would_wait += other.would_wait;
    waited_total += other.waited_total;
    waited_max = std::max(waited_max, other.waited_max);
    rejected_waited_total += other.rejected_waited_total;
    rejected_waited_max = std::max(rejected_waited_max, other.rejected_waited_max);
    overdue += other.overdue;
    waiting += other.waiting;
    waiting_for += other.waiting_for;
    live += other.live;
    in_use += other.in_use;
    return *this;
}

/// The current state of a partition of `queue_order::shares`.
struct share_stats {
    /// The name and the percentage of the partition.
    weir::partition partition;

    /// Seats of the partition, from the current number of seats.
    amount share = 0;
    /// Seats in use by the partition; seats beyond `share` are borrowed.
    amount in_use = 0;

    /// Waiting requests of the partition.
    std::uint64_t waiting = 0;
    /// Seats for which these requests together ask.
    amount waiting_for = 0;
};

/// The counters of a pool since construction and its current state, all of one instant.
struct pool_stats {
    /// The requests for objects; a permit is a lease.
    limiter_stats requests;

    // Objects now: at most `pool_options::max` together.

    /// Objects that can be checked out, some of them after a check.
    amount idle = 0;
    /// Objects on loan, including objects whose completion handler has not been called yet.
    amount in_use = 0;
    /// Idle objects that are being checked.
    amount being_checked = 0;
    /// Objects that are being created, including pauses before another attempt.
    amount being_created = 0;

    // Since construction.

    /// Objects that were created.
    std::uint64_t created = 0;
    /// Failed attempts to create an object.
    std::uint64_t failed = 0;

    /// Objects that their holders discarded.
    std::uint64_t discarded = 0;
    /// Objects that failed their check.
    std::uint64_t unhealthy = 0;
    /// Objects that were destroyed because they were too old, idle too long, more than a lower `max`, or not needed by a
    /// closed pool.
    std::uint64_t retired = 0;
};

/// The counters of a keyed limiter since construction and its current state.
struct keyed_stats {
    /// All keys together. The fields that only a single key has are 0: capacity, remaining, debt and oldest wait.
    limiter_stats total;

    /// Keys that the limiter keeps.
    std::uint64_t keys = 0;
    /// Memory of the keys in bytes: of the table, and the heap memory of the states. Without texts and queues.
    std::uint64_t bytes = 0;
    /// Keys whose place a new key took, as `keyed_options::evict_within` permits it.
    std::uint64_t evicted = 0;

    /// Adds the counters and the state of other keys.
    keyed_stats& operator+=(keyed_stats const& other) noexcept {
        total += other.total;
        keys += other.keys;
        bytes += other.bytes;
        evicted += other.evicted;
        return *this;
    }
};

/// The current state of one key of a keyed limiter. Requests in the past are not counted by key.
struct key_stats {
    /// Waiting requests.
    std::uint64_t waiting = 0;
    /// Permits for which all waiting requests together ask.
    amount waiting_for = 0;
    /// Wait time of the first waiting request.
    duration oldest_wait{};

    /// The most permits that one request can be granted; for adaptive seats, their current number.
    amount capacity = 0;
    /// Permits that could be granted now if no request waited.
    amount remaining = 0;
    /// Permits that were taken beyond the free ones, as in `limiter_stats`.
    amount debt = 0;
    /// The time until `capacity` permits could be granted immediately, if none is granted before. Absent if it is
    /// unknown, as for seats in use.
    std::optional<duration> reset_after{};
    /// The time for which the limiter is still paused; 0 if it is not paused.
    duration paused_for{};
};

/// The statistics of a limiter, a pool or a keyed limiter, with the wait times of granted requests, all of one instant;
/// of a keyed limiter each shard is of one instant. Immediate grants are not in the wait times.
template <class Stats>
struct snapshot {
    /// The counters and the state: `limiter_stats`, `pool_stats` or `keyed_stats`.
    Stats stats;
    /// The wait times of granted requests that waited.
    wait_histogram waits;
};

/// A frequent key, and the number of its requests.
template <class Key>
struct heavy_key {
    /// A copy of the key.
    Key key;
    /// Requests for the key: the true number is at most `requests`, and at least `requests - error`.
    std::uint64_t requests = 0;
    /// The largest possible error of `requests` and `rejected`.
    std::uint64_t error = 0;
    /// Rejected requests for the key, for any reason but cancellation: the true number is at least `rejected`, and at
    /// most `rejected + error`.
    std::uint64_t rejected = 0;
};

}  // namespace weir::inline v0_2
