#pragma once

#include <weir/amount.hpp>
#include <weir/detail/ageing.hpp>
#include <weir/detail/chain/line.hpp>
#include <weir/detail/chain/operation.hpp>
#include <weir/detail/list.hpp>
#include <weir/detail/operation.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::inline v0_2::detail {

/// The queue of `queue_order::priority`; its contract is at `arrival_queue`.
///
/// `ageing` orders all requests. So the next request is the first one of one of the classes.
class priority_queue {
public:
    explicit priority_queue(queue_options const& options = {}) noexcept { configure(options); }

    static void check(queue_options const& options) { check_order(options, queue_order::priority); }
    static void check_change(queue_options const&, queue_options const&) noexcept {}
    [[nodiscard]] static bool can_use(queue_options const&, request const& r) noexcept {
        return r.flow() == standing().flow && r.weight() == standing().weight;
    }

    void configure(queue_options const& options) noexcept { ageing_.step = options.ageing; }
    static void prepare(operation const&) noexcept {}
    void push(operation& op) noexcept {
        line_.push_back(op);
        auto& own = classes_[op.priority];
        own.line.push_back(op);
        own.asked += op.count;
    }
    void erase(operation& op) noexcept {
        static_cast<list_hook<in_line>&>(op).unlink();
        static_cast<list_hook<in_group>&>(op).unlink();
        classes_[op.priority].asked -= op.count;
    }
    static void replace(operation& op, operation& by) noexcept {
        static_cast<list_hook<in_line>&>(op).replace(by);
        static_cast<list_hook<in_group>&>(op).replace(by);
    }
    static void grant(operation&, amount, time_point) noexcept {}

    [[nodiscard]] static bool ranks_chains() noexcept { return true; }
    static void prepare_chain(chain_entry const&) noexcept {}
    static void forget_chain(chain_entry const&) noexcept {}
    void push_chain(chain_entry& e) noexcept {
        chains_.insert(e, e.priority);
        classes_[e.priority].asked += e.count;
    }
    void erase_chain(chain_entry& e) noexcept {
        chains_.erase(e);
        classes_[e.priority].asked -= e.count;
    }
    static void grant_chain(chain_entry const&, time_point) noexcept {}
    [[nodiscard]] bool would_be_next(chain_entry const& e, time_point now) const noexcept {
        auto const* const first = next(now);
        return !first || ageing_.goes_before(e, *first);
    }

    [[nodiscard]] bool empty() const noexcept { return line_.empty() && chains_.empty(); }
    [[nodiscard]] queued_request* next(time_point) const noexcept {
        queued_request* next = nullptr;
        for (int c = 0; c <= last_priority; ++c) {
            auto* const first = first_of(c);
            if (first && (!next || ageing_.goes_before(*first, *next)))
                next = first;
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

    [[nodiscard]] bool bars(request const& r, time_point now) const noexcept {
        return ageing_.goes_before(*next(now), r, now);
    }
    [[nodiscard]] static bool foresees() noexcept { return false; }
    // Counts all requests of classes up to the class of `r`, and the first request of each class with a higher number
    // if that request has aged enough.
    [[nodiscard]] amount ahead_of_new(request const& r, time_point now) const noexcept {
        amount ahead = 0;
        for (int c = 0; c <= last_priority; ++c) {
            auto const& one = at(c);
            if (c <= r.priority())
                ahead += one.asked;
            else if (auto const* const first = first_of(c);
                     first && ageing_.goes_before(*first, r, now))
                ahead += first->count;
        }
        return ahead;
    }
    [[nodiscard]] operation* makes_way(request const& r, operation* previous) const noexcept {
        int c = last_priority;
        if (previous) {
            c = previous->priority;
            if (auto* const op = at(c--).line.after(*previous))
                return op;
        }
        for (; c >= r.priority(); --c) {
            if (!at(c).line.empty())
                return &at(c).line.front();
        }
        return nullptr;
    }
    [[nodiscard]] static operation* shed(time_point) noexcept { return nullptr; }
    [[nodiscard]] static time_point next_event(time_point) noexcept { return never; }

private:
    struct one_class {
        list<operation, in_group> line;
        amount asked = 0;  // by its chains, too
    };

    [[nodiscard]] one_class const& at(int c) const noexcept {
        return classes_[static_cast<std::size_t>(c)];
    }

    [[nodiscard]] queued_request* first_of(int c) const noexcept {
        auto const& line = at(c).line;
        queued_request* const first = line.empty() ? nullptr : &line.front();
        if (chains_.empty()) [[likely]]
            return first;
        queued_request* const chain = chains_.first(static_cast<std::uint64_t>(c));
        return chain && (!first || chain->number < first->number) ? chain : first;
    }

    list<operation, in_line> line_;
    std::array<one_class, last_priority + 1> classes_;
    chain_groups chains_;  // by class
    ageing ageing_;
};

}  // namespace weir::inline v0_2::detail
