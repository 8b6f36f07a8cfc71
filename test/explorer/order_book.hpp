#pragma once

#include <weir/amount.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include "support/order_oracle.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace explorer {

using weir::duration;
using weir::time_point;

/// Selects the next request, and the requests that may or must be dropped, by the documentation of `queue_order`.
class order_book {
public:
    explicit order_book(weir::queue_options const& o)
        : order_(o.order),
          target_(o.target),
          interval_(o.interval),
          ageing_(o.ageing),
          fair_(o.ageing) {
        for (auto const& p : o.partitions)
            shares_.partitions[p.flow()] = p.percent();
    }

    /// Records that a request waits and none did before.
    void begins(time_point now) noexcept {
        busy_since_ = good_at_ = now;
        has_stood_ = false;
    }
    void granted(duration waited, time_point now) noexcept {
        if (waited > target_)
            return;
        has_stood_ = has_stood_ || now - good_at_ >= interval_;
        good_at_ = now;
    }

    /// Returns whether the order depends on more than the arrival. Such an order needs the events of all requests
    /// that join and leave; other orders do not.
    [[nodiscard]] bool groups() const noexcept {
        return order_ == weir::queue_order::priority || order_ == weir::queue_order::fair ||
               order_ == weir::queue_order::shares;
    }
    // For `shares`: the number of seats, and their holders.
    void has_seats(amount n) { shares_.seats = n; }
    void took(std::uint64_t key, amount n) { shares_.take(key, n); }
    void came_home(std::uint64_t key, amount n) { shares_.give_back(key, n); }

    /// Returns whether a chain has its standing in the line, and is not beside it.
    [[nodiscard]] bool ranks_chains() const noexcept {
        return order_ == weir::queue_order::priority || order_ == weir::queue_order::fair;
    }

    void joined(std::uint64_t number, time_point since, weir::request const& r,
                bool is_chain = false) {
        line_.insert(std::ranges::upper_bound(line_, number, {}, &place::number),
                     {number, since, r.priority(), r.count(), is_chain});
        fair_.join(static_cast<int>(number), r, since, is_chain);
        shares_.join(static_cast<int>(number), r.flow(), r.count());
    }
    [[nodiscard]] bool has(std::uint64_t number) const {
        return std::ranges::count(line_, number, &place::number) != 0;
    }
    /// A chain is granted, which need not be the next request.
    void served_chain(std::uint64_t number, amount n) {
        fair_.grant_to(static_cast<int>(number), n);
        forget(number);
    }
    /// Returns whether a chain that is elsewhere would be next.
    [[nodiscard]] bool would_be_next(std::uint64_t number, time_point since,
                                     weir::request const& r) const {
        auto with = *this;
        with.joined(number, since, r, true);
        return with.next() == number;
    }
    void served(std::uint64_t number) {
        if (order_ == weir::queue_order::fair)
            fair_.grant(std::ranges::find(line_, number, &place::number)->count);
        else
            fair_.leave(static_cast<int>(number));
        forget(number);
    }
    void left(std::uint64_t number) {
        if (!has(number))
            return;  // a chain that was granted
        fair_.leave(static_cast<int>(number));
        forget(number);
    }
    /// 0 if no request waits.
    [[nodiscard]] std::uint64_t next() const {
        if (line_.empty())
            return 0;
        if (order_ == weir::queue_order::fair)
            return static_cast<std::uint64_t>(fair_.next());
        if (order_ == weir::queue_order::shares)
            return static_cast<std::uint64_t>(shares_.next());
        auto const* next = &line_.front();
        for (auto const& one : line_) {
            if (!goes_first(*next, one.priority, one.since))
                next = &one;
        }
        return next->number;
    }
    /// Returns the next request if this one had not joined; 0 if no other waits.
    [[nodiscard]] std::uint64_t next_without(std::uint64_t newcomer) const {
        auto others = *this;
        others.left(newcomer);
        return others.next();
    }
    // For any order, if the book receives all requests that join and leave.
    [[nodiscard]] bool empty() const noexcept { return line_.empty(); }
    /// 0 if no request waits.
    [[nodiscard]] std::uint64_t next(time_point now) const {
        if (groups() || line_.empty())
            return next();
        return (newest_first(now) ? line_.back() : line_.front()).number;
    }
    /// Returns whether a waiting request goes before a newcomer.
    [[nodiscard]] bool bars(weir::request const& r, time_point now) const {
        return !line_.empty() && !(groups() ? lets_pass(r, now) : newest_first(now));
    }

