#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <boost/multiprecision/cpp_int.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace support {

using weir::amount;

/// Returns whether a request of class `c` that arrived at `since` goes before one of class `of` that arrives later,
/// at `at`, by the documentation of `queue_order::priority`.
inline bool older_goes_first(int c, weir::time_point since, int of, weir::time_point at,
                             weir::duration ageing) {
    return c <= of || at - since >= (c - of) * ageing;
}

/// Selects the next request, by the documentation of `queue_order::fair`. It computes with fractions, again for each
/// question.
class fair_oracle {
public:
    explicit fair_oracle(weir::duration ageing = std::chrono::seconds(1)) : ageing_(ageing) {}

    /// A chain that comes back joins in the position of its arrival. Requests are numbered in order of arrival.
    void join(int request, weir::request const& r, weir::time_point since, bool is_chain = false) {
        auto const of = flow(r.priority(), r.flow());
        if (!starts_.contains(of))
            starts_[of] = {times_[of.first], ++turns_};
        auto const later =
            std::ranges::find_if(line_, [&](waiter const& one) { return one.request > request; });
        line_.insert(later, {request, of, r.count(), r.weight(), since, is_chain});
    }

    /// Removes a request without a grant.
    void leave(int request) {
        std::erase_if(line_, [&](waiter const& one) { return one.request == request; });
        forget();
    }

    /// Removes the next request with a grant of `n` permits.
    void grant(amount n) { grant_to(next(), n); }
    /// Removes any request with a grant of `n` permits.
    void grant_to(int request, amount n) {
        auto const one = *std::ranges::find(line_, request, &waiter::request);
        auto& own = starts_[one.of];
        own = {own.start + fraction(n, one.weight), ++turns_};
        times_[one.of.first] = std::max(times_[one.of.first], own.start);
        leave(one.request);
    }

    [[nodiscard]] bool empty() const { return line_.empty(); }
    [[nodiscard]] int next() const { return next_of_all()->request; }

    /// Returns whether a newcomer goes before all waiting requests.
    [[nodiscard]] bool lets_pass(weir::request const& r, weir::time_point now) const {
        auto const next = next_of_all();
        return !next || !older_goes_first(next->of.first, next->since, r.priority(), now, ageing_);
    }
    /// Returns whether any request may be dropped for such a newcomer.
    [[nodiscard]] bool somebody_makes_way(weir::request const& r) const {
        return std::ranges::any_of(line_, [&](waiter const& one) {
            return !one.is_chain && one.of.first >= r.priority();
        });
    }
    /// Returns whether this request may be dropped for a newcomer. Chains count for their flows, and are not dropped.
    [[nodiscard]] bool may_make_way(int request, weir::request const& r) const {
        auto const of = std::ranges::find(line_, request, &waiter::request)->of;
        int last = 0;
        fraction most = 0;
        for (auto const& one : line_)
            last = one.is_chain ? last : std::max(last, one.of.first);
        for (auto const& one : line_) {
            if (!one.is_chain && one.of.first == last)
                most = std::max(most, asked(one.of));
        }
        return of.first == last && last >= r.priority() && dropped_first(of).request == request &&
               2 * asked(of) > most;
    }
    /// Returns at most how many permits are certain to be granted before a newcomer.
    [[nodiscard]] amount ahead_of_new(weir::request const& r) const {
        auto const of = flow(r.priority(), r.flow());
        amount sum = 0;
        if (starts_.contains(of)) {
            for (auto const& one : line_)
                sum += one.of == of ? one.n : 0;
            return sum;
        }
        for (auto const& [other, at] : starts_) {
            auto const& first = first_of(other);
            if (other.first == of.first &&
                tag(first) <= time(of.first) + fraction(r.count(), r.weight()))
                sum += first.n;
        }
        return sum;
    }

private:
    using fraction = boost::multiprecision::cpp_rational;
    using flow = std::pair<int, std::uint64_t>;  // with its class

    struct waiter {
        int request;
        flow of;
        amount n;
        int weight;
        weir::time_point since;
        bool is_chain;
    };
    struct account {
        fraction start = 0;
        int turn = 0;  // the last event that gave it its place among equals
    };

