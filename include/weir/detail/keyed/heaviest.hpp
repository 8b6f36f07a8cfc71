#pragma once

#include <weir/detail/keyed/heavy_keys.hpp>
#include <weir/stats.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weir::inline v0_2::detail {

/// The counts of one part of a limiter.
template <class Key>
struct heavy_part {
    explicit heavy_part(heavy_keys<Key> const& counted) : others(counted.count_without_counter()) {
        counted.for_each([&](auto const& found) {
            keys.push_back({Key(found.key.key()), found.count, found.error, found.rejected});
            hashes.push_back(found.hash);
        });
    }

    std::vector<heavy_key<Key>> keys;
    std::vector<std::uint64_t> hashes;
    std::uint64_t others;  // the maximum count of a key that is not among them
};

/// Adds the counts of the last part, which can be of any key, to the counts of the other parts, which have disjoint
/// sets of keys. A key without a counter in one of the two parts may have lost it.
///
/// Source: Agarwal and others, "Mergeable Summaries" (2012).
template <class Key, class PartOf>
void add_shared(std::span<heavy_part<Key>> parts, PartOf part_of) {
    auto& shared = parts.back();
    auto const own = parts.first(parts.size() - 1);
    std::unordered_multimap<std::uint64_t, heavy_key<Key>*> of_hash;
    for (std::size_t i = 0; i != shared.keys.size(); ++i)
        of_hash.emplace(shared.hashes[i], &shared.keys[i]);
    for (auto& part : own) {
        for (std::size_t i = 0; i != part.keys.size(); ++i) {
            auto& key = part.keys[i];
            auto [at, end] = of_hash.equal_range(part.hashes[i]);
            at = std::find_if(at, end, [&](auto const& e) { return e.second->key == key.key; });
            bool const in_both = at != end;
            key.requests += in_both ? at->second->requests : shared.others;
            key.error += in_both ? at->second->error : shared.others;
            key.rejected += in_both ? at->second->rejected : 0;
            if (in_both)
                of_hash.erase(at);
        }
    }
    std::vector<heavy_key<Key>> others;
    for (auto& [hash, key] : of_hash) {
        key->requests += own[part_of(hash)].others;
        key->error += own[part_of(hash)].others;
        others.push_back(std::move(*key));
    }
    shared.keys = std::move(others);
}

/// Returns the `n` keys with the greatest counts. If `shared`, any key may also be counted in the last part.
template <class Key, class PartOf>
[[nodiscard]] std::vector<heavy_key<Key>> heaviest(std::size_t n, std::span<heavy_part<Key>> parts,
                                                   bool shared, PartOf part_of) {
    if (shared)
        add_shared(parts, part_of);
    std::vector<heavy_key<Key>> all;
    for (auto& part : parts)
        std::move(part.keys.begin(), part.keys.end(), std::back_inserter(all));
    auto const end = all.begin() + static_cast<std::ptrdiff_t>(std::min(n, all.size()));
    std::partial_sort(all.begin(), end, all.end(),
                      [](auto const& a, auto const& b) { return a.requests > b.requests; });
    all.erase(end, all.end());
    return all;
}

}  // namespace weir::inline v0_2::detail
