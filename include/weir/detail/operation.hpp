#pragma once

#include <weir/amount.hpp>
#include <weir/detail/deadline_wheel.hpp>
#include <weir/detail/list.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/policy/policy.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace weir::detail {

class operation;

/// The link between an operation and its canceller. The lock of the core guards both ends, so that
/// either may go first.
struct cancel_link {
    operation* target = nullptr;
};

struct in_line;
struct in_group;
struct fair_group;

/// A completion handler that has been put aside, with what it waits for and, in the end, what it gets.
/// The core owns it from the moment it is queued until it has been posted. Derived classes know the
/// handler.
class operation : public list_hook<in_line>, public list_hook<in_group>, public wheel_hook {
public:
    enum class place : std::uint8_t {
        nowhere,   // not yet, or no longer, in the waiting room
        queue,     // for permits
        draining,  // for all permits to come home
        watching,  // for what the policy tells of
        chained,   // for permits of several limiters, in the line of one of them
    };

    // What is asked for.
    amount count = 0;
    amount more = 0;  // above `count`, if they are there
    union {
        std::uint64_t flow = 0;
        fair_group* group;  // instead, while a `fair_queue` has it
    };

    // Kept by the waiting room, under the lock.
    time_point since{};
    std::uint64_t number = 0;  // in the order of arrival
    cancel_link* canceller = nullptr;
    std::uint32_t seen_by_sweep = 0;  // the last sweep that has looked at it
    bool cancelled = false;           // before it was queued
    place at = place::nowhere;
    std::uint8_t priority = 0;
    std::uint8_t account = 0;  // of a `shares_queue`

    // What the handler gets.
    error_code error;
    permit granted;

    void ask_for(request const& r) noexcept {
        count = r.count();
        more = r.max() - r.count();
        flow = r.flow();
        priority = static_cast<std::uint8_t>(r.priority());
    }
    /// Not while it is in a queue.
    [[nodiscard]] request asked_for() const noexcept {
        return {count, {.priority = priority, .flow = flow}};
    }

    /// Asks for the same as `other`, which waits, as if it had come then.
    void come_as(operation const& other) noexcept {
        count = other.count;
        more = other.more;
        flow = other.flow;
        since = other.since;
        number = other.number;
        seen_by_sweep = other.seen_by_sweep;
        at = other.at;
        priority = other.priority;
    }

    /// It can no longer be cancelled: under the lock.
    void detach() noexcept {
        if (canceller)
            std::exchange(canceller, nullptr)->target = nullptr;
    }
    /// It is over, with this outcome: under the lock.
    void end(error_code ec) noexcept {
        error = ec;
        detach();
    }

    /// Has the handler called later, on its own executor and not from here; this object is then gone.
    /// False if the executor has dropped it, because its context ends: then it still has to be
    /// destroyed. Throws what the executor throws if the executor has not kept it: then nothing has
    /// changed.
    [[nodiscard]] virtual bool post() = 0;

    /// Calls the handler, after this object and its memory have gone.
    virtual void run() = 0;

    /// Destroys this object and the handler, which is not called.
    virtual void destroy() noexcept = 0;

protected:
    operation() = default;
    ~operation() = default;
};

/// An operation that waits for something that the policy tells of.
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

/// Owns an operation that is in no list.
using operation_ptr = std::unique_ptr<operation, destroy_operation>;

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

}  // namespace weir::detail
