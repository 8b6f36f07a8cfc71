#pragma once

#include <weir/amount.hpp>
#include <weir/detail/key_tree.hpp>
#include <weir/detail/list.hpp>
#include <weir/detail/operation.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace weir::inline v0_2::detail {

struct in_round;
struct in_weight;

/// The waiting requests of one flow.
struct fair_group : key_tree_hook<fair_group>, list_hook<in_round>, list_hook<in_weight> {
    list<operation, in_group> line;
    amount asked = 0;
    std::uint64_t spent = 0;  // how far its credit is below the level
    std::size_t weight = 0;
};

/// The queue of `queue_order::fair`; its contract is at `arrival_queue`.
///
/// Flows take turns. The credit of a flow bounds its further grants: it is the level, which is common to all flows,
/// less the permits that the flow has spent. At the beginning of a turn the level rises by the amount that the credit
/// lacks for the first request, so each turn grants at least one request, and no flow is examined without a grant.
/// The turn ends when the credit is too small for the next request. A flow without waiting requests is forgotten.
///
/// All decisions are made when a request is granted, so the order in which other requests leave has no effect.
/// Source: Shreedhar and Varghese, "Efficient Fair Queueing using Deficit Round Robin", SIGCOMM 1995; there the
/// quantum of a round is fixed, and at least the largest request.
class fair_queue {
public:
    explicit fair_queue(queue_options const& = {}) noexcept {}
    fair_queue(fair_queue const&) = delete;
    fair_queue& operator=(fair_queue const&) = delete;
    ~fair_queue() {
        while (!round_.empty())
            delete &round_.pop_front();
    }

    static void check(queue_options const& options) { check_order(options, queue_order::fair); }
    static void check_change(queue_options const&, queue_options const&) noexcept {}
    [[nodiscard]] static bool can_use(queue_options const&, request const& r) noexcept {
        return r.priority() == standing().priority;
    }

    static void configure(queue_options const&) noexcept {}
    void prepare(operation const&) {
        if (!spare_)
            spare_ = std::make_unique<fair_group>();
    }
    void push(operation& op) noexcept {
        auto& own = group_of(op.flow);
        line_.push_back(op);
        if (own.line.empty())
            heads_ += op.count;
        own.line.push_back(op);
        op.group = &own;
        weigh(own, op.count);
    }
    void erase(operation& op) noexcept {
        auto& own = *op.group;
        op.flow = own.key;
        static_cast<list_hook<in_line>&>(op).unlink();
        bool const first = &own.line.front() == &op;
        static_cast<list_hook<in_group>&>(op).unlink();
        if (first)
            heads_ += (own.line.empty() ? 0 : own.line.front().count) - op.count;
        weigh(own, -op.count);
        if (own.line.empty())
            forget(own);
    }
    static void replace(operation& op, operation& by) noexcept {
        by.group = op.group;
        static_cast<list_hook<in_line>&>(op).replace(by);
        static_cast<list_hook<in_group>&>(op).replace(by);
    }
    void grant(operation& op, amount n, time_point) noexcept {
        auto& own = *op.group;
        auto credit = credit_of(own);
        if (!turn_is_on_ && credit < op.count) {
            level_ += static_cast<std::uint64_t>(op.count - credit);
            credit = op.count;
        }
        own.spent += static_cast<std::uint64_t>(n);
        credit -= n;
        auto const* const second = own.line.after(op);
        turn_is_on_ = second && second->count <= credit;
        if (!turn_is_on_) {
            static_cast<list_hook<in_round>&>(own).unlink();
            round_.push_back(own);
        }
    }

    [[nodiscard]] bool empty() const noexcept { return line_.empty(); }
    [[nodiscard]] operation* next(time_point) const noexcept {
        return round_.empty() ? nullptr : &round_.front().line.front();
    }
    [[nodiscard]] operation* oldest() const noexcept {
        return line_.empty() ? nullptr : &line_.front();
    }
    [[nodiscard]] operation* after(operation& op) const noexcept { return line_.after(op); }

    [[nodiscard]] static bool bars(request const&, time_point) noexcept { return true; }
    [[nodiscard]] static bool foresees() noexcept { return false; }
    // The permits that its flow asks for; or, if no request of the flow waits yet, one request of each other flow.
    [[nodiscard]] amount ahead_of_new(request const& r, time_point) const noexcept {
        auto const* const own = groups_.find(r.flow());
        return own ? own->asked : heads_;
    }
    [[nodiscard]] operation* makes_way(request const&, operation* previous) const noexcept {
        if (previous)
            return previous->group->line.after(*previous);
        return used_ == 0 ? nullptr
                          : &by_weight_[static_cast<std::size_t>(std::bit_width(used_)) - 1]
                                 .front()
                                 .line.front();
    }
    [[nodiscard]] static operation* shed(time_point) noexcept { return nullptr; }
    [[nodiscard]] static time_point next_event(time_point) noexcept { return never; }

private:
    // Both numbers may have wrapped around: only the difference counts, and it is small.
    [[nodiscard]] amount credit_of(fair_group const& g) const noexcept {
        return static_cast<amount>(level_ - g.spent);
    }

    [[nodiscard]] fair_group& group_of(std::uint64_t flow) noexcept {
        if (auto* const own = groups_.find(flow))
            return *own;
        auto& own = *spare_.release();
        own.key = flow;
        own.spent = level_;
        groups_.insert(own);
        round_.push_back(own);
        return own;
    }

    void forget(fair_group& own) noexcept {
        std::unique_ptr<fair_group> gone(&own);
        if (&round_.front() == &own)
            turn_is_on_ = false;
        groups_.erase(own);
        static_cast<list_hook<in_round>&>(own).unlink();
        if (!spare_)
            spare_ = std::move(gone);
    }

    // Flows are sorted by the permits that they ask for, to within a factor of 2.
    void weigh(fair_group& own, amount more) noexcept {
        auto const before = own.weight;
        own.asked += more;
        own.weight =
            static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(own.asked)));
        if (own.weight == before)
            return;
        if (before != 0) {
            static_cast<list_hook<in_weight>&>(own).unlink();
            note(before);
        }
        if (own.weight != 0) {
            by_weight_[own.weight].push_back(own);
            note(own.weight);
        }
    }
    void note(std::size_t weight) noexcept {
        auto const bit = std::uint64_t{1} << weight;
        used_ = by_weight_[weight].empty() ? used_ & ~bit : used_ | bit;
    }

    list<operation, in_line> line_;
    key_tree<fair_group> groups_;
    list<fair_group, in_round> round_;  // the first has its turn
    bool turn_is_on_ = false;           // a request was granted in this turn
    std::uint64_t level_ = 0;
    amount heads_ = 0;  // the sum of the first requests of all flows
    std::array<list<fair_group, in_weight>, 64> by_weight_;
    std::uint64_t used_ = 0;  // the bits of the lists that are not empty
    std::unique_ptr<fair_group> spare_;
};

}  // namespace weir::inline v0_2::detail
