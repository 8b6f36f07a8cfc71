#pragma once

#include <weir/time.hpp>

#include <cstdint>
#include <limits>

namespace weir::inline v0_2 {

/// The handling of a new key while the limiter has reached `max_keys` or `max_bytes` and can forget or evict no key.
enum class when_no_place : std::uint8_t {
    reject,  ///< reject it with `errc::too_many_keys`
    share,  ///< all such keys share one state and one queue, with the same options, until a kept key is forgotten
};

/// Options of a limiter by key.
struct keyed_options {
    /// The maximum number of keys, 1 to 2^32. A key is kept only while its state differs from the state of an unused
    /// key, and a little longer.
    std::uint64_t max_keys = 1'000'000;

    /// The maximum memory of all keys in bytes: of the tables, and the heap memory of the states, such as the entries of
    /// a `sliding_log`, without queues and texts. It bounds new keys only, and each shard may keep 32 keys in any case.
    /// The states of kept keys may grow beyond it, because each key is granted exactly what its rule allows.
    std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max();

    /// A key whose state will equal an unused key's state within this time may be evicted: a new key takes its place
    /// while the limiter has reached `max_keys` or `max_bytes` and can forget no key. From 0, which evicts none, to 24 h.
    ///
    /// An evicted key that returns is a new key. So each eviction grants its key what the rule grants, at most, in this
    /// time; a key with a held seat or a waiting request is never evicted. Against a client that invents keys: each of
    /// these is used little, so they evict each other, and not the keys whose requests it rejects.
    duration evict_within{};

    /// The handling of a new key while the limiter has reached `max_keys` or `max_bytes` and can forget or evict no key.
    when_no_place no_place = when_no_place::reject;

    /// The number of shards, 1 to 1,024, rounded up to a power of two. It is reduced until each shard has at least 64
    /// of `max_keys`. Each shard has its own lock and timer, so more shards reduce contention between threads.
    std::uint32_t shards = 16;

    /// The number of counters per shard with which `heaviest` finds the most frequent keys, 0 to 65,536. A counter
    /// takes about 60 bytes. 0 switches this off.
    std::uint32_t heavy_keys = 0;
};

namespace detail {

/// Returns `options`, or throws `std::invalid_argument` that names the option, its value and the bound.
keyed_options const& validated(keyed_options const& options);

}  // namespace detail

}  // namespace weir::inline v0_2
