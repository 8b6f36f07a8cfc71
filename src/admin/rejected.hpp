#pragma once

#include <weir/heavy_hitters.hpp>

#include <boost/container_hash/hash.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace admin {

/// Finds the most frequent keys with a fixed number of counters: see `weir::heavy_hitters`. A Key has `==` and
/// `boost::hash`.
template <class Key>
class most_frequent {
public:
    struct counter {
        Key key;
        std::uint64_t count = 0;
        std::uint64_t error = 0;
    };

    explicit most_frequent(std::uint32_t counters) : counted_(counters) {}

    void count(Key const& key, std::uint64_t times = 1, std::uint64_t error = 0) {
        // `heavy_hitters` uses the upper bits of a hash; `boost::hash` leaves them 0 for a small number.
        auto const hash = std::uint64_t{boost::hash<Key>()(key)} * 0x9e37'79b9'7f4a'7c15;
        auto const same = [&](Key const& other) { return other == key; };
        counted_.count(hash, same, [&] { return key; }, times, error);
    }

    /// All counted keys, the most frequent first.
    [[nodiscard]] std::vector<counter> all() const {
        std::vector<counter> found;
        counted_.for_each([&](auto const& f) { found.push_back({f.key, f.count, f.error}); });
        std::ranges::sort(found, std::ranges::greater(), &counter::count);
        return found;
    }
    void clear() noexcept { counted_.clear(); }

private:
    weir::heavy_hitters<Key> counted_;
};

}  // namespace admin
