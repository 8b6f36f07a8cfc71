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
#include <optional>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2::detail {

/// The operations and chains that wait for permits of one policy or key, in the order of a queue. In an order that ranks
/// chains, a chain that stands here is a request of its standing. In any other order it goes before all requests that
/// arrived after it; so does, in every order, a chain that reserves its limiters. The line also holds the state of the
/// sweep that walks through the requests. It owns no operation and makes no decision.
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

    /// Prepares for a chain, and adds the chains that are called here to `calls`. Call it before the chain waits. May
    /// throw.
    void prepare(chain_entry& e, call_list& calls) {
        if (!chains_)
            chains_ = std::make_unique<chain_line>(calls);
        if constexpr (may_rank)
            queue_.prepare_chain(e);
        e.is_prepared = true;
    }
    /// Ends what `prepare` began, if it did.
    void forget(chain_entry& e) noexcept {
        if (!std::exchange(e.is_prepared, false))
            return;
        if constexpr (may_rank)
            queue_.forget_chain(e);
    }
    /// Null until the first chain waits.
    [[nodiscard]] chain_line* chains() const noexcept { return chains_.get(); }
    [[nodiscard]] bool has_chains() const noexcept { return chains_ && !chains_->empty(); }
    /// Returns whether a chain waits in this queue.
    [[nodiscard]] bool has_queued_chain() const noexcept { return chains_ && chains_->first(); }

    void enter_queue(chain_entry& e) noexcept {
        if constexpr (may_rank) {
            if (queue_.ranks_chains())
                queue_.push_chain(e);
        }
        chains_->enter_queue(e);
        grow(e.count);
    }
    void leave_queue(chain_entry& e) noexcept {
        if constexpr (may_rank) {
            if (queue_.ranks_chains())
                queue_.erase_chain(e);
        }
        chains_->leave_queue(e);
        shrink(e.count);
    }
    /// Records a grant to a chain that waits, here or elsewhere.
    void grant(chain_entry& e, time_point now) noexcept {
        if constexpr (may_rank) {
            if (!queue_.ranks_chains() || e.count == 0)
                return;
            if (!e.in_queue)
                queue_.push_chain(e);
            queue_.grant_chain(e, now);
            if (!e.in_queue)
                queue_.erase_chain(e);
        }
    }

    /// Returns the request that is next, an operation or a chain, or null.
    [[nodiscard]] queued_request* next(time_point now) const noexcept {
        queued_request* const next = queue_.next(now);
        if (!chains_) [[likely]]
            return next;
        chain_entry* const chain = chain_by_arrival();
        return chain && (!next || chain->number < next->number) ? chain : next;
    }
    /// The next request or chain of a line.
    struct first_request {
        amount count = 0;   // 0 if none waits
        bool held = false;  // it is a chain that was called or is ready: the line does not grant it
    };
    [[nodiscard]] first_request first(time_point now) const noexcept {
        auto const* const first = next(now);
        if (!first)
            return {};
        if (!first->is_chain())
            return {first->count};
        auto const& chain = static_cast<chain_entry const&>(*first);
        bool const is_called = chain.op->called.load(std::memory_order_relaxed);
        return {chain.count, chain.ready || is_called};
    }
    /// Returns whether no request goes before `e`, whether `e` stands here already or not. In every order, an overdue
    /// chain that stands elsewhere goes before all requests that arrived after it.
    [[nodiscard]] bool is_first(chain_entry const& e, time_point now) const noexcept {
        queued_request const* const first = next(now);
        if (e.in_queue)
            return first == &e;
        if constexpr (may_rank) {
            if (queue_.ranks_chains()) {
                auto const* const reserver = chain_by_arrival();
                bool const is_late = e.op->is_overdue && (!first || e.number < first->number);
                return is_late ||
                       ((!reserver || e.number < reserver->number) && queue_.would_be_next(e, now));
            }
        }
        return !first || e.number < first->number;
    }
    /// Returns whether a request here goes before a chain that arrives now. Without a rank it overtakes none.
    [[nodiscard]] bool bars_chain(request const& r, time_point now) const noexcept {
        return ranks_chains() ? bars(r, now) : !empty();
    }
    /// Returns when the request arrived that has waited longest, if one waits.
    [[nodiscard]] std::optional<time_point> waits_since() const noexcept {
        queued_request const* oldest = queue_.oldest();
        chain_entry const* const chain = chains_ ? chains_->first() : nullptr;
        if (chain && (!oldest || chain->number < oldest->number))
            oldest = chain;
        return oldest ? std::optional(oldest->since) : std::nullopt;
    }

    void configure(queue_options const& options) noexcept { queue_.configure(options); }
    void grant(operation& op, amount n, time_point now) noexcept { queue_.grant(op, n, now); }

    /// The queue, if it is a `shares_queue`, which keeps accounts; otherwise null.
    [[nodiscard]] shares_queue* accounts() noexcept { return accounts_of(queue_); }
    [[nodiscard]] shares_queue const* accounts() const noexcept { return accounts_of(queue_); }

    [[nodiscard]] operation* oldest() const noexcept { return queue_.oldest(); }
    [[nodiscard]] operation* newest() const noexcept { return queue_.newest(); }
    [[nodiscard]] operation* after(operation& op) const noexcept { return queue_.after(op); }
    [[nodiscard]] operation* shed(time_point now) noexcept { return queue_.shed(now); }
    [[nodiscard]] time_point next_event(time_point now) const noexcept {
        return queue_.next_event(now);
    }
    [[nodiscard]] bool bars(request const& r, time_point now) const noexcept {
        return size_ != 0 && ((chains_ && chain_by_arrival()) || queue_.bars(r, now));
    }
    /// Returns whether operations are always served in order of arrival.
    [[nodiscard]] bool foresees() const noexcept { return queue_.foresees(); }
    [[nodiscard]] amount ahead_of_new(request const& r, time_point now) const noexcept {
        auto const ahead = queue_.ahead_of_new(r, now);
        return chains_ && !ranks_chains() ? ahead + chains_->asked() : ahead;
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

    /// The last event for all lines that was applied here: see `line_events`.
    std::uint64_t last_event = 0;

private:
    static constexpr bool may_rank = chain_ranking_queue<Queue>;

    [[nodiscard]] bool ranks_chains() const noexcept {
        if constexpr (may_rank)
            return queue_.ranks_chains();
        else
            return false;
    }
    // Returns the chain that stands here and goes before all requests that arrived after it, or null. Call it only if
    // there is a `chain_line`.
    [[nodiscard]] chain_entry* chain_by_arrival() const noexcept {
        if (!ranks_chains())
            return chains_->first();
        auto* const reserver = chains_->reserver;
        return reserver && reserver->in_queue ? reserver : nullptr;
    }

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
