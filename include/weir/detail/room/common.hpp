#pragma once

#include <weir/amount.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/gate.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/random.hpp>
#include <weir/detail/room/deadlines.hpp>
#include <weir/detail/room/places.hpp>
#include <weir/detail/wait_recorder.hpp>
#include <weir/queue_options.hpp>

#include <atomic>
#include <cstdint>

namespace weir::detail {

/// The parts of a limiter that all its waiting rooms share: a limiter has one room, and a keyed limiter a room for each
/// key with waiting requests.
struct common_parts {
    explicit common_parts(queue_options const& options) noexcept : queueing(options) {}

    /// Waiting operations are numbered in order of arrival, from 1 on.
    [[nodiscard]] std::uint64_t take_number() noexcept { return next_number++; }

    /// The requests in all queues, and the permits for which they ask.
    [[nodiscard]] std::uint64_t waiting() const noexcept { return waiting_; }
    [[nodiscard]] amount waiting_for() const noexcept { return waiting_for_; }
    /// Returns whether a request waits, as seen without the lock: perhaps out of date.
    [[nodiscard]] bool perhaps_waiting() const noexcept {
        return perhaps_waiting_.load(std::memory_order_relaxed);
    }

    void count_arrival(amount n) noexcept {
        ++waiting_;
        waiting_for_ += n;
        perhaps_waiting_.store(true, std::memory_order_relaxed);
    }
    void count_departure(amount n) noexcept {
        --waiting_;
        waiting_for_ -= n;
        perhaps_waiting_.store(waiting_ != 0, std::memory_order_relaxed);
    }

    queue_options queueing;
    std::uint64_t next_number = 1;
    detail::deadlines deadlines;
    detail::places places;
    operation_list outbox;  // operations that have left, with their outcomes
    call_list calls;        // chains that were called, and are owed a claim
    wait_recorder waits;
    detail::jitter jitter;

private:
    std::uint64_t waiting_ = 0;
    amount waiting_for_ = 0;
    std::atomic<bool> perhaps_waiting_ = false;
};

/// Where a waiting room has the common parts, and the parts of its gate: in itself, or outside.
struct own_parts {
    using common = common_parts;
    using of_gate = gate_parts;
};
struct shared_parts {
    using common = common_parts&;
    using of_gate = gate_parts&;
};

}  // namespace weir::detail
