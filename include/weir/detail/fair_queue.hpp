#pragma once

#include <weir/amount.hpp>
#include <weir/detail/ageing.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/fair_class.hpp>
#include <weir/detail/list.hpp>
#include <weir/detail/operation.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <memory>

namespace weir::inline v0_2::detail {

/// The queue of `queue_order::fair`; its contract is at `arrival_queue`.
///
/// In each class the flows have turns, as `fair_class` defines them. Among the next requests of the classes `ageing`
/// selects. So with one flow it is a `priority_queue`, and with one class the turns alone decide.
class fair_queue {
public:
    explicit fair_queue(queue_options const& options = {}) noexcept { configure(options); }
    fair_queue(fair_queue const&) = delete;
    fair_queue& operator=(fair_queue const&) = delete;

    static void check(queue_options const& options) { check_order(options, queue_order::fair); }
    static void check_change(queue_options const&, queue_options const&) noexcept {}
    [[nodiscard]] static bool can_use(queue_options const&, request const&) noexcept {
        return true;
    }

    void configure(queue_options const& options) noexcept { ageing_.step = options.ageing; }
    void prepare(operation const& op) { prepare_one(op); }
    void push(operation& op) noexcept {
        line_.push_back(op);
        join(op);
    }
    void erase(operation& op) noexcept {
        static_cast<list_hook<in_line>&>(op).unlink();
        leave(op);
    }
    static void replace(operation& op, operation& by) noexcept {
        by.group = op.group;
        static_cast<list_hook<in_line>&>(op).replace(by);
        static_cast<list_hook<in_group>&>(op).replace(by);
    }
    void grant(operation const& op, amount n, time_point) noexcept {
        classes_[op.priority]->grant(op, n);
    }

    [[nodiscard]] static bool ranks_chains() noexcept { return true; }
    void prepare_chain(chain_entry const& e) {
        prepare_one(e);
        classes_[e.priority]->add_chain();
        spare_.add_chain();
    }
    void forget_chain(chain_entry const& e) noexcept {
        classes_[e.priority]->remove_chain();
        spare_.remove_chain();
    }
    void push_chain(chain_entry& e) noexcept { join(e); }
    void erase_chain(chain_entry& e) noexcept { leave(e); }
    void grant_chain(chain_entry const& e, time_point) noexcept {
        classes_[e.priority]->grant(e, e.count);
    }
    [[nodiscard]] bool would_be_next(chain_entry const& e, time_point) const noexcept {
        for (auto left = waiting_; left != 0; left &= left - 1) {
            auto const c = static_cast<std::size_t>(std::countr_zero(left));
            bool const is_first = c == e.priority ? classes_[c]->would_be_next(e)
                                                  : ageing_.goes_before(e, classes_[c]->next());
            if (!is_first)
                return false;
        }
        return true;
    }

    [[nodiscard]] bool empty() const noexcept { return waiting_ == 0; }
    [[nodiscard]] queued_request* next(time_point) const noexcept {
        queued_request* next = nullptr;
        for (auto left = waiting_; left != 0; left &= left - 1) {
            auto& first = classes_[static_cast<std::size_t>(std::countr_zero(left))]->next();
            if (!next || ageing_.goes_before(first, *next))
                next = &first;
        }
        return next;
    }
    [[nodiscard]] operation* oldest() const noexcept {
        return line_.empty() ? nullptr : &line_.front();
    }
    [[nodiscard]] operation* newest() const noexcept {
        return line_.empty() ? nullptr : &line_.back();
    }
    [[nodiscard]] operation* after(operation& op) const noexcept { return line_.after(op); }

    // A request of the same class always goes before a newcomer.
    [[nodiscard]] bool bars(request const& r, time_point now) const noexcept {
        return ageing_.goes_before(*next(now), r, now);
    }
    [[nodiscard]] static bool foresees() noexcept { return false; }
    // Only of its class: a newcomer may become the next request of another class, and that class is younger then.
    [[nodiscard]] amount ahead_of_new(request const& r, time_point) const noexcept {
        auto const& own = classes_[static_cast<std::size_t>(r.priority())];
        return own ? own->ahead_of_new(r) : 0;
    }
    [[nodiscard]] operation* makes_way(request const& r, operation* previous) const noexcept {
        if (previous)
            return previous->group->line.after(*previous);
        for (int c = last_priority; c >= r.priority(); --c) {
            auto const bit = static_cast<std::size_t>(c);
            if ((waiting_ >> bit & 1) == 0)
                continue;
            if (auto* const largest = classes_[bit]->largest())
                return &largest->line.front();
        }
        return nullptr;
    }
    [[nodiscard]] static operation* shed(time_point) noexcept { return nullptr; }
    [[nodiscard]] static time_point next_event(time_point) noexcept { return never; }

private:
    void prepare_one(queued_request const& one) {
        auto& own = classes_[one.priority];
        if (!own)
            own = std::make_unique<fair_class>();
        own->prepare();
        spare_.prepare();
    }
    void join(queued_request& one) noexcept {
        classes_[one.priority]->push(one, spare_);
        waiting_ |= 1U << one.priority;
    }
    void leave(queued_request& one) noexcept {
        auto& own = *classes_[one.priority];
        spare_.put_back(own.erase(one));
        if (own.empty())
            waiting_ &= ~(1U << one.priority);
    }

    list<operation, in_line> line_;
    std::array<std::unique_ptr<fair_class>, last_priority + 1> classes_;
    unsigned waiting_ = 0;  // the bits of the classes that wait
    ageing ageing_;
    spare_groups spare_;
};

}  // namespace weir::inline v0_2::detail
