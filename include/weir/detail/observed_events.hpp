#pragma once

#include <weir/detail/operation.hpp>
#include <weir/limiter_name.hpp>
#include <weir/observer.hpp>
#include <weir/time.hpp>

#include <memory>
#include <vector>

namespace weir::inline v0_2::detail {

/// Null if `f` is empty. Throws `std::bad_alloc`.
[[nodiscard]] std::shared_ptr<observer const> shared_observer(observer f);

/// The observer of an actor, and the events that it has not received yet. An event is recorded under the lock, and
/// reported outside it. Requests that leave the queue are not recorded: their operations in the outbox have all data.
class observed_events {
public:
    [[nodiscard]] bool has_observer() const noexcept { return observer_ != nullptr; }
    /// Exchanges the observer, which must be destroyed outside the lock.
    void swap_observer(std::shared_ptr<observer const>& other) noexcept {
        observer_.swap(other);
        if (!observer_)
            events_.clear();
    }

    [[nodiscard]] bool empty() const noexcept { return events_.empty(); }
    /// Records an event. If memory is exhausted, the event is lost.
    void add(request_event const& e) noexcept;

    /// Returns the observer with all recorded events, and removes the events from this object. `name` and `now` hold
    /// for these events and for the operations that have left the queue.
    [[nodiscard]] observed_events take(limiter_name const& name, time_point now) noexcept;

    /// Reports the events, and the operations in `ended` that waited for permits and were not reported before. Call it
    /// outside the lock, on an object that `take` returned. Afterwards this object has neither observer nor events.
    void report(operation_list& ended) noexcept;

private:
    std::shared_ptr<observer const> observer_;
    std::vector<request_event> events_;
    limiter_name name_{};
    time_point now_{};
};

}  // namespace weir::inline v0_2::detail
