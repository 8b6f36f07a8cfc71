#pragma once

#include <weir/amount.hpp>
#include <weir/detail/arrival_queue.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/shares_queue.hpp>
#include <weir/detail/time_orders.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <memory>

namespace weir::inline v0_2::detail {

/// A queue of an order that groups the requests: `priority`, `fair` or `shares`. Its contract is at `arrival_queue`.
class grouped_queue {
public:
    grouped_queue() = default;
    grouped_queue(grouped_queue const&) = delete;
    grouped_queue& operator=(grouped_queue const&) = delete;
    virtual ~grouped_queue() = default;

    virtual void configure(queue_options const& options) noexcept = 0;
    virtual void prepare(operation const& op) = 0;
    virtual void push(operation& op) noexcept = 0;
    virtual void erase(operation& op) noexcept = 0;
    virtual void replace(operation& op, operation& by) noexcept = 0;
    virtual void grant(operation& op, amount n, time_point now) noexcept = 0;
    [[nodiscard]] virtual bool empty() const noexcept = 0;
    [[nodiscard]] virtual bool ranks_chains() const noexcept = 0;
    virtual void prepare_chain(chain_entry const& e) = 0;
    virtual void forget_chain(chain_entry const& e) noexcept = 0;
    virtual void push_chain(chain_entry& e) noexcept = 0;
    virtual void erase_chain(chain_entry& e) noexcept = 0;
    virtual void grant_chain(chain_entry const& e, time_point now) noexcept = 0;
    [[nodiscard]] virtual bool would_be_next(chain_entry const& e,
                                             time_point now) const noexcept = 0;
    [[nodiscard]] virtual queued_request* next(time_point now) const noexcept = 0;
    [[nodiscard]] virtual operation* oldest() const noexcept = 0;
    [[nodiscard]] virtual operation* newest() const noexcept = 0;
    [[nodiscard]] virtual operation* after(operation& op) const noexcept = 0;
    [[nodiscard]] virtual bool bars(request const& r, time_point now) const noexcept = 0;
    [[nodiscard]] virtual bool foresees() const noexcept = 0;
    [[nodiscard]] virtual amount ahead_of_new(request const& r, time_point now) const noexcept = 0;
    [[nodiscard]] virtual operation* makes_way(request const& r,
                                               operation* previous) const noexcept = 0;
    [[nodiscard]] virtual operation* shed(time_point now) noexcept = 0;
    [[nodiscard]] virtual time_point next_event(time_point now) const noexcept = 0;
    /// Null, except for `shares`.
    [[nodiscard]] virtual shares_queue* accounts() noexcept = 0;
};

/// The queue for the order that the options name at run time. The parts that only `priority` and `fair` need are
/// allocated when the first request joins under such an order; a change from or to these orders waits until the queue
/// is empty, and no chain waits that may join. The order `shares` exists from construction or never.
class any_queue {
public:
    explicit any_queue(queue_options const& options = {});

    static void check(queue_options const&) noexcept {}
    static void check_change(queue_options const& before, queue_options const& next) {
        detail::check_change(before.order, next.order);
    }
    [[nodiscard]] static bool can_use(queue_options const& options, request const& r) noexcept;

    void configure(queue_options const& options) noexcept;
    void prepare(operation const& op) {
        if (grouped_ || is_grouped(wanted_)) [[unlikely]] {
            select_group();
            if (grouped_)
                grouped_->prepare(op);
        }
    }
    void push(operation& op) noexcept { return grouped_ ? grouped_->push(op) : plain_.push(op); }
    void erase(operation& op) noexcept { return grouped_ ? grouped_->erase(op) : plain_.erase(op); }
    void replace(operation& op, operation& by) noexcept {
        return grouped_ ? grouped_->replace(op, by) : plain_.replace(op, by);
    }
    void grant(operation& op, amount n, time_point now) noexcept {
        return grouped_ ? grouped_->grant(op, n, now) : plain_.grant(op, n, now);
    }

    // Chains. Unless `ranks_chains`, only `prepare_chain` and `forget_chain` may be called.

    [[nodiscard]] bool ranks_chains() const noexcept {
        return grouped_ && grouped_->ranks_chains();
    }
    void prepare_chain(chain_entry const& e) {
        select_group();
        if (ranks_chains())
            grouped_->prepare_chain(e);
        ++chains_;
    }
    void forget_chain(chain_entry const& e) noexcept {
        --chains_;
        if (ranks_chains())
            grouped_->forget_chain(e);
    }
    void push_chain(chain_entry& e) noexcept { grouped_->push_chain(e); }
    void erase_chain(chain_entry& e) noexcept { grouped_->erase_chain(e); }
    void grant_chain(chain_entry const& e, time_point now) noexcept {
        grouped_->grant_chain(e, now);
    }
    [[nodiscard]] bool would_be_next(chain_entry const& e, time_point now) const noexcept {
        return grouped_->would_be_next(e, now);
    }

    [[nodiscard]] bool empty() const noexcept {
        return grouped_ ? grouped_->empty() : plain_.empty();
    }
    [[nodiscard]] queued_request* next(time_point now) const noexcept {
        if (grouped_)
            return grouped_->next(now);
        return plain_.next(now);
    }
    [[nodiscard]] operation* oldest() const noexcept {
        return grouped_ ? grouped_->oldest() : plain_.oldest();
    }
    [[nodiscard]] operation* newest() const noexcept {
        return grouped_ ? grouped_->newest() : plain_.newest();
    }
    [[nodiscard]] operation* after(operation& op) const noexcept {
        return grouped_ ? grouped_->after(op) : plain_.after(op);
    }
    [[nodiscard]] bool bars(request const& r, time_point now) const noexcept {
        return grouped_ ? grouped_->bars(r, now) : plain_.bars(r, now);
    }
    [[nodiscard]] bool foresees() const noexcept {
        return grouped_ ? grouped_->foresees() : plain_.foresees();
    }
    [[nodiscard]] amount ahead_of_new(request const& r, time_point now) const noexcept {
        return grouped_ ? grouped_->ahead_of_new(r, now) : plain_.ahead_of_new(r, now);
    }
    [[nodiscard]] operation* makes_way(request const& r, operation* previous) const noexcept {
        return grouped_ ? grouped_->makes_way(r, previous) : plain_.makes_way(r, previous);
    }
    [[nodiscard]] operation* shed(time_point now) noexcept {
        return grouped_ ? grouped_->shed(now) : plain_.shed(now);
    }
    [[nodiscard]] time_point next_event(time_point now) const noexcept {
        return grouped_ ? grouped_->next_event(now) : plain_.next_event(now);
    }
    [[nodiscard]] shares_queue* accounts() const noexcept {
        return grouped_ ? grouped_->accounts() : nullptr;
    }

private:
    [[nodiscard]] static bool is_grouped(queue_order order) noexcept {
        return order == queue_order::priority || order == queue_order::fair ||
               order == queue_order::shares;
    }
    /// Changes the order if a change is due and possible. May throw.
    void select_group();

    arrival_queue<order::any> plain_;
    duration ageing_{};
    queue_order wanted_ = queue_order::fifo;
    queue_order order_ = queue_order::fifo;  // of `grouped_`
    std::unique_ptr<grouped_queue> grouped_;
    std::uint64_t chains_ = 0;  // the chains that are prepared
};

}  // namespace weir::inline v0_2::detail
