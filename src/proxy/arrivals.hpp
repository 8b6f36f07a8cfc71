#pragma once

#include "net/clock.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace proxy {

/// A request that a limit granted or rejected.
struct arrival {
    net::clock::time_point at;
    std::uint64_t key = 0;      // 0 for a limit without a key
    std::uint32_t permits = 1;  // that it asked for
    std::uint32_t held = 0;     // microseconds from the grant to the end of the request
    std::uint16_t status = 0;   // of the response; 0 without one
    bool granted = false;       // otherwise `held` and `status` are unknown
};

/// The requests of a limit in the last ten minutes. Any thread may use it.
///
/// The record has at most `most` requests, which take 4 MiB. A limit with more requests has a thinned record:
///
/// - Without a key, each request in it stands for 2, 4, 8, ... requests.
/// - With a key, it has all requests of a half, a quarter, an eighth, ... of the keys. A thinner record could miss a
///   key with a large part of the requests. If there is such a key, the record has the newest requests only.
class arrivals {
public:
    static constexpr std::chrono::minutes span{10};
    static constexpr std::size_t most = 128 * 1024;

    /// Creates an empty record that begins at `now`.
    arrivals(bool is_keyed, net::clock::time_point now) noexcept
        : is_keyed_(is_keyed), since_(now) {}

    /// Adds a request at its end. Without memory, the request is left out.
    void add(arrival const& a) noexcept;

    /// Requests that ended one after another, in the order of their ends.
    struct block {
        std::vector<arrival> kept;
        std::uint64_t seen = 0;  // requests, kept or not
        unsigned level = 0;      // one in 2^level is kept
        net::clock::time_point end;
    };

    /// The record at one instant.
    struct copy {
        std::vector<std::shared_ptr<block const>> blocks;
        bool is_keyed = false;
        net::clock::time_point since;  // the record has the requests that arrived from then on
        net::clock::time_point until;
    };
    [[nodiscard]] copy at(net::clock::time_point now) const;

    /// Whether a record with a key that keeps one key in 2^level keeps this one.
    [[nodiscard]] static bool keeps_key(std::uint64_t key, unsigned level) noexcept {
        auto const mixed = static_cast<std::uint32_t>((key * 0x9e3779b97f4a7c15) >> 32);
        return (mixed & mask(level)) == 0;
    }

private:
    static constexpr std::size_t most_in_block = 512;
    static constexpr std::chrono::seconds longest_block{10};
    static constexpr unsigned last_level = 31;

    static constexpr std::uint32_t mask(unsigned level) noexcept {
        return (std::uint32_t{1} << level) - 1;
    }
    void close_block();
    void make_room();
    void drop_oldest();
    [[nodiscard]] bool halves_evenly() const noexcept;
    [[nodiscard]] std::shared_ptr<block const> thinned(block const& b) const;

    bool const is_keyed_;
    std::mutex mutable mutex_;
    net::clock::time_point since_;
    net::clock::time_point newest_{net::clock::time_point::min()};
    net::clock::time_point begin_of_last_{net::clock::time_point::min()};
    block last_;                                       // grows
    std::deque<std::shared_ptr<block const>> closed_;  // the oldest first
    std::size_t kept_ = 0;                             // in `closed_`
    unsigned level_ = 0;                               // of `last_`
    std::size_t next_ = 0;  // the closed blocks before this one have `level_` or a higher level
};

}  // namespace proxy
