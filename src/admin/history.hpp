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
#include <optional>
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

/// The activity of the proxy, of each limit and of each server in each of the last 600 seconds. Removed limits and
/// servers are forgotten.
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
        std::uint32_t p99_wait = 0;  // of the requests granted after a wait, in microseconds
    };
    /// The responses of one second by class, their times in microseconds, and the requests at its end.
    struct point_of_all {
        std::array<std::uint32_t, state::classes> responses{};
        std::uint32_t rejected = 0;
        std::uint32_t p50 = 0;
        std::uint32_t p99 = 0;
        std::uint32_t active = 0;
        std::uint32_t waiting = 0;
    };
    /// The responses of a server in one second, and its active requests at the end.
    struct point_of_server {
        std::uint32_t responses = 0;
        std::uint32_t errors = 0;
        std::uint32_t p99 = 0;  // in microseconds
        std::uint32_t active = 0;
    };

    /// Records `now` as the next point and adds the recent history to it. Call it once a second.
    void add(state& now);
    /// Adds the recent history to `now` without recording a point.
    void complete(state& now) const;

    /// Counts `times` rejections of a client by a limit, at most `error` of them wrongly. Counts expire after 9
    /// to 10 minutes.
    void count(rejected_by const& who, std::uint64_t times, std::uint64_t error);

    /// `{"second":N,"all":[...],"limits":{"ID":[...],...},"servers":{"UPSTREAM\nSERVER":[...],...}}`: the second of the
    /// last point, counted from the start of the proxy, and all points up to it, as lists of numbers.
    [[nodiscard]] std::string to_json() const;
    /// The JSON of `to_json` with only the last point.
    [[nodiscard]] std::string last_to_json() const;

private:
    static constexpr std::size_t minutes = 10;
    static constexpr std::uint32_t clients = 128;     // counted per minute, of all limits together
    static constexpr std::size_t clients_shown = 10;  // per limit

    static constexpr std::uint64_t pause = 10;  // seconds without an event that end an episode
    static constexpr std::size_t tens = 6;      // of seconds, in a minute

    struct of_limit {
        limit_state before;  // at the last point
        std::deque<point> points;
        std::deque<weir::wait_histogram> waits;         // at the start of each minute
        std::deque<weir::wait_histogram> waits_of_ten;  // at the start of each ten seconds
        std::optional<std::chrono::system_clock::time_point> since;
        std::uint64_t last_event = 0;  // a second
    };
    struct of_server {
        server_state before;
        std::deque<point_of_server> points;
        std::deque<latency> responses_of_ten;
        std::optional<std::chrono::system_clock::time_point> down_since;
    };

    void add_all(state const& now);
    void add_limits(state const& now);
    void add_servers(state const& now);
    void note_events(of_limit& of, limit_state const& l,
                     std::chrono::system_clock::time_point begin) const;
    [[nodiscard]] bool ten_seconds_passed() const noexcept { return second_ % 10 == 0; }
    [[nodiscard]] bool minute_passed() const noexcept { return second_ % 60 == 0; }

    [[nodiscard]] std::string to_json(std::size_t most) const;

    std::uint64_t second_ = 0;
    std::optional<state> before_;  // the last state, without limits and upstreams
    std::deque<point_of_all> points_;
    std::deque<weir::wait_histogram> times_of_ten_;
    std::map<std::uint64_t, of_limit> limits_;
    std::map<std::string, of_server> servers_;  // by upstream and name
    std::deque<most_frequent<rejected_by>> rejected_{most_frequent<rejected_by>(clients)};
};

/// A sentence that names the current bottleneck, from the changes since `before`, a moment ago.
[[nodiscard]] std::string bottleneck(state const& before, state const& now);

}  // namespace admin
