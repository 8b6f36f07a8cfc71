#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace support {

using weir::amount;

/// Whether a request of class `c` that came at `since` goes before one of class `of` that came later, at `at`,
/// by the words of `queue_order::priority`.
inline bool older_goes_first(int c, weir::time_point since, int of, weir::time_point at,
                             weir::duration ageing) {
    return c <= of || at - since >= (c - of) * ageing;
}

/// Which request is next, by the words of `queue_order::fair`.
class fair_oracle {
public:
    void join(int request, std::uint64_t key, amount n) {
        auto it = std::ranges::find(keys_, key, &account::key);
        if (it == keys_.end())
            it = keys_.insert(it, {.key = key});
        it->waiting.push_back({request, n});
    }

    /// Without a grant.
    void leave(int request) {
        auto& own = of(request);
        std::erase_if(own.waiting, [&](auto const& one) { return one.request == request; });
        forget(own);
    }

    /// The request that is next leaves with a grant.
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

    /// Whether this one may be dropped for a newcomer.
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

    std::vector<account> keys_;  // whose turn it is first
};

}  // namespace support
