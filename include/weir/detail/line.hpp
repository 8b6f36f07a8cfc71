#pragma once

#include <weir/amount.hpp>
#include <weir/detail/arrival_queue.hpp>
#include <weir/detail/chain/line.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/room/sweep.hpp>
#include <weir/detail/shares_queue.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2::detail {

/// The operations that wait for permits of one policy or key, in the order of a queue. Beside the queue it holds the
/// chains that stand here: each goes before all requests that arrived after it. It also holds the state of the sweep
/// that walks through them. It owns no operation and makes no decision.
template <class Queue>
class line {
public:
    explicit line(queue_options const& options = {}) : queue_(options) {}
    line(line const&) = delete;
    line& operator=(line const&) = delete;

    /// Returns whether neither a request nor a chain waits here.
    [[nodiscard]] bool is_idle() const noexcept { return empty() && !has_chains(); }

    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

    /// The sum of the permits that they ask for.
    [[nodiscard]] amount asked() const noexcept { return asked_; }

    /// Prepares for `op`. Call it before `op` joins. May throw.
    void prepare(operation const& op) { queue_.prepare(op); }

    void push(operation& op) noexcept {
        queue_.push(op);
        grow(op.count);
    }

    void erase(operation& op) noexcept {
        if (next_swept_ == &op)
            next_swept_ = queue_.after(op);
        queue_.erase(op);
        shrink(op.count);
    }

    /// Puts `by`, which makes an equal request, in the position of `op`.
    void replace(operation& op, operation& by) noexcept {
        if (next_swept_ == &op)
            next_swept_ = &by;
        queue_.replace(op, by);
    }

    // Chains.

    /// Prepares for chains, and adds the chains that are called here to `calls`. Call it before the first waits. May
    /// throw.
    void prepare_chains(call_list& calls) {
        if (!chains_)
            chains_ = std::make_unique<chain_line>(calls);
    }
    /// Null until the first chain waits.
    [[nodiscard]] chain_line* chains() const noexcept { return chains_.get(); }
    [[nodiscard]] bool has_chains() const noexcept { return chains_ && !chains_->empty(); }

    void enter_queue(chain_entry& e) noexcept {
        chains_->enter_queue(e);
        grow(e.count);
    }
    void leave_queue(chain_entry& e) noexcept {
        chains_->leave_queue(e);
        shrink(e.count);
    }
    /// Returns the first chain that stands here, if it goes before `next`, which is the next operation of the queue
    /// or null; otherwise null.
    [[nodiscard]] chain_entry* chain_before(operation const* next) const noexcept {
        if (!chains_) [[likely]]
            return nullptr;
        chain_entry* const first = chains_->first();
        return first && (!next || first->number < next->number) ? first : nullptr;
    }
    /// The next request or chain of a line.
    struct first_request {
        amount count = 0;   // 0 if none waits
        bool held = false;  // it is a chain that was called or is ready: the line does not grant it
    };
    [[nodiscard]] first_request first(time_point now) noexcept {
        auto const* const next = queue_.next(now);
        if (auto const* const chain = chain_before(next)) {
            bool const is_called = chain->op->called.load(std::memory_order_relaxed);
            return {chain->count, chain->ready || is_called};
        }
        return {next ? next->count : 0};
    }
    /// Returns whether no request goes before `e`, whether `e` stands here already or not.
    [[nodiscard]] bool is_first(chain_entry const& e, time_point now) noexcept {
        auto const* const first = chains_->first();
        auto const* const next = queue_.next(now);
        return (!first || first->number >= e.number) && (!next || e.number < next->number);
    }

    void configure(queue_options const& options) noexcept { queue_.configure(options); }
    void grant(operation& op, amount n, time_point now) noexcept { queue_.grant(op, n, now); }

    /// The queue, if it is a `shares_queue`, which keeps accounts; otherwise null.
    [[nodiscard]] shares_queue* accounts() noexcept { return accounts_of(queue_); }
    [[nodiscard]] shares_queue const* accounts() const noexcept { return accounts_of(queue_); }

    [[nodiscard]] operation* next(time_point now) noexcept { return queue_.next(now); }
    [[nodiscard]] operation* oldest() const noexcept { return queue_.oldest(); }
    [[nodiscard]] operation* after(operation& op) const noexcept { return queue_.after(op); }
    [[nodiscard]] operation* shed(time_point now) noexcept { return queue_.shed(now); }
    [[nodiscard]] time_point next_event(time_point now) const noexcept {
        return queue_.next_event(now);
    }
    [[nodiscard]] bool bars(request const& r, time_point now) const noexcept {
        return size_ != 0 && (chain_before(nullptr) || queue_.bars(r, now));
    }
    /// Returns whether operations are always served in order of arrival.
    [[nodiscard]] bool foresees() const noexcept { return queue_.foresees(); }
    [[nodiscard]] amount ahead_of_new(request const& r, time_point now) const noexcept {
        return queue_.ahead_of_new(r, now) + (chains_ ? chains_->asked() : 0);
    }
    [[nodiscard]] operation* makes_way(request const& r, operation* previous) const noexcept {
        return queue_.makes_way(r, previous);
    }

    // The walk of the sweep.

    [[nodiscard]] detail::sweep& sweep() noexcept { return sweep_; }
    [[nodiscard]] detail::sweep const& sweep() const noexcept { return sweep_; }
    [[nodiscard]] bool is_sweeping() const noexcept { return sweep_.is_under_way(); }

    /// Makes `step_sweep` begin with the oldest operation.
    void begin_sweep() noexcept {
        next_swept_ = queue_.oldest();
        if (chains_)
            chains_->begin_sweep();
    }

    /// Returns the next operation of the sweep, or null at its end. This operation, and any other, may be erased.
    [[nodiscard]] operation* step_sweep() noexcept {
        operation* const op = next_swept_;
        if (op)
            next_swept_ = queue_.after(*op);
        return op;
    }

    /// Returns whether the sweep has ended: it does not examine operations that join later.
    [[nodiscard]] bool is_swept() const noexcept {
        return !next_swept_ && (!chains_ || chains_->is_swept());
    }

    std::uint64_t epoch =
        0;  // the last event for all lines that was applied here: see `line_events`

private:
    void grow(amount n) noexcept {
        ++size_;
        asked_ += n;
    }
    void shrink(amount n) noexcept {
        --size_;
        asked_ -= n;
    }

    template <class Any>
    [[nodiscard]] static auto accounts_of(Any& queue) noexcept {
        if constexpr (std::is_same_v<Queue, shares_queue>)
            return &queue;
        else if constexpr (requires { queue.accounts(); })
            return queue.accounts();
        else
            return nullptr;
    }

    std::uint64_t size_ = 0;
    amount asked_ = 0;
    Queue queue_;
    detail::sweep sweep_;
    operation* next_swept_ = nullptr;
    std::unique_ptr<chain_line> chains_;
};

}  // namespace weir::inline v0_2::detail
