#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>
#include <weir/wait_histogram.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What an operator sees of weir-proxy, as values: nothing here knows where they come from.
namespace admin {

/// Why a limit has not let a request in.
enum class reason : std::uint8_t {
    no_permit,             // at once: nobody waits there
    queue_full,            // too many wait
    timed_out,             // its turn did not come in time
    deadline_unreachable,  // its turn would have come too late
    shed,                  // its queue gives up those that have waited for long
    unavailable,           // what keeps the limit does not answer
    disconnected,          // the client has left the queue
    other,
};
inline constexpr std::array<std::string_view, 8> reason_names{
    "no_permit", "queue_full",  "timed_out",    "deadline_unreachable",
    "shed",      "unavailable", "disconnected", "other"};
using rejections = std::array<std::uint64_t, reason_names.size()>;

/// A client and how often a limit has rejected it: in truth at most so often, and at least `rejected - error`.
struct rejected_client {
    std::string client;
    std::uint64_t rejected = 0;
    std::uint64_t error = 0;
};

/// What the questions to a store have come to.
struct store_state {
    std::string mode;
    std::uint64_t questions = 0;
    std::uint64_t failed = 0;
    std::uint64_t unanswered = 0;
    std::uint64_t bypassed_permits = 0;
};

/// One limit, all of one instant; of a limit by keys, of all keys together.
struct limit_state {
    std::uint64_t id = 0;  // of no other limit in this process
    std::string name;
    std::string rule;
    std::string queue;
    std::string key;        // what tells requests apart; empty: nothing does
    bool dry_run = false;   // it holds nobody up
    bool seats = false;     // it is about how many at a time
    bool writable = false;  // its rule may be changed from outside

    // Since it was made.
    std::uint64_t granted = 0;
    std::uint64_t granted_at_once = 0;
    rejections rejected{};
    weir::duration waited_total{};
    weir::duration waited_max{};
    weir::wait_histogram waits;  // of those that were granted later than at once

    // Now.
    std::uint64_t waiting = 0;
    weir::duration oldest_wait{};
    std::uint64_t in_use = 0;
    std::optional<weir::amount> capacity;  // of one key there is none
    std::optional<std::uint64_t> keys;
    std::optional<store_state> store;

    // Lately: see `history`.
    weir::wait_histogram recent_waits;
    std::vector<rejected_client> top_rejected;

    /// Those that it has turned away: a client that has hung up has left by itself.
    [[nodiscard]] std::uint64_t rejected_total() const noexcept {
        std::uint64_t n = 0;
        for (std::size_t i = 0; i != rejected.size(); ++i)
            n += i == static_cast<std::size_t>(reason::disconnected) ? 0 : rejected[i];
        return n;
    }
};

/// How long something took, in ranges that end at `ends`, and without an end.
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
};

struct server_state {
    std::string name;
    bool out = false;                   // it does not answer, and is not asked
    std::uint64_t connections = 0;      // open, used or kept
    std::optional<std::uint64_t> busy;  // requests there, where they are counted
    std::optional<weir::amount> seats;
    latency answers;                // until the head of the answer was there
    std::uint64_t unreachable = 0;  // connections that could not be made
};

struct upstream_state {
    std::string name;
    bool checked = false;  // servers can be out
    std::vector<server_state> servers;
};

/// All of it. Limits are each of one instant.
struct state {
    std::string version;
    std::chrono::system_clock::time_point started;
    std::chrono::system_clock::time_point now;
    bool ready = false;
    bool draining = false;
    bool writable = false;
    std::uint64_t connections = 0;
    std::uint64_t open_connections = 0;
    std::uint64_t open_tunnels = 0;  // of these, that have gone over to another protocol
    std::vector<std::pair<std::string_view, std::uint64_t>> requests;  // by what became of them
    std::uint64_t log_lines_dropped = 0;
    std::vector<limit_state> limits;
    std::vector<upstream_state> upstreams;
    std::string bottleneck;  // a sentence: what holds requests back now
};

}  // namespace admin