    [[nodiscard]] waiter const& first_of(flow const& of) const {
        return *std::ranges::find(line_, of, &waiter::of);
    }
    [[nodiscard]] waiter const& dropped_first(flow const& of) const {
        return *std::ranges::find_if(line_, [&](waiter const& one) {
            return one.of == of && !one.is_chain;
        });
    }
    [[nodiscard]] fraction tag(waiter const& first) const {
        return starts_.at(first.of).start + fraction(first.n, first.weight);
    }
    [[nodiscard]] fraction time(int of) const {
        auto const it = times_.find(of);
        return it == times_.end() ? fraction(0) : it->second;
    }
    [[nodiscard]] fraction asked(flow const& of) const {
        amount sum = 0;
        for (auto const& one : line_)
            sum += one.of == of ? one.n : 0;
        return fraction(sum, dropped_first(of).weight);
    }
    [[nodiscard]] std::optional<waiter> next_of(int of) const {
        std::optional<waiter> next;
        for (auto const& [which, at] : starts_) {
            if (which.first != of)
                continue;
            auto const& one = first_of(which);
            bool const is_less = next && std::pair(tag(one), at.turn) <
                                             std::pair(tag(*next), starts_.at(next->of).turn);
            if (!next || is_less)
                next = one;
        }
        return next;
    }
    [[nodiscard]] std::optional<waiter> next_of_all() const {
        std::optional<waiter> next;
        for (int c = 0; c <= weir::last_priority; ++c) {
            auto const one = next_of(c);
            if (!one || !next) {
                next = one ? one : next;
                continue;
            }
            auto const mine = one->since + c * ageing_;
            auto const other = next->since + next->of.first * ageing_;
            if (mine < other || (mine == other && one->request < next->request))
                next = one;
        }
        return next;
    }
    void forget() {
        std::erase_if(starts_, [&](auto const& one) {
            return std::ranges::find(line_, one.first, &waiter::of) == line_.end();
        });
    }

    weir::duration ageing_;
    std::vector<waiter> line_;  // in order of arrival
    std::map<flow, account> starts_;
    std::map<int, fraction> times_;  // of the classes
    int turns_ = 0;
};

/// Selects the next request, by the documentation of `queue_order::shares`. It keeps each permit and each request.
class shares_oracle {
public:
    /// Flows and percentages. Any other flow belongs to no partition.
    std::map<std::uint64_t, int> partitions;
    amount seats = 0;

    void join(int request, std::uint64_t key, amount n) { line_.push_back({request, key, n}); }
    void leave(int request) {
        std::erase_if(line_, [&](waiter const& one) { return one.request == request; });
    }
    void take(std::uint64_t key, amount n) { held_[key] += n; }
    void give_back(std::uint64_t key, amount n) { held_[key] -= n; }

    [[nodiscard]] amount free() const {
        amount sum = seats;
        for (auto const& [key, n] : held_)
            sum -= n;
        return sum;
    }
    [[nodiscard]] amount held(std::uint64_t key) const {
        auto const it = held_.find(key);
        return it == held_.end() ? 0 : it->second;
    }
    [[nodiscard]] amount share(std::uint64_t key) const {
        auto const it = partitions.find(key);
        return it == partitions.end() ? 0 : seats * it->second / 100;
    }
    [[nodiscard]] bool fits(std::uint64_t key, amount n) const {
        return partitions.contains(key) && held(key) + n <= share(key);
    }

    /// The only request that may be granted next; -1 if none waits. In one partition it is the oldest.
    [[nodiscard]] int next() const {
        std::set<std::uint64_t> seen;
        for (auto const& one : line_) {
            bool const first_of_its_own = seen.insert(group(one.key)).second;
            if (first_of_its_own && fits(one.key, one.n))
                return one.request;
        }
        return line_.empty() ? -1 : line_.front().request;
    }
    /// Returns whether a newcomer goes before all waiting requests.
    [[nodiscard]] bool lets_pass(std::uint64_t key, amount n) const {
        if (line_.empty())
            return true;
        auto with = *this;
        with.join(-2, key, n);
        return fits(key, n) && with.next() == -2;
    }
    /// The requests of which one makes way for a newcomer, if the queue is full; none if the newcomer is rejected.
    /// There are several if partitions exceed their shares equally.
    [[nodiscard]] std::vector<int> may_make_way(std::uint64_t key, amount n) const {
        std::map<std::uint64_t, amount> beyond;
        for (auto const& one : line_)
            beyond.try_emplace(group(one.key), counted(one.key) - share(one.key)).first->second +=
                one.n;
        beyond.try_emplace(group(key), counted(key) - share(key)).first->second += n;
        auto const most = std::ranges::max_element(beyond, {}, by_amount)->second;
        bool const own = beyond[group(key)] == most;
        std::vector<int> all;
        std::set<std::uint64_t> seen;
        for (auto const& one : line_) {
            auto const of = group(one.key);
            bool const oldest = seen.insert(of).second;
            if (oldest && beyond[of] == most && (!own || of == group(key)))
                all.push_back(one.request);
        }
        return all;
    }

private:
    struct waiter {
        int request;
        std::uint64_t key;
        amount n;
    };
    static amount by_amount(std::pair<std::uint64_t const, amount> const& one) {
        return one.second;
    }
    // All requests without a partition are one group.
    [[nodiscard]] std::uint64_t group(std::uint64_t key) const {
        return partitions.contains(key) ? key : 0;
    }
    // The permits of requests without a partition are not counted.
    [[nodiscard]] amount counted(std::uint64_t key) const {
        return partitions.contains(key) ? held(key) : 0;
    }

    std::vector<waiter> line_;
    std::map<std::uint64_t, amount> held_;
};

}  // namespace support
