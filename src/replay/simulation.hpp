#pragma once

#include "by_second.hpp"
#include "keys.hpp"
#include "lane.hpp"
#include "logs/entry.hpp"
#include "outcome.hpp"
#include "plan.hpp"
#include "spread.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace replay {

/// Options of a simulation.
struct settings {
    int v4_prefix = 32;  // IPv4 clients that share this many first bits count as one
    int v6_prefix = 64;
    std::string host;  // host of the requests for which the log has none

    /// The first spread gives the outcomes; the others give only their share of rejections.
    std::vector<spread> spreads{spread{}};
    std::optional<service_time> takes;  // service time of the requests for which the log has none

    /// The longest time by which lines may be out of order.
    std::chrono::seconds slack = std::chrono::minutes(1);
    int retries = 0;
    std::size_t most_keys = 10;  // number of most rejected keys in the outcome
    std::function<void(decision const&)>
        watcher;  // called for the first plan with the first spread
};

/// Totals of the requests that do not depend on a plan.
struct traffic {
    std::uint64_t requests = 0;
    nanoseconds first{};
    nanoseconds last{};
    std::uint64_t clients = 0;
    std::uint64_t whole_seconds = 0;  // requests with a time in whole seconds
    std::uint64_t late =
        0;  // requests replayed after their arrival, which was too long before their line

    // Requests by the origin of their service time; --service-time takes the place of the last two.
    std::uint64_t held_by_log = 0;     // the log
    std::uint64_t held_like_last = 0;  // the last request on the route that had one
    std::uint64_t held_by_none = 0;    // none: 0, because no earlier request on the route had one

    std::uint64_t with_sent = 0;      // requests with the bytes of the response in the log
    std::uint64_t with_received = 0;  // requests with their bytes in the log
};

/// Replays the requests of a log through the limiters of each plan.
class simulation {
public:
    /// Throws `tool::usage_error` if the plans have limits by too many kinds of keys.
    simulation(settings s, std::vector<plan> plans);
    ~simulation();
    simulation(simulation const&) = delete;

    /// The values to read from each line, in the order of `logs::entry::keys`.
    [[nodiscard]] std::vector<logs::key_source> const& sources() const noexcept { return sources_; }

    /// Adds a request. Returns false and skips it if it is out of order by more than `settings::slack`.
    [[nodiscard]] bool add(logs::entry const& e);

    /// Ends the log. If `broken_off`, waiting requests remain undecided.
    void finish(bool broken_off = false);

    [[nodiscard]] traffic const& requests() const noexcept { return traffic_; }
    /// Returns the outcome of each plan.
    [[nodiscard]] std::vector<outcome> results() const;
    /// Returns the share of rejected requests, by plan and spread.
    [[nodiscard]] std::vector<std::vector<double>> rejected_by_spread() const;

private:
    struct pending {
        nanoseconds at{};
        nanoseconds before{};
        bool is_whole_second = false;
        arrival request;
    };
    class branch;

    void add_key(key const& k);
    [[nodiscard]] std::uint32_t way_of(logs::entry const& e);
    [[nodiscard]] nanoseconds held(logs::entry const& e, std::uint32_t way);
    void release(std::int64_t second, std::vector<pending>& requests);

    settings settings_;
    std::vector<plan> plans_;
    traffic traffic_;
    std::vector<logs::key_source> sources_;
    std::vector<key_numbers> keys_;  // the first key is the client

    // If a plan has routes, each combination of routes, one per plan, that a request takes has a number: its way.
    struct sources_of_routes {
        std::size_t method, target, host;
        std::optional<std::size_t> client;           // if a route has clients
        std::map<std::string, std::size_t> headers;  // the fields that select a route
    };
    std::optional<sources_of_routes> routed_by_;
    std::vector<std::vector<plan::route>> routes_;  // of each plan
    std::map<std::vector<std::uint16_t>, std::uint32_t> numbers_of_ways_;
    std::vector<std::vector<std::uint16_t>> ways_;
    std::vector<std::uint16_t> way_;  // reused buffer of `way_of`

    std::vector<std::vector<std::uint64_t>> asked_;
    std::vector<std::optional<nanoseconds>> last_held_;  // last service time on each way
    by_second<pending> seconds_;
    bool is_shifted_ = false;  // a request arrived before or after the time of its line
    std::vector<std::unique_ptr<branch>> branches_;
};

}  // namespace replay
