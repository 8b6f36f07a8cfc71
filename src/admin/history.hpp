#pragma once

#include "rejected.hpp"
#include "state.hpp"

#include <boost/container_hash/hash.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace admin {

/// A client that a limit has rejected.
struct rejected_by {
    std::uint64_t limit = 0;
    std::string client;

    friend bool operator==(rejected_by const&, rejected_by const&) = default;
    friend std::size_t hash_value(rejected_by const& r) {
        auto seed = boost::hash<std::string>()(r.client);
        boost::hash_combine(seed, r.limit);
        return seed;
    }
};

/// What a limit has rejected between two moments. Where it has become a dry run, or was one, nothing: what a dry run would have
/// rejected is counted in another way.
[[nodiscard]] rejections rejected_since(limit_state const& before, limit_state const& now);

/// What limits have done in each of the last seconds. Of a limit that has gone nothing is kept.
class history {
public:
    static constexpr std::size_t seconds = 600;

    /// What has happened within a second, and how many wait and are in use at its end.
    struct point {
        std::uint32_t at_once = 0;
        std::uint32_t later = 0;
        std::array<std::uint32_t, reason_names.size()> rejected{};
        std::uint32_t waiting = 0;
        std::uint32_t in_use = 0;
    };

    /// Once a second: what is now. Completes it with what was lately.
    void add(state& now);
    /// Completes it without going on.
    void complete(state& now) const;

    /// So often a limit has rejected a client. What nobody counts for ten minutes is forgotten.
    void count(rejected_by const& who, std::uint64_t times, std::uint64_t error);

    /// `{"second":N,"limits":{"ID":[[at_once,later,waiting,in_use,rejected...],...]}}`: the second of the last point since
    /// the proxy was started, and the points up to it.
    [[nodiscard]] std::string to_json() const;
    /// The same of the last point alone.
    [[nodiscard]] std::string last_to_json() const;

private:
    static constexpr std::size_t minutes = 10;
    static constexpr std::uint32_t clients =
        128;  // that are counted apart, of all limits in a minute
    static constexpr std::size_t clients_shown = 10;  // of a limit

    struct of_limit {
        limit_state before;  // at the last point
        std::deque<point> points;
        std::deque<weir::wait_histogram> waits;  // at the beginning of each minute
    };

    [[nodiscard]] std::string to_json(std::size_t most) const;

    std::uint64_t second_ = 0;
    std::map<std::uint64_t, of_limit> limits_;
    std::deque<most_frequent<rejected_by>> rejected_{most_frequent<rejected_by>(clients)};
};

/// A sentence for people: what holds requests back now, by what has happened since `before`, a moment ago.
[[nodiscard]] std::string bottleneck(state const& before, state const& now);

}  // namespace admin
