#pragma once

#include <weir/detail/operation.hpp>

namespace weir::detail {

/// The order "first come, first served", and with it the contract of a queue:
///
/// | expression          | what it must do                                                        |
/// |---------------------|------------------------------------------------------------------------|
/// | `q.push(op)`        | let `op` join                                                          |
/// | `q.next(now)`       | who is to be served next, or null; nobody else is served before        |
/// | `q.oldest()`        | who has waited longest, or null                                        |
/// | `q.erase(op)`       | take `op` out, wherever it is                                          |
/// | `q.bars(n)`         | whether those who wait go before a newcomer who asks for `n`           |
/// | `q.for_each(f)`     | call `f(op)` for each in the order of service until it says false; `f` |
/// |                     | may erase `op`                                                         |
///
/// A queue owns nobody, allocates nothing and never throws.
class fifo {
public:
    void push(operation& op) noexcept { line_.push_back(op); }
    [[nodiscard]] operation* next(time_point) const noexcept { return oldest(); }
    [[nodiscard]] operation* oldest() const noexcept {
        return line_.empty() ? nullptr : &line_.front();
    }
    static void erase(operation& op) noexcept { static_cast<list_hook<in_line>&>(op).unlink(); }
    [[nodiscard]] static bool bars(amount) noexcept { return true; }

    template <class F>
    void for_each(F f) {
        for (operation* op = oldest(); op;) {
            operation* const behind = line_.after(*op);
            if (!f(*op))
                return;
            op = behind;
        }
    }

private:
    list<operation, in_line> line_;
};

}  // namespace weir::detail
