#pragma once

#include <weir/detail/deadline_wheel.hpp>
#include <weir/detail/operation.hpp>
#include <weir/time.hpp>

#include <memory>
#include <utility>

namespace weir::inline v0_2::detail {

/// The deadlines of the waiting operations of a limiter, in a wheel that is allocated for the first of them. All keys
/// of a keyed limiter share one.
class deadlines {
    using wheel = deadline_wheel<operation>;

public:
    /// Prepares for operations with a deadline. Call it before each of them joins. May throw.
    void prepare(time_point now, duration tolerance) {
        if (!wheel_)
            wheel_ = std::make_unique<wheel>(now, tolerance);
    }

    /// Inserts `op`, unless `at` is `never`.
    void insert(operation& op, time_point at) noexcept {
        if (at != never)
            wheel_->insert(op, at);
    }
    static void erase(operation& op) noexcept { wheel::erase(op); }
    /// Replaces the deadline of `op`; `never` removes it.
    void move(operation& op, time_point at) noexcept {
        erase(op);
        insert(op, at);
    }
    /// Puts `by` in the position of `op`.
    static void replace(operation& op, operation& by) noexcept { wheel::replace(op, by); }

    /// Removes each operation whose deadline has passed and passes it to `f`, until `budget` operations were touched.
    template <class F>
    void expire(time_point now, int& budget, F f) {
        if (wheel_)
            wheel_->advance(now, budget, f);
    }
    /// Returns when to look for operations that expire.
    [[nodiscard]] time_point next() noexcept { return wheel_ ? wheel_->next() : never; }

    /// Returns the memory, which is not needed while no operation waits.
    [[nodiscard]] std::unique_ptr<wheel> take_memory() noexcept { return std::move(wheel_); }

private:
    std::unique_ptr<wheel> wheel_;
};

}  // namespace weir::inline v0_2::detail
