#pragma once

#include <weir/detail/operation.hpp>

namespace weir::detail {

/// The order "first come, first served", and with it the contract of a queue:
///
/// | expression          | what it must do                                                        |
/// |---------------------|------------------------------------------------------------------------|
/// | `q.push(op)`        | let `op` join                                                          |
/// | `q.erase(op)`       | take `op` out, wherever it is                                          |
/// | `q.next(now)`       | the one to be served next, or null; no other one is served before it   |
/// | `q.oldest()`        | the one that has waited longest, or null                               |
/// | `q.bars(n)`         | whether those in the queue go before a newcomer that asks for `n`      |
/// | `q.ahead_of_new(n)` | how many permits those ask for that would be served before a newcomer  |
/// |                     | that asks for `n`                                                      |
/// | `q.first()`         | the first in the order of service, or null                             |
/// | `q.after(op)`       | the one behind `op` in the order of service, or null                   |
/// | `q.shed(now)`       | one that the order has given up by now, or null; it is still in the    |
/// |                     | queue                                                                  |
/// | `q.next_event(now)` | when the order itself has something to do, `never` if not              |
///
/// A queue owns no operation, allocates nothing and never throws.
class fifo {
public:
    void push(operation& op) noexcept {
        line_.push_back(op);
        asked_ += op.count;
    }
    void erase(operation& op) noexcept {
        static_cast<list_hook<in_line>&>(op).unlink();
        asked_ -= op.count;
    }
    [[nodiscard]] operation* next(time_point) const noexcept { return first(); }
    [[nodiscard]] operation* oldest() const noexcept { return first(); }
    [[nodiscard]] static bool bars(amount) noexcept { return true; }
    [[nodiscard]] amount ahead_of_new(amount) const noexcept { return asked_; }
    [[nodiscard]] operation* first() const noexcept {
        return line_.empty() ? nullptr : &line_.front();
    }
    [[nodiscard]] operation* after(operation& op) const noexcept { return line_.after(op); }
    [[nodiscard]] static operation* shed(time_point) noexcept { return nullptr; }
    [[nodiscard]] static time_point next_event(time_point) noexcept { return never; }

private:
    list<operation, in_line> line_;
    amount asked_ = 0;
};

}  // namespace weir::detail
