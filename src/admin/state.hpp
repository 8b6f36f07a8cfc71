#pragma once

#include <weir/amount.hpp>
#include <weir/prometheus.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>
#include <weir/wait_histogram.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The state of weir-proxy for operators, as values that do not depend on their source.
namespace admin {

/// Why a limit did not grant a request.
enum class reason : std::uint8_t {
    no_permit,             // immediately: requests do not wait there
    queue_full,            // the queue has its maximum length
    timed_out,             // the patience ended during the wait
    deadline_unreachable,  // the wait would exceed the patience
    shed,                  // the queue drops requests that waited for long
    unavailable,           // the store is unavailable
    too_many_keys,         // the limit tracks as many keys as it may
    exceeds_capacity,      // the limit can never grant as much as the request costs
    disconnected,          // the client disconnected while its request waited
    closed,                // the limit is being removed
};
inline constexpr std::array<std::string_view, 10> reason_names{
    "no_permit",   "queue_full",    "timed_out",        "deadline_unreachable", "shed",
    "unavailable", "too_many_keys", "exceeds_capacity", "disconnected",         "closed"};
using rejections = std::array<std::uint64_t, reason_names.size()>;
[[nodiscard]] constexpr rejections rejections_of(weir::limiter_stats const& s) noexcept {
    return {s.no_permit, s.queue_full,  s.timed_out,     s.deadline_unreachable,
            s.shed,      s.unavailable, s.too_many_keys, s.exceeds_capacity,
            s.cancelled, s.closed};
}

/// A client and its rejections by a limit: the true number is at most `rejected` and at least `rejected - error`.
struct rejected_client {
    std::string client;
    std::uint64_t rejected = 0;
    std::uint64_t error = 0;
};

/// Requests to a store by result.
struct store_state {
    std::string mode;
    std::uint64_t requests = 0;
    std::uint64_t failed = 0;
    std::uint64_t unanswered = 0;
    std::uint64_t bypassed_permits = 0;
};

/// One limit at one instant. A limit with a key shows the sum over all keys.
struct limit_state : weir::limit_metrics {
    std::uint64_t id = 0;  // unique in this process
    std::string rule;
    std::string queue;
    std::string key;     // selects the limiter of a request; empty: one limiter for all
    bool seats = false;  // it limits concurrent requests
    // The bounds of a limit with a key, and the memory of its keys in bytes, which a limit with a tree does not know.
    std::optional<std::uint64_t> max_keys;
    std::string when_full;  // `share` or `reject`, for requests with further keys
    std::optional<std::uint64_t> memory;
    std::optional<std::uint64_t> max_memory;
    std::optional<std::uint64_t> evicted;  // keys whose place a new key took
    bool writable = false;                 // a request to the admin server may change its rule
    bool previewable = false;              // it may preview another rule

    /// The last change of the rule by a request.
    struct change {
        std::string from;  // the rule before
        std::chrono::system_clock::time_point at;
    };
    std::optional<change> changed;  // empty if there is none to undo
    std::optional<store_state> store;

    std::vector<std::string> routes;  // the names of the first routes that name it
    std::size_t routes_total = 0;     // routes that name it

    // In the last 9 to 10 minutes: see `history`.
    weir::wait_histogram recent_waits;
    std::vector<rejected_client> top_rejected;
    // In the last minute:
    struct last_minute {
        std::uint64_t granted = 0;
        std::uint64_t rejected = 0;
        weir::wait_histogram waits;  // in 50 to 60 s
    };
    last_minute minute;
    /// Since when the limit rejects or delays requests, without a pause of 10 s; empty if it does neither.
    std::optional<std::chrono::system_clock::time_point> since;

    /// The part of the limit that is in use, from 0 to 1; empty if it is unknown.
    [[nodiscard]] std::optional<double> use() const noexcept {
        if (keys || stats.capacity <= 0 || store)
            return std::nullopt;
        auto const used = seats ? stats.in_use : stats.capacity - stats.remaining;
        return std::clamp(static_cast<double>(used) / static_cast<double>(stats.capacity), 0.0,
                          1.0);
    }

    /// The rejected requests, without the requests whose client disconnected.
    [[nodiscard]] std::uint64_t rejected_total() const noexcept {
        std::uint64_t n = 0;
        for (auto const of_one_reason : rejections_of(stats))
            n += of_one_reason;
        return n - stats.cancelled;
    }
};

/// One direction of a limit of bytes. A limit with a key shows the sum over all keys.
struct bandwidth_state {
    std::string name;
    std::string direction;  // `up` or `down`
    std::string rate;
    std::string key;            // empty: one bandwidth for all
    bool dry_run = false;       // it counts, but never delays
    std::uint64_t bytes = 0;    // that passed
    std::uint64_t late = 0;     // that a dry run would have delayed
    weir::duration waited{};    // the sum of the waits of transfers
    std::uint64_t waiting = 0;  // transfers that wait now
    std::optional<std::uint64_t> keys;
    std::optional<std::uint64_t> max_keys;
};

/// The connections of a listener for any protocol, or of one of its routes.
struct tcp_state {
    static constexpr std::array<std::string_view, 5> results{
        "served", "rejected", "disconnected", "failed", "unrouted"};

