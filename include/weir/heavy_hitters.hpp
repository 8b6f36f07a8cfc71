#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weir::inline v0_2 {

/// Finds the most frequent keys of a stream with a fixed number of counters.
///
/// When all counters are in use, a new key takes over the counter with the smallest count. It continues from that
/// count, which becomes its error: the true count of a key lies between `count - error` and `count`. After `all` events
/// the error is at most `all / counters`, and every key with more than `all / counters` events has a counter.
///
/// One event takes constant time: the counters are sorted by their counts, in groups of equal counts. A call that adds
/// several events passes each group between the old count and the new one.
///
/// A Key is default-constructible and its move throws nothing. The caller supplies hashes and comparisons. Not safe for
/// concurrent use.
///
/// Source: Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams"
/// (2005): Space-Saving.
template <class Key>
class heavy_hitters {
    using index = std::uint32_t;  // of a counter, a place or a group
    static constexpr index none = ~index{0};

    struct counter {
        Key key{};
        std::uint64_t hash = 0;
        std::uint64_t error = 0;
        index next = none;  // of the same bucket
        index place = 0;    // in the order
        index group = 0;
    };
    // The counters with one count: a range of the order.
    struct group {
        std::uint64_t count;
        index begin;
        index end;
        index next_unused;
    };

public:
    /// A key with a counter, for `for_each`: its true count lies between `count - error` and `count`.
    struct found {
        /// The key.
        Key const& key;
        /// The hash of the key.
        std::uint64_t hash;
        /// The largest possible count of the key.
        std::uint64_t count;
        /// The number by which `count` may be too large.
        std::uint64_t error;
    };

    /// With 0 counters `is_on()` is false. Throws `std::bad_alloc`.
    explicit heavy_hitters(std::uint32_t counters)
        : counters_(counters),
          order_(counters),
          buckets_(counters == 0 ? 0 : std::bit_ceil(counters)),
          groups_(counters) {
        clear();
    }

    /// Returns whether there are counters.
    [[nodiscard]] bool is_on() const noexcept { return !counters_.empty(); }

    /// Forgets all keys.
    void clear() noexcept {
        buckets_.assign(buckets_.size(), none);
        for (index i = 0; i != counters_.size(); ++i) {
            counters_[i] = counter{.place = i};
            order_[i] = i;
            groups_[i].next_unused = i + 1;
        }
        first_unused_ = 0;
        if (is_on())
            groups_[new_group()] = {.count = 0, .begin = 0, .end = size(), .next_unused = none};
    }

    /// Adds `times` events of the key with this hash for which `same(key)` is true, and adds `error` to its error.
    /// Returns the stored key.
    ///
    /// If the key has no counter, `make()` returns the key to store; if `make()` throws, nothing changes.
    ///
    /// @pre `is_on()` and `times > 0`
    template <class Same, class Make>
    Key& count(std::uint64_t hash, Same same, Make make, std::uint64_t times = 1,
               std::uint64_t error = 0) {
        auto i = place_of(hash, same);
        if (i == none)
            i = counter_for(make(), hash);
        counters_[i].error += error;
        raise(i, times);
        return counters_[i].key;
    }
    /// Returns the stored key, or null if the key has no counter.
    template <class Same>
    [[nodiscard]] Key* find(std::uint64_t hash, Same same) noexcept {
        auto const i = is_on() ? place_of(hash, same) : none;
        return i == none ? nullptr : &counters_[i].key;
    }

    /// Returns the largest possible count of a key without a counter.
    [[nodiscard]] std::uint64_t count_without_counter() const noexcept {
        return is_on() ? count_of(order_.front()) : 0;
    }
    /// Calls `f(found)` for each key with a counter, in unspecified order.
    template <class F>
    void for_each(F f) const {
        for (auto const& c : counters_) {
            if (auto const count = groups_[c.group].count; count != 0)
                f(found{c.key, c.hash, count, c.error});
        }
    }

private:
    [[nodiscard]] index size() const noexcept { return static_cast<index>(counters_.size()); }
    [[nodiscard]] std::uint64_t count_of(index i) const noexcept {
        return groups_[counters_[i].group].count;
    }

    // From the upper bits: the caller may have selected this part of its keys by the lower bits.
    [[nodiscard]] index& bucket_of(std::uint64_t hash) noexcept {
        return buckets_[(hash >> 32) & (buckets_.size() - 1)];
    }
    template <class Same>
    [[nodiscard]] index place_of(std::uint64_t hash, Same& same) noexcept {
        auto i = bucket_of(hash);
        while (i != none && !(counters_[i].hash == hash && same(std::as_const(counters_[i].key))))
            i = counters_[i].next;
        return i;
    }

    // Gives the key the counter with the smallest count, which may be unused.
    [[nodiscard]] index counter_for(Key key, std::uint64_t hash) noexcept {
        auto const i = order_.front();
        counter& c = counters_[i];
        if (count_of(i) != 0) {
            auto* link = &bucket_of(c.hash);
            while (*link != i)
                link = &counters_[*link].next;
            *link = c.next;
        }
        c.key = std::move(key);
        c.hash = hash;
        c.error = count_of(i);
        c.next = std::exchange(bucket_of(hash), i);
        return i;
    }

    void put(index i, index place) noexcept {
        order_[place] = i;
        counters_[i].place = place;
    }
    // Moves the counter behind all smaller counts. Each group that it passes moves one place towards the front.
    void raise(index i, std::uint64_t times) noexcept {
        auto const own = counters_[i].group;
        auto const count = groups_[own].count + times;
        auto place = groups_[own].end - 1;
        put(order_[place], counters_[i].place);
        bool const is_alone = groups_[own].begin == place;
        groups_[own].end = place;
        auto behind = group_at(place + 1);
        while (behind != none && groups_[behind].count < count) {
            auto& g = groups_[behind];
            put(order_[g.end - 1], place);
            g.begin = place;
            place = --g.end;
            behind = group_at(place + 1);
        }
        put(i, place);
        if (behind != none && groups_[behind].count == count) {
            groups_[behind].begin = place;
            counters_[i].group = behind;
            if (is_alone)
                groups_[own].next_unused = std::exchange(first_unused_, own);
            return;
        }
        auto const mine = is_alone ? own : new_group();
        groups_[mine] = {.count = count, .begin = place, .end = place + 1, .next_unused = none};
        counters_[i].group = mine;
    }
    [[nodiscard]] index group_at(index place) const noexcept {
        return place == size() ? none : counters_[order_[place]].group;
    }
    // There are at most as many groups as counters, since no group is empty.
    [[nodiscard]] index new_group() noexcept {
        return std::exchange(first_unused_, groups_[first_unused_].next_unused);
    }

    std::vector<counter> counters_;
    std::vector<index> order_;  // by their counts
    std::vector<index> buckets_;
    std::vector<group> groups_;
    index first_unused_ = 0;  // of the groups
};

}  // namespace weir::inline v0_2
