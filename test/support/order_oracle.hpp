#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
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

/// Selects the next request, by the documentation of `queue_order::fair`.
class fair_oracle {
public:
    void join(int request, std::uint64_t key, amount n) {
        auto it = std::ranges::find(keys_, key, &account::key);
        if (it == keys_.end())
            it = keys_.insert(it, {.key = key});
        it->waiting.push_back({request, n});
    }

    /// Removes a request without a grant.
    void leave(int request) {
        auto& own = of(request);
        std::erase_if(own.waiting, [&](auto const& one) { return one.request == request; });
        forget(own);
    }

    /// Removes the next request with a grant.
    void grant() {
        auto& own = keys_.front();
        auto const n = own.waiting.front().n;
        if (!own.has_had_one && own.credit < n) {
            for (amount const more = n - own.credit; auto& one : keys_)
                one.credit += more;
        }
        own.credit -= n;
        own.waiting.erase(own.waiting.begin());
        own.has_had_one = !own.waiting.empty() && own.waiting.front().n <= own.credit;
        if (!own.has_had_one)
            std::ranges::rotate(keys_, keys_.begin() + 1);
        forget(keys_.back());
    }

    [[nodiscard]] bool empty() const { return keys_.empty(); }
    [[nodiscard]] int next() const { return keys_.front().waiting.front().request; }

    /// Returns whether this request may be dropped for a newcomer.
    [[nodiscard]] bool may_make_way(int request) {
        auto& own = of(request);
        auto const heaviest = std::ranges::max(keys_, {}, asked);
        return own.waiting.front().request == request && 2 * asked(own) > asked(heaviest);
    }

private:
    struct waiter {
        int request;
        amount n;
    };
    struct account {
        std::uint64_t key = 0;
        amount credit = 0;
        bool has_had_one = false;  // in this turn
        std::vector<waiter> waiting{};
    };

    static amount asked(account const& a) {
        amount sum = 0;
        for (auto const& one : a.waiting)
            sum += one.n;
        return sum;
    }
    account& of(int request) {
        return *std::ranges::find_if(keys_, [&](account const& a) {
            return std::ranges::count(a.waiting, request, &waiter::request) != 0;
        });
    }
    void forget(account& own) {
        if (own.waiting.empty())
            keys_.erase(keys_.begin() + (&own - keys_.data()));
    }

    std::vector<account> keys_;  // the first has its turn
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