    std::string name;           // the address of the listener
    std::string sni;            // the server names of the route; empty for all other connections
    std::string upstream;       // empty: it refuses them
    std::uint64_t active = 0;   // connections to a server
    std::uint64_t waiting = 0;  // in the queues of limits
    std::array<std::uint64_t, results.size()> ended{};
    std::uint64_t bytes_up = 0;  // to servers
    std::uint64_t bytes_down = 0;
};

/// A histogram of durations: one range ends at each of `ends`, and the last range has no end.
struct latency {
    static constexpr std::array<std::chrono::microseconds, 14> ends{
        std::chrono::microseconds(500),       std::chrono::microseconds(1'000),
        std::chrono::microseconds(2'500),     std::chrono::microseconds(5'000),
        std::chrono::microseconds(10'000),    std::chrono::microseconds(25'000),
        std::chrono::microseconds(50'000),    std::chrono::microseconds(100'000),
        std::chrono::microseconds(250'000),   std::chrono::microseconds(500'000),
        std::chrono::microseconds(1'000'000), std::chrono::microseconds(2'500'000),
        std::chrono::microseconds(5'000'000), std::chrono::microseconds(10'000'000)};
    static constexpr std::size_t ranges = ends.size() + 1;

    std::array<std::uint64_t, ranges> counts{};
    weir::duration total{};

    [[nodiscard]] std::uint64_t count() const noexcept {
        std::uint64_t n = 0;
        for (auto const of_one : counts)
            n += of_one;
        return n;
    }
    /// The duration that the part `q` of all durations does not exceed, as if the durations of a range were spread
    /// evenly; the end of the last range that has one, if the range itself has none. 0 without durations.
    [[nodiscard]] weir::duration quantile(double q) const noexcept;

    friend latency operator-(latency a, latency const& earlier) noexcept {
        for (std::size_t i = 0; i != ranges; ++i)
            a.counts[i] -= earlier.counts[i];
        a.total -= earlier.total;
        return a;
    }
};

/// The responses to the requests of a route.
struct route_state {
    struct status_count {
        std::string
            status;  // `404`; `4xx` for statuses that are not registered, and `other` beyond 5xx
        std::uint64_t count = 0;
    };

    std::string name;
    std::vector<status_count> responses;  // only statuses that occurred
    latency times;  // from the first byte of the request to the end of the response
};

/// The agent for the processes of this machine.
struct agent_state {
    std::string path;
    std::uint64_t connections = 0;  // processes
    std::uint64_t limits = 0;       // that are fetched ahead
    std::uint64_t questions = 0;
    std::uint64_t grants = 0;  // questions with a grant in reply
};

struct server_state {
    std::string name;
    bool down = false;                    // it does not respond and gets no requests
    std::uint64_t connections = 0;        // open, active or idle
    std::optional<std::uint64_t> active;  // requests in progress; empty where they are not counted
    std::optional<weir::amount> seats;
    latency responses;                   // time to the response header
    std::uint64_t error_responses = 0;   // of these, with status 5xx
    std::uint64_t connect_failures = 0;  // failed connection attempts
    // The certificates of the server that were not accepted, and other errors of TLS; empty without TLS.
    std::optional<std::pair<std::uint64_t, std::uint64_t>> tls_failures;

    // See `history`.
    latency recent_responses;                                         // in 50 to 60 s
    std::optional<std::chrono::system_clock::time_point> down_since;  // if it is down
};

struct upstream_state {
    std::string name;
    bool checked = false;  // has health checks, so servers can be down
    std::vector<server_state> servers;
};

/// A certificate of a listener with TLS.
struct certificate_state {
    std::string listener;
    std::string file;
    std::chrono::system_clock::time_point valid_until;
};

/// The state of the whole proxy. The values of each limit belong to one instant.
struct state {
    std::string version;
    std::chrono::system_clock::time_point started;
    std::chrono::system_clock::time_point now;
    bool ready = false;
    bool draining = false;
    bool writable = false;
    std::uint64_t connections = 0;
    std::uint64_t open_connections = 0;
    std::uint64_t open_tunnels = 0;  // of these, upgraded to another protocol
    std::vector<std::pair<std::string_view, std::uint64_t>> requests;           // by result
    std::vector<std::pair<std::string_view, std::uint64_t>> handshakes;         // of TLS, by result
    std::vector<std::pair<std::string_view, std::uint64_t>> failed_handshakes;  // by reason
    /// Connections without the header of the PROXY protocol, by reason; empty if no listener expects it.
    std::vector<std::pair<std::string_view, std::uint64_t>> failed_introductions;
    std::vector<certificate_state> certificates;
    /// The responses that are not rejections of a limit, by class: 1xx and 2xx, 3xx, 4xx, 5xx and others.
    static constexpr std::size_t classes = 4;
    std::array<std::uint64_t, classes> responses{};
    weir::wait_histogram response_times;         // of all responses, as in `route_state`
    weir::wait_histogram recent_response_times;  // in 50 to 60 s: see `history`
    std::uint64_t active = 0;   // requests in progress, without upgraded connections
    std::uint64_t waiting = 0;  // of these, in the queues of limits
    std::uint64_t log_lines_dropped = 0;
    std::vector<route_state> routes;
    std::vector<limit_state> limits;
    std::vector<bandwidth_state> bandwidths;
    std::vector<tcp_state> tcp;
    std::vector<upstream_state> upstreams;
    std::optional<agent_state> agent;
    std::string bottleneck;  // a sentence that names the current bottleneck
};

}  // namespace admin
