#pragma once

#include <weir/detail/operation.hpp>
#include <weir/detail/time_orders.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

namespace weir::inline v0_2::detail {

struct chain_entry;

/// Holds operations in their order of arrival; a rule of `order` selects the next one. This table is the contract of a
/// queue. A newcomer is a request that is not in the queue yet.
///
/// | expression            | required effect or result                                                  |
/// |-----------------------|----------------------------------------------------------------------------|
/// | `Q::check(o)`         | throw `std::invalid_argument` if the queue does not support the options    |
/// | `Q::check_change(     | throw `std::invalid_argument` if the queue cannot change from the options  |
/// |    before, next)`     | in force to `next`                                                         |
/// | `Q::can_use(o, r)`    | whether the order uses what `r` names of a standing. An order that uses    |
/// |                       | nothing of it ignores all                                                  |
/// | `q.configure(o)`      | adopt the options; operations in the queue stay                            |
/// | `q.prepare(op)`       | reserve the memory that `op` needs to join. May throw, without effect      |
/// | `q.push(op)`          | append `op`, after `prepare`                                               |
/// | `q.erase(op)`         | remove `op`, at any position                                               |
/// | `q.replace(op, by)`   | put `by`, which makes an equal request, in the position of `op`            |
/// | `q.grant(op, n, now)` | record that `op`, which is `next`, is granted `n`; `erase(op)` follows     |
/// | `q.next(now)`         | the request to serve next, or null; no other one is served before it       |
/// | `q.oldest()`          | the operation that has waited longest, or null                             |
/// | `q.newest()`          | the operation that arrived last, or null                                   |
/// | `q.after(op)`         | the operation that arrived next after `op`, or null                        |
/// | `q.bars(r, now)`      | whether an operation in the queue, which is not empty, goes before a       |
/// |                       | newcomer with the request `r`                                              |
/// | `q.foresees()`        | whether operations are always served in order of arrival                   |
/// | `q.ahead_of_new(r,    | how many permits are certain to be served before a newcomer with the       |
/// |    now)`              | request `r`                                                                |
/// | `q.makes_way(r, op)`  | the operation to drop first for a newcomer with the request `r`; if `op` is |
/// |                       | not null, the next candidate after `op`; or null                           |
/// | `q.shed(now)`         | an operation that the order drops if it cannot be granted now, or null; it |
/// |                       | stays in the queue                                                         |
/// | `q.next_event(now)`   | when the order itself has something to do, `never` if it has nothing       |
///
/// An order that obeys the standing of chains also has these. `next`, `bars` and `ahead_of_new` then include the chains
/// in the queue, and `makes_way` does not. In other orders chains are beside the queue.
///
/// | expression               | required effect or result                                               |
/// |--------------------------|-------------------------------------------------------------------------|
/// | `q.ranks_chains()`       | whether it has them. Constant while a chain is prepared                 |
/// | `q.prepare_chain(e)`     | reserve the memory that `e` needs to join, at any number of later times.|
/// |                          | May throw, without effect                                               |
/// | `q.forget_chain(e)`      | release that memory, while `e` is not in the queue                      |
/// | `q.push_chain(e)`        | insert `e` in the position of its arrival                               |
/// | `q.erase_chain(e)`       | remove `e`                                                              |
/// | `q.grant_chain(e, now)`  | record that `e`, in the queue, is granted; `erase_chain(e)` follows     |
/// | `q.would_be_next(e, now)`| whether `e`, which is not in the queue, would be next if it were        |
///
/// A queue owns no operation. Only `check`, `check_change` and the functions that prepare throw, and only the latter
/// allocate.
template <class Order>
class arrival_queue {
public:
    explicit arrival_queue(queue_options const& options = {}) noexcept { configure(options); }

    static void check(queue_options const& options) {
        if constexpr (requires { Order::kind; })
            check_order(options, Order::kind);
    }
    static void check_change(queue_options const&, queue_options const&) noexcept {}
    [[nodiscard]] static bool can_use(queue_options const&, request const&) noexcept {
        return true;
    }

    void configure(queue_options const& options) noexcept {
        order_.configure(options, line_.empty() ? never : line_.front().since);
    }
    static void prepare(operation const&) noexcept {}
    void push(operation& op) noexcept {
        if (line_.empty())
            order_.begin(op.since);
        line_.push_back(op);
        asked_ += op.count;
    }
    void erase(operation& op) noexcept {
        static_cast<list_hook<in_line>&>(op).unlink();
        asked_ -= op.count;
        if (line_.empty())
            order_.end();
    }
    static void replace(operation& op, operation& by) noexcept {
        static_cast<list_hook<in_line>&>(op).replace(by);
    }
    void grant(operation const& op, amount, time_point now) noexcept {
        order_.grant(now - op.since, now);
    }

    [[nodiscard]] bool empty() const noexcept { return line_.empty(); }
    [[nodiscard]] operation* next(time_point now) const noexcept {
        if (line_.empty())
            return nullptr;
        return order_.newest_first(now) ? &line_.back() : &line_.front();
    }
    [[nodiscard]] operation* oldest() const noexcept {
        return line_.empty() ? nullptr : &line_.front();
    }
    [[nodiscard]] operation* newest() const noexcept {
        return line_.empty() ? nullptr : &line_.back();
    }
    [[nodiscard]] operation* after(operation& op) const noexcept { return line_.after(op); }
    [[nodiscard]] bool bars(request const&, time_point now) const noexcept {
        return !order_.newest_first(now);
    }
    [[nodiscard]] bool foresees() const noexcept { return order_.foresees(); }
    [[nodiscard]] amount ahead_of_new(request const&, time_point) const noexcept {
        return order_.foresees() ? asked_ : 0;
    }
    [[nodiscard]] operation* makes_way(request const&, operation* previous) const noexcept {
        return previous ? after(*previous) : oldest();
    }
    [[nodiscard]] operation* shed(time_point now) noexcept {
        return !line_.empty() && order_.gives_up(line_.front().since, now)
                   ? &line_.front()
                   : nullptr;
    }
    [[nodiscard]] time_point next_event(time_point now) const noexcept {
        return line_.empty() ? never : order_.next_event(line_.front().since, now);
    }

private:
    list<operation, in_line> line_;
    amount asked_ = 0;
    Order order_;
};

using fifo = arrival_queue<order::fifo>;

/// An order that obeys the standing of chains.
template <class Queue>
concept chain_ranking_queue = requires(Queue& q, chain_entry& e) { q.push_chain(e); };

}  // namespace weir::inline v0_2::detail
