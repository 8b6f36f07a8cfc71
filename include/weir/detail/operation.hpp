#pragma once

#include <weir/amount.hpp>
#include <weir/detail/deadline_wheel.hpp>
#include <weir/detail/list.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <utility>

namespace weir::inline v0_2::detail {

class chain_core;
class operation;

/// The link between an operation and its canceller. The lock of `core` guards both ends, so either may be destroyed
/// first. `core` changes only while the operation begins.
struct cancel_link {
    operation* target = nullptr;
    std::weak_ptr<chain_core> core = {};
};

struct in_line;
struct in_group;
struct fair_group;

/// A request that waits, as an order sees it: an operation, or the entry of a chain.
struct queued_request {
    /// Where it waits.
    enum class place : std::uint8_t {
        nowhere,   // not yet, or no longer, in the room
        queue,     // for permits
        draining,  // for the release of all permits
        watching,  // for an event that the policy reports
        chained,   // for permits of several limiters, in the queue of one of them
    };

    amount count = 0;
    union {
        std::uint64_t flow = 0;
        fair_group* group;  // instead, while it is in a `fair_queue`
    };
    time_point since{};        // the arrival
    std::uint64_t number = 0;  // in order of arrival
    std::uint8_t priority : 3 = 0;
    std::uint8_t more_weight : 5 = 0;  // above the default
    place at = place::nowhere;

    [[nodiscard]] int weight() const noexcept { return more_weight + standing().weight; }
    [[nodiscard]] bool is_chain() const noexcept { return at == place::chained; }

    void take_standing(request const& r) noexcept {
        flow = r.flow();
        priority = r.priority() & last_priority;
        more_weight = (r.weight() - standing().weight) & (max_weight - 1);
    }

protected:
    queued_request() = default;
    queued_request(queued_request const&) = delete;
    queued_request& operator=(queued_request const&) = delete;
    ~queued_request() = default;
};

/// A stored completion handler with the request that it waits for and, at the end, its outcome. The core owns it from
/// the moment it is queued until it is posted. Derived classes know the handler.
class operation
    : public list_hook<in_line>,
      public list_hook<in_group>,
      public wheel_hook,
      public queued_request {
public:
    // Kept by the room, under the lock.
    std::uint8_t account = 0;         // of a `shares_queue`
    bool cancelled = false;           // before it was queued
    std::uint32_t seen_by_sweep = 0;  // the last sweep that examined it
    cancel_link* canceller = nullptr;
    amount more = 0;  // of the request, above `count`, if they are available

    // The outcome for the handler.
    error_code error;
    permit granted;

    void ask_for(request const& r) noexcept {
        count = r.count();
        more = r.max() - r.count();
        take_standing(r);
    }
    /// Call it only while the operation is in no queue.
    [[nodiscard]] request asked_for() const noexcept {
        return {count, {.priority = priority, .flow = flow, .weight = weight()}};
    }

    /// Returns the request with its maximum; call it only while the operation is in no queue.
    [[nodiscard]] request asked_in_full() const noexcept {
        return more == 0 ? asked_for() : request::between(count, count + more, priority);
    }

    /// Copies the request and the arrival time of `other`, which waits.
    void come_as(operation const& other) noexcept {
        count = other.count;
        more = other.more;
        flow = other.flow;
        since = other.since;
        number = other.number;
        seen_by_sweep = other.seen_by_sweep;
        at = other.at;
        priority = other.priority;
        more_weight = other.more_weight;
    }

    /// Makes another core decide on it. Call it before it waits, without a lock.
    void move_to(std::shared_ptr<chain_core> const& core) noexcept {
        error = {};
        if (canceller)
            canceller->core = core;
    }
    /// Ends the possibility of a cancellation. Call it under the lock.
    void detach() noexcept {
        if (canceller)
            std::exchange(canceller, nullptr)->target = nullptr;
    }
    /// Ends the operation with this outcome. Call it under the lock.
    void end(error_code ec) noexcept {
        error = ec;
        detach();
    }

    /// Posts a call of the handler to its executor, never from inside this function. After that the object is gone.
    /// Returns false if the executor dropped the call, because its context ends: then the object must still be
    /// destroyed. Throws the executor's exception if the executor has not kept the call: then nothing has changed.
    [[nodiscard]] virtual bool post() = 0;

    /// Calls the handler, after this object and its memory were destroyed.
    virtual void run() = 0;

    /// Destroys this object and the handler, without a call.
    virtual void destroy() noexcept = 0;

protected:
    operation() = default;
    ~operation() = default;
};

/// An operation that waits for an event that the policy reports.
template <class Found>
class watch_operation : public operation {
public:
    Found found{};

protected:
    watch_operation() = default;
    ~watch_operation() = default;
};
using overdue_operation = watch_operation<overdue>;

struct destroy_operation {
    void operator()(operation* op) const noexcept { op->destroy(); }
};

/// A list of operations that owns them.
class operation_list : public list<operation, in_line> {
public:
    operation_list() = default;
    operation_list(operation_list&&) = default;
    ~operation_list() {
        while (!empty())
            pop_front().destroy();
    }
};

}  // namespace weir::inline v0_2::detail
