#pragma once

#include <weir/detail/key_handle.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weir::detail {

/// Which keys have come most often, in a fixed number of counters. While all counters are taken, a key that
/// has none gets that of a key that has come least, and goes on from its count, which is then its error:
/// how often it has come in truth is from `count - error` to `count`. After `all` events the error is at
/// most `all / counters`, and each key that has come more often than that has a counter.
///
/// Each event takes constant time: counters are in the order of their counts, in groups of those that are
/// equal.
///
/// Source: Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
/// Streams" (2005): Space-Saving.
template <class Key>
class heavy_keys {
    using handle = key_handle<Key>;
    using index = std::uint32_t;  // of a counter, a place or a group
    static constexpr index none = ~index{0};

    struct counter {
        std::uint64_t key;  // the word of a handle that is kept
        std::uint64_t hash;
        std::uint64_t error;
        std::uint64_t refused;
        index next;   // of the same bucket
        index place;  // in the order
        index group;
    };
    // Those with one count: a stretch of the order.
    struct group {
        std::uint64_t count;
        index begin;
        index end;
        index next_unused;
    };

public:
    struct found {
        handle key;
        std::uint64_t hash;
        std::uint64_t count;
        std::uint64_t error;
        std::uint64_t refused;
    };

    /// With none it counts nothing. Throws `std::bad_alloc`.
    explicit heavy_keys(index counters)
        : counters_(counters),
          order_(counters),
          buckets_(counters == 0 ? 0 : std::bit_ceil(counters), none),
          groups_(counters) {
        for (index i = 0; i != counters; ++i) {
            counters_[i].place = order_[i] = i;
            groups_[i].next_unused = i + 1;
        }
        if (is_on())
            groups_[new_group()] = {.count = 0, .begin = 0, .end = counters, .next_unused = none};
    }
    heavy_keys(heavy_keys const&) = delete;
    heavy_keys& operator=(heavy_keys const&) = delete;
    ~heavy_keys() {
        for_each([](found const& f) { f.key.release(); });
    }

    [[nodiscard]] bool is_on() const noexcept { return !counters_.empty(); }

    /// `key` has come, which `refused` says; `keep()` gives a handle of it that is released in the end. If
    /// that throws, the event is not counted.
    template <class Like, class Keep>
    void count(Like const& key, std::uint64_t hash, bool refused, Keep keep) noexcept {
        auto c = find(hash, key);
        try {
            if (c == none)
                c = counter_for(keep(), hash);
        } catch (...) {
            return;
        }
        counters_[c].refused += refused;
        promote(c);
    }
    /// Requests that were counted when they came have been refused.
    void refuse(handle key, std::uint64_t hash, std::uint64_t times) noexcept {
        if (auto const c = find(hash, key.key()); c != none)
            counters_[c].refused += times;
    }

    /// At most how often a key has come that has no counter.
    [[nodiscard]] std::uint64_t count_without_counter() const noexcept {
        return is_on() ? count_of(order_.front()) : 0;
    }
    /// Calls `f(found)` for each key that has a counter, in no order.
    template <class F>
    void for_each(F f) const {
        for (auto const& c : counters_) {
            if (auto const count = groups_[c.group].count; count != 0)
                f(found{handle::from(c.key), c.hash, count, c.error, c.refused});
        }
    }

private:
    [[nodiscard]] std::uint64_t count_of(index c) const noexcept {
        return groups_[counters_[c].group].count;
    }

    // Other bits than those by which the table has been chosen.
    [[nodiscard]] index& bucket_of(std::uint64_t hash) noexcept {
        return buckets_[(hash >> 32) & (buckets_.size() - 1)];
    }
    template <class Like>
    [[nodiscard]] index find(std::uint64_t hash, Like const& key) noexcept {
        auto c = bucket_of(hash);
        while (c != none &&
               !(counters_[c].hash == hash && handle::from(counters_[c].key).key() == key))
            c = counters_[c].next;
        return c;
    }

    // That of a key that has come least, or one that was never used, for another key.
    [[nodiscard]] index counter_for(handle key, std::uint64_t hash) noexcept {
        auto const i = order_.front();
        counter& c = counters_[i];
        if (count_of(i) != 0) {
            auto* link = &bucket_of(c.hash);
            while (*link != i)
                link = &counters_[*link].next;
            *link = c.next;
            handle::from(c.key).release();
        }
        c.key = key.word();
        c.hash = hash;
        c.error = count_of(i);
        c.refused = 0;
        c.next = std::exchange(bucket_of(hash), i);
        return i;
    }

    // Counts one more: from the end of its group into the one behind.
    void promote(index i) noexcept {
        counter& c = counters_[i];
        auto const own = c.group;
        auto const last = groups_[own].end - 1;
        counters_[order_[last]].place = c.place;
        std::swap(order_[c.place], order_[last]);
        c.place = last;

        auto const count = groups_[own].count + 1;
        auto const behind = last + 1 == order_.size() ? none : counters_[order_[last + 1]].group;
        bool const is_alone = groups_[own].begin == last;
        if (behind != none && groups_[behind].count == count) {
            groups_[behind].begin = last;
            c.group = behind;
        } else if (is_alone) {
            groups_[own].count = count;
            return;
        } else {
            c.group = new_group();
            groups_[c.group] = {
                .count = count, .begin = last, .end = last + 1, .next_unused = none};
        }
        groups_[own].end = last;
        if (is_alone)
            groups_[own].next_unused = std::exchange(first_unused_, own);
    }
    // Never more than there are counters, since none is empty.
    [[nodiscard]] index new_group() noexcept {
        return std::exchange(first_unused_, groups_[first_unused_].next_unused);
    }

    std::vector<counter> counters_;
    std::vector<index> order_;  // by their counts
    std::vector<index> buckets_;
    std::vector<group> groups_;
    index first_unused_ = 0;  // of the groups
};

}  // namespace weir::detail
