#pragma once

#include <weir/amount.hpp>
#include <weir/detail/deadline_wheel.hpp>
#include <weir/detail/fifo.hpp>
#include <weir/detail/operation.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

namespace weir::detail {

/// Those who wait for permits: in the order of a queue, and by their deadlines. It owns nobody.
template <class Queue>
class waiting_line {
public:
    using wheel = deadline_wheel<operation>;

    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

    /// How many permits they ask for together.
    [[nodiscard]] amount asked() const noexcept { return asked_; }
    [[nodiscard]] bool can_ask(amount n) const noexcept {
        return n <= std::numeric_limits<amount>::max() - asked_;
    }

    /// Whether anybody waits, as seen by those who do not have the lock.
    [[nodiscard]] bool hint() const noexcept { return hint_.load(std::memory_order_relaxed); }

    /// Must have been called before somebody joins who has a deadline. May throw.
    void prepare_deadlines(time_point now, duration tolerance) {
        if (!deadlines_)
            deadlines_ = std::make_unique<wheel>(now, tolerance);
    }

    void push(operation& op) noexcept {
        queue_.push(op);
        if (op.deadline != never)
            deadlines_->insert(op, op.deadline);
        ++size_;
        asked_ += op.count;
        hint_.store(true, std::memory_order_relaxed);
    }

    void erase(operation& op) noexcept {
        queue_.erase(op);
        wheel::erase(op);
        --size_;
        asked_ -= op.count;
        hint_.store(size_ != 0, std::memory_order_relaxed);
    }

    [[nodiscard]] operation* next(time_point now) noexcept { return queue_.next(now); }
    [[nodiscard]] operation* oldest() const noexcept { return queue_.oldest(); }
    [[nodiscard]] bool bars(amount n) const noexcept { return size_ != 0 && queue_.bars(n); }

    /// Calls `f(op)` in the order of service until it says false; `f` may erase `op`.
    template <class F>
    void for_each(F f) {
        queue_.for_each(f);
    }

    /// Hands those whose deadline has passed to `expire`, which erases them, until `budget` were
    /// touched.
    template <class F>
    void expire(time_point now, int& budget, F expire) {
        if (deadlines_)
            deadlines_->advance(now, budget, expire);
    }

    /// When to look for those who expire.
    [[nodiscard]] time_point next_deadline() noexcept {
        return deadlines_ ? deadlines_->next() : never;
    }

    /// What need not be kept while nobody waits.
    [[nodiscard]] std::unique_ptr<wheel> take_deadlines() noexcept { return std::move(deadlines_); }

private:
    std::uint64_t size_ = 0;
    amount asked_ = 0;
    std::atomic<bool> hint_ = false;
    Queue queue_;
    std::unique_ptr<wheel> deadlines_;  // while somebody waits who has a deadline
};

}  // namespace weir::detail
