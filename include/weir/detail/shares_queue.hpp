#pragma once

#include <weir/amount.hpp>
#include <weir/detail/list.hpp>
#include <weir/detail/operation.hpp>
#include <weir/partitions.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::inline v0_2::detail {

/// The queue of `queue_order::shares`; its contract is at `arrival_queue`. It also counts the permits of each
/// partition. Report these events to it:
///
/// | expression             | event                                                                    |
/// |------------------------|--------------------------------------------------------------------------|
/// | `q.take(r, n)`         | a newcomer with the request `r` is granted `n`: returns its account, or 0 |
/// | `q.take_more(a, n)`    | `n` more permits were taken for the account `a`                          |
/// | `q.give_back(a, n)`    | `n` permits of the account `a` were released                             |
/// | `q.count_seats(n)`     | the number of seats is `n` from now on                                   |
///
/// For an operation in the queue, `operation::account` is the account.
class shares_queue {
public:
    explicit shares_queue(queue_options const& options = {}) noexcept { configure(options); }

    static void check(queue_options const& options) { check_order(options, queue_order::shares); }
    static void check_change(queue_options const&, queue_options const&) noexcept {}
    [[nodiscard]] static bool can_use(queue_options const&, request const& r) noexcept {
        return r.priority() == standing().priority && r.weight() == standing().weight;
    }

    /// A name that stays keeps its account. A name that is removed keeps it as long as other accounts are spare.
    void configure(queue_options const& options) noexcept {
        for (auto& one : accounts_)
            one.is_named = false;
        for (auto const& p : options.partitions) {
            auto const own =
                std::ranges::find(accounts_.begin() + 1, accounts_.end(), p.flow(), &account::flow);
            if (own != accounts_.end())
                own->assign(p);
        }
        named_ = 0;
        for (auto const& p : options.partitions) {
            if (number_of(p.flow()) == none)
                spare().assign(p);
            in_order_[named_++] = number_of(p.flow());
        }
    }
    static void prepare(operation const&) noexcept {}
    void push(operation& op) noexcept {
        line_.push_back(op);
        op.account = number_of(op.flow);
        auto& own = accounts_[op.account];
        own.line.push_back(op);
        own.asked += op.count;
        ++own.waiting;
    }
    void erase(operation& op) noexcept {
        static_cast<list_hook<in_line>&>(op).unlink();
        static_cast<list_hook<in_group>&>(op).unlink();
        auto& own = accounts_[op.account];
        own.asked -= op.count;
        --own.waiting;
    }
    static void replace(operation& op, operation& by) noexcept {
        by.account = op.account;
        static_cast<list_hook<in_line>&>(op).replace(by);
        static_cast<list_hook<in_group>&>(op).replace(by);
    }
    void grant(operation const& op, amount n, time_point) noexcept { take_more(op.account, n); }

    [[nodiscard]] bool empty() const noexcept { return line_.empty(); }
    [[nodiscard]] operation* next(time_point) const noexcept {
        operation* next = first_within_share();
        return next ? next : oldest();
    }
    [[nodiscard]] operation* oldest() const noexcept {
        return line_.empty() ? nullptr : &line_.front();
    }
    [[nodiscard]] operation* newest() const noexcept {
        return line_.empty() ? nullptr : &line_.back();
    }
    [[nodiscard]] operation* after(operation& op) const noexcept { return line_.after(op); }

    [[nodiscard]] bool bars(request const& r, time_point) const noexcept {
        auto const& own = of(r);
        return !own.line.empty() || !is_within_share(own, r.count()) || first_within_share();
    }
    [[nodiscard]] static bool foresees() noexcept { return false; }
    [[nodiscard]] amount ahead_of_new(request const& r, time_point) const noexcept {
        return of(r).asked;
    }
    [[nodiscard]] operation* makes_way(request const& r, operation* previous) const noexcept {
        if (previous)
            return accounts_[previous->account].line.after(*previous);
        auto const* furthest = &of(r);
        auto most = beyond_share(*furthest) + r.count();
        for (auto const& one : accounts_) {
            if (!one.line.empty() && beyond_share(one) > most) {
                furthest = &one;
                most = beyond_share(one);
            }
        }
        return furthest->line.empty() ? nullptr : &furthest->line.front();
    }
    [[nodiscard]] static operation* shed(time_point) noexcept { return nullptr; }
    [[nodiscard]] static time_point next_event(time_point) noexcept { return never; }

    [[nodiscard]] std::uint8_t take(request const& r, amount n) noexcept {
        auto const a = number_of(r.flow());
        take_more(a, n);
        return a;
    }
    void take_more(std::uint64_t a, amount n) noexcept {
        if (a != none)
            accounts_[a].in_use += n;
    }
    void give_back(std::uint64_t a, amount n) noexcept { take_more(a, -n); }
    void count_seats(amount n) noexcept { seats_ = n; }

    /// Calls `f(share_stats)` for each partition, in the order of the options.
    template <class F>
    void each_share(F f) const {
        for (std::size_t i = 0; i != named_; ++i) {
            auto const& one = accounts_[in_order_[i]];
            f(share_stats{.partition = one.who,
                          .share = share_of(one),
                          .in_use = one.in_use,
                          .waiting = one.waiting,
                          .waiting_for = one.asked});
        }
    }

private:
    static constexpr std::uint8_t none = 0;

    struct account {
        void assign(partition const& p) noexcept {
            who = p;
            flow = p.flow();
            is_named = true;
        }

        partition who;
        std::uint64_t flow = 0;
        bool is_named = false;
        amount in_use = 0;
        amount asked = 0;
        std::uint64_t waiting = 0;
        list<operation, in_group> line;
    };

    [[nodiscard]] std::uint8_t number_of(std::uint64_t flow) const noexcept {
        for (std::size_t i = 1; i != accounts_.size(); ++i) {
            if (accounts_[i].is_named && accounts_[i].flow == flow)
                return static_cast<std::uint8_t>(i);
        }
        return none;
    }
    [[nodiscard]] account const& of(request const& r) const noexcept {
        return accounts_[number_of(r.flow())];
    }

    [[nodiscard]] amount share_of(account const& own) const noexcept {
        return own.is_named ? seats_ * own.who.percent() / 100 : 0;
    }
    [[nodiscard]] bool is_within_share(account const& own, amount n) const noexcept {
        return n <= share_of(own) - own.in_use;
    }
    [[nodiscard]] amount beyond_share(account const& own) const noexcept {
        return own.in_use + own.asked - share_of(own);
    }
    [[nodiscard]] operation* first_within_share() const noexcept {
        operation* first = nullptr;
        for (auto const& one : accounts_) {
            if (!one.line.empty() && is_within_share(one, one.line.front().count) &&
                (!first || one.line.front().number < first->number))
                first = &one.line.front();
        }
        return first;
    }

    // Returns an account without a name, if possible one without permits and requests.
    [[nodiscard]] account& spare() noexcept {
        account* found = nullptr;
        for (std::size_t i = 1; i != accounts_.size(); ++i) {
            auto& one = accounts_[i];
            if (!one.is_named && (!found || (one.in_use == 0 && one.line.empty())))
                found = &one;
        }
        return *found;
    }

    list<operation, in_line> line_;
    std::array<account, partitions::max_size + 1>
        accounts_;  // the first is for requests of no partition
    // The accounts of the partitions, in the order of the options.
    std::array<std::uint8_t, partitions::max_size> in_order_{};
    std::size_t named_ = 0;
    amount seats_ = 0;
};

}  // namespace weir::inline v0_2::detail