    /// Returns whether a newcomer goes before all waiting requests.
    [[nodiscard]] bool lets_pass(weir::request const& r, time_point now) const {
        if (order_ == weir::queue_order::shares)
            return shares_.lets_pass(r.flow(), r.count());
        if (order_ == weir::queue_order::fair)
            return fair_.lets_pass(r, now);
        return order_ == weir::queue_order::priority &&
               std::ranges::none_of(line_, [&](place const& one) {
                   return goes_first(one, r.priority(), now);
               });
    }
    /// Returns whether a request may be dropped for a newcomer, which may have joined already.
    [[nodiscard]] bool may_make_way(std::uint64_t number, std::uint64_t newcomer,
                                    weir::request const& asked) const {
        auto others = *this;
        if (std::ranges::count(line_, newcomer, &place::number) != 0)
            others.left(newcomer);
        if (order_ == weir::queue_order::shares)
            return std::ranges::count(others.shares_.may_make_way(asked.flow(), asked.count()),
                                      static_cast<int>(number)) != 0;
        if (order_ == weir::queue_order::fair)
            return others.fair_.may_make_way(static_cast<int>(number), asked);
        if (order_ != weir::queue_order::priority)
            return others.line_.front().number == number;
        auto const& one = *std::ranges::find(line_, number, &place::number);
        return one.priority >= asked.priority() &&
               std::ranges::none_of(others.line_, [&](place const& third) {
                   if (third.is_chain)
                       return false;
                   return third.priority > one.priority ||
                          (third.priority == one.priority && third.number < one.number);
               });
    }
    /// Returns whether any request may be dropped for such a newcomer.
    [[nodiscard]] bool somebody_makes_way(weir::request const& r) const {
        if (order_ == weir::queue_order::shares)
            return !shares_.may_make_way(r.flow(), r.count()).empty();
        if (order_ == weir::queue_order::fair)
            return fair_.somebody_makes_way(r);
        if (order_ == weir::queue_order::priority)
            return std::ranges::any_of(line_, [&](place const& one) {
                return !one.is_chain && one.priority >= r.priority();
            });
        return !line_.empty();
    }
    /// Returns whether a request that arrived at `since` goes before a newcomer.
    [[nodiscard]] bool goes_before(weir::request const& one, time_point since,
                                   weir::request const& newcomer, time_point now) const {
        return support::older_goes_first(one.priority(), since, newcomer.priority(), now, ageing_);
    }
    [[nodiscard]] bool by_key() const noexcept {
        return order_ == weir::queue_order::fair || order_ == weir::queue_order::shares;
    }

    /// Returns whether no request is ever granted before an older one.
    [[nodiscard]] bool foresees() const noexcept {
        return order_ == weir::queue_order::fifo || order_ == weir::queue_order::codel;
    }
    /// Call it only while a request waits.
    [[nodiscard]] bool newest_first(time_point now) const noexcept {
        return order_ == weir::queue_order::lifo ||
               (order_ == weir::queue_order::adaptive_lifo && now - busy_since_ > interval_);
    }
    /// Returns whether a request that arrived at `since` may be dropped: an interval was bad since the queue was last
    /// empty.
    [[nodiscard]] bool may_drop(time_point since, time_point now) const noexcept {
        return order_ == weir::queue_order::codel && now - since > 2 * target_ &&
               (has_stood_ || now - good_at_ >= interval_);
    }
    /// Returns when it must have been dropped if no request is granted in time until then: for any beginning of the
    /// intervals, one whole interval was bad.
    [[nodiscard]] time_point must_drop(time_point since) const noexcept {
        if (order_ != weir::queue_order::codel)
            return weir::never;
        return std::max(weir::later(good_at_, 2 * interval_),
                        weir::later(since, 2 * target_ + duration(1)));
    }
    /// Returns when the newest request is first instead of the oldest.
    [[nodiscard]] time_point turns() const noexcept {
        return order_ == weir::queue_order::adaptive_lifo
                   ? weir::later(busy_since_, interval_ + duration(1))
                   : weir::never;
    }

private:
    struct place {
        std::uint64_t number;
        time_point since;
        int priority;
        weir::amount count;
        bool is_chain;
    };

    [[nodiscard]] bool goes_first(place const& older, int priority, time_point since) const {
        return support::older_goes_first(older.priority, older.since, priority, since, ageing_);
    }
    void forget(std::uint64_t number) {
        shares_.leave(static_cast<int>(number));
        std::erase_if(line_, [&](place const& one) { return one.number == number; });
    }

    weir::queue_order order_;
    duration target_;
    duration interval_;
    duration ageing_;
    std::vector<place> line_;  // in order of arrival
    support::fair_oracle fair_;
    support::shares_oracle shares_;
    time_point busy_since_{};
    time_point good_at_{};  // the last grant to a request whose wait was within the target
    bool has_stood_ = false;
};

}  // namespace explorer
