#pragma once

#include <weir/amount.hpp>
#include <weir/detail/deadline_wheel.hpp>
#include <weir/detail/list.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <memory>

namespace weir::detail {

class operation;

/// The link between an operation and whoever may cancel it. Both ends are guarded by the lock of the
/// core, so that either may go first.
struct cancel_link {
    operation* target = nullptr;
};

struct in_line;

/// Somebody who waits: a completion handler that has been put aside, with what it waits for and, in
/// the end, what it gets. The core owns it from the moment it is queued until it has been handed over
/// for completion. Derived classes know the handler.
class operation : public list_hook<in_line>, public wheel_hook {
public:
    enum class place : std::uint8_t { nowhere, queue, draining };

    // What is asked for.
    amount count = 0;
    time_point deadline = never;

    // Kept by the core, under its lock.
    time_point since{};
    std::uint64_t number = 0;  // in the order of arrival
    cancel_link* canceller = nullptr;
    bool cancelled = false;  // before it was queued
    place at = place::nowhere;

    // What the handler gets.
    error_code error;
    permit granted;

    /// Arranges for the handler to be called, on its own executor and not from here; this object is
    /// then gone. False if that executor drops it, as its context is ending: then it still has to be
    /// destroyed. May throw, leaving everything as it was.
    [[nodiscard]] virtual bool post() = 0;

    /// Whether the handler may be called from a step of the core: its executor is the limiter's.
    [[nodiscard]] virtual bool runs_in_step() const noexcept = 0;

    /// Calls the handler, after this object and its memory have gone.
    virtual void run() = 0;

    /// Destroys this object and the handler, which is not called.
    virtual void destroy() noexcept = 0;

protected:
    operation() = default;
    ~operation() = default;
};

struct destroy_operation {
    void operator()(operation* op) const noexcept { op->destroy(); }
};

/// Owns an operation that is in no list.
using operation_ptr = std::unique_ptr<operation, destroy_operation>;

/// Operations in a line of which this is the owner.
class operation_line : public list<operation, in_line> {
public:
    operation_line() = default;
    operation_line(operation_line&&) = default;
    ~operation_line() {
        while (!empty())
            pop_front().destroy();
    }
};

/// Destroys the operations in `line`. That may bring on that more of them have to be destroyed, from
/// in there; it is the outermost call that sees to those, so that the stack does not grow.
inline void destroy_one_by_one(operation_line& line) noexcept {
    static thread_local constinit operation_line* outermost = nullptr;
    if (outermost) {
        outermost->append(line);
        return;
    }
    outermost = &line;
    while (!line.empty())
        line.pop_front().destroy();
    outermost = nullptr;
}

}  // namespace weir::detail
