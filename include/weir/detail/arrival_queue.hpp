#pragma once

#include <weir/detail/operation.hpp>
#include <weir/detail/order.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

namespace weir::detail {

/// Operations in the order in which they came, of which a rule of `order` says which one is next; and with
/// it the contract of a queue:
///
/// | expression            | what it must do                                                            |
/// |-----------------------|----------------------------------------------------------------------------|
/// | `Q::check(o)`         | throw `std::invalid_argument` if it cannot do what the options ask for     |
/// | `Q::check_change(     | the same, if it cannot go on from options that are in force                |
/// |    before, next)`     |                                                                            |
/// | `q.configure(o)`      | take over what the options say; those in the queue stay                    |
/// | `q.prepare(op)`       | set aside what `op` needs to join next. May throw; then nothing has changed |
/// | `q.push(op)`          | let `op` join, after that                                                  |
/// | `q.erase(op)`         | take `op` out, wherever it is                                              |
/// | `q.replace(op, by)`   | put `by`, which asks for the same, in the place of `op`                    |
/// | `q.grant(op, n, now)` | `op`, which is `next`, is granted `n`, and erased after that               |
/// | `q.next(now)`         | the one to be served next, or null; no other one is served before it       |
/// | `q.oldest()`          | the one that has waited longest, or null                                   |
/// | `q.after(op)`         | the one that came next after `op`, or null                                 |
/// | `q.bars(r, now)`      | whether one in the queue, which is not empty, goes before a newcomer that  |
/// |                       | asks for `r`                                                               |
/// | `q.foresees()`        | whether those that came first are always served first                      |
/// | `q.ahead_of_new(r,    | how many permits those ask for that will be served before a newcomer that  |
/// |    now)`              | asks for `r`, as far as that is sure                                       |
/// | `q.makes_way(r, op)`  | the one that is dropped first for a newcomer that asks for `r`, or, if `op` |
/// |                       | is not null, the next one after `op`; or null                              |
/// | `q.shed(now)`         | one that the order gives up, if it cannot be granted now, or null; it is   |
/// |                       | still in the queue                                                         |
/// | `q.next_event(now)`   | when the order itself has something to do, `never` if not                  |
///
/// A queue owns no operation. Nothing but `check` and `prepare` throws, and nothing but `prepare` allocates.
template <class Order>
class arrival_queue {
public:
    explicit arrival_queue(queue_options const& options = {}) noexcept { configure(options); }

    static void check(queue_options const& options) {
        if constexpr (requires { Order::kind; })
            check_order(options, Order::kind);
    }
    static void check_change(queue_options const&, queue_options const&) noexcept {}

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

}  // namespace weir::detail
