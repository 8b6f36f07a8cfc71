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

/// A client that a limit rejected.
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

/// The rejections of a limit between two states. None if it changed to or from a dry run in between: the counters of a
/// dry run have another meaning.
[[nodiscard]] rejections rejected_since(limit_state const& before, limit_state const& now);

/// The activity of each limit in each of the last 600 seconds. Removed limits are forgotten.
class history {
public:
    static constexpr std::size_t seconds = 600;

    /// The events of one second, and the requests waiting and permits in use at its end.
    struct point {
        std::uint32_t at_once = 0;
        std::uint32_t later = 0;
        std::array<std::uint32_t, reason_names.size()> rejected{};
        std::uint32_t waiting = 0;
        std::uint32_t in_use = 0;
    };

    /// Records `now` as the next point and adds the recent history to it. Call it once a second.
    void add(state& now);
    /// Adds the recent history to `now` without recording a point.
    void complete(state& now) const;

    /// Counts `times` rejections of a client by a limit, at most `error` of them wrongly. Counts expire after 9
    /// to 10 minutes.
    void count(rejected_by const& who, std::uint64_t times, std::uint64_t error);

    /// `{"second":N,"limits":{"ID":[[at_once,later,waiting,in_use,rejected...],...]}}`: the second of the last point,
    /// counted from the start of the proxy, and all points up to it.
    [[nodiscard]] std::string to_json() const;
    /// The JSON of `to_json` with only the last point.
    [[nodiscard]] std::string last_to_json() const;

private:
    static constexpr std::size_t minutes = 10;
    static constexpr std::uint32_t clients = 128;     // counted per minute, of all limits together
    static constexpr std::size_t clients_shown = 10;  // per limit

    struct of_limit {
        limit_state before;  // at the last point
        std::deque<point> points;
        std::deque<weir::wait_histogram> waits;  // at the start of each minute
    };

    [[nodiscard]] std::string to_json(std::size_t most) const;

    std::uint64_t second_ = 0;
    std::map<std::uint64_t, of_limit> limits_;
    std::deque<most_frequent<rejected_by>> rejected_{most_frequent<rejected_by>(clients)};
};

/// A sentence that names the current bottleneck, from the changes since `before`, a moment ago.
[[nodiscard]] std::string bottleneck(state const& before, state const& now);

}  // namespace admin
