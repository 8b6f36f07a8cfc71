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

struct settings {
    int v4_prefix = 32;  // clients with so many bits of the address in common are counted as one
    int v6_prefix = 64;
    std::string host;  // that the requests were for, where the log does not say it

    /// The first counts; of the others only the rejections are told.
    std::vector<spread> spreads{spread{}};
    std::optional<service_time> takes;  // where the log does not say it

    /// How far lines may be out of order.
    std::chrono::seconds slack = std::chrono::minutes(1);
    int retries = 0;
    std::size_t most_keys = 10;                    // of those that were rejected most
    std::function<void(decision const&)> watcher;  // of the first plan, by the first spread
};

/// What is known of the requests, whatever became of them.
struct traffic {
    std::uint64_t requests = 0;
    nanoseconds first{};
    nanoseconds last{};
    std::uint64_t clients = 0;
    std::uint64_t whole_seconds = 0;  // of which no more than the second is known
    std::uint64_t late = 0;  // that came so long before their lines that they are replayed too late

    // How long they are served: as the log says; as long as the one before them on their route; no time, since none was before them.
    std::uint64_t held_by_log = 0;
    std::uint64_t held_like_last = 0;
    std::uint64_t held_by_none = 0;
};

/// Sends the requests of a log through the limiters of each plan.
class simulation {
public:
    /// Throws `tool::usage_error` if the plans have limits by too many kinds of keys.
    simulation(settings s, std::vector<plan> plans);
    ~simulation();
    simulation(simulation const&) = delete;

    /// What must be asked of each line, in this order.
    [[nodiscard]] std::vector<logs::key_source> const& sources() const noexcept { return sources_; }

    /// False if it is too far back in time: it is left out.
    [[nodiscard]] bool add(logs::entry const& e);

    /// No more requests come. If `broken_off`, those that wait stay where they are.
    void finish(bool broken_off = false);

    [[nodiscard]] traffic const& requests() const noexcept { return traffic_; }
    /// Of each plan.
    [[nodiscard]] std::vector<outcome> results() const;
    /// Which part of the requests is rejected: of each plan, by each spread.
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
    std::vector<key_numbers> keys_;  // the client is the first one

    // Where the plans lead a request, if they have routes: each way that some request goes has a number.
    struct sources_of_routes {
        std::size_t method, target, host;
    };
    std::optional<sources_of_routes> routed_by_;
    std::vector<std::vector<plan::route>> routes_;  // of each plan
    std::map<std::vector<std::uint16_t>, std::uint32_t> numbers_of_ways_;
    std::vector<std::vector<std::uint16_t>> ways_;
    std::vector<std::uint16_t> way_;  // of the request that is being added

    std::vector<std::vector<std::uint64_t>> asked_;
    std::vector<std::optional<nanoseconds>> last_held_;  // of each way
    by_second<pending> seconds_;
    bool is_shifted_ = false;  // a request came before the second of its line, or after it
    std::vector<std::unique_ptr<branch>> branches_;
};

}  // namespace replay
