#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace admin {

/// Which keys come most often, in so many counters at most. While all are taken, a new key gets that of a key that has come
/// least, and goes on from its count, which is then its error.
///
/// Source: Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
/// Streams" (2005): Space-Saving.
template <class Key>
class most_frequent {
public:
    struct counter {
        Key key;
        std::uint64_t count = 0;
        std::uint64_t error = 0;
    };

    explicit most_frequent(std::size_t counters) : most_(counters) { all_.reserve(counters); }

    void count(Key const& key, std::uint64_t times = 1, std::uint64_t error = 0) {
        counter* least = nullptr;
        for (auto& one : all_) {
            if (one.key == key) {
                one.count += times;
                one.error += error;
                return;
            }
            if (!least || one.count < least->count)
                least = &one;
        }
        if (all_.size() < most_) {
            all_.push_back({key, times, error});
            return;
        }
        least->key = key;
        least->error = least->count + error;
        least->count += times;
    }

    [[nodiscard]] std::vector<counter> const& all() const noexcept { return all_; }
    [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
    void clear() noexcept { all_.clear(); }

private:
    std::size_t most_;
    std::vector<counter> all_;
};

}  // namespace admin
