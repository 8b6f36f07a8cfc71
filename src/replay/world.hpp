#pragma once

#include <weir/amount.hpp>
#include <weir/chain.hpp>
#include <weir/error.hpp>
#include <weir/key_hash.hpp>
#include <weir/permit.hpp>

#include "config/configuration.hpp"
#include "keys.hpp"
#include "limiting/gate.hpp"
#include "limiting/limit.hpp"
#include "stage.hpp"
#include "tool/network.hpp"
#include "tool/network_map.hpp"

#include <boost/asio/system_executor.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace replay {

/// The largest number of kinds of keys in a replay.
inline constexpr std::size_t most_keys = 8;

/// A request of the log.
struct arrival {
    nanoseconds at{};        // arrival time, since 1970
    std::uint64_t line = 0;  // its position in the log
    nanoseconds held{};      // service time
    std::array<std::uint32_t, most_keys> keys{};
    std::uint32_t way = 0;       // number of its routes, one in each plan
    std::uint32_t permits = 0;   // that it takes if its cost is not a number; 0: the estimate
    bool overloaded = false;     // the service was overloaded: status 502 to 504
    std::uint16_t status = 0;    // of the response; 0 if the log has none
    bool is_late = false;        // it arrived before `at`
    std::uint64_t sent = 0;      // bytes of the response
    std::uint64_t received = 0;  // bytes of the request
};

/// Selects the key of an arrival that selects a limiter.
class key_of_arrivals {
public:
    key_of_arrivals(std::size_t slot, key_numbers& numbers) noexcept
        : slot_(slot), numbers_(&numbers) {}

    [[nodiscard]] std::uint64_t of(arrival const& a) const noexcept { return a.keys[slot_]; }
    [[nodiscard]] std::uint64_t of(std::string const& text) const {
        auto const& part = numbers_->what().parts.front();
        bool const may_be_client =
            part == key_part() || (!part.otherwise.empty() && part.otherwise.back() == key_part());
        return may_be_client && tool::network_of(text)
                   ? numbers_->of_client(text.substr(0, text.find('/')))
                   : numbers_->of(text);
    }
    [[nodiscard]] limiting::path_names names_of(arrival const& a) const {
        return numbers_->names_of(a.keys[slot_]);
    }
    [[nodiscard]] std::optional<std::array<std::uint8_t, 16>> client_of(arrival const& a) const {
        auto const number = a.keys[slot_];
        for (auto next = known_.size(); next <= number; ++next) {
            auto const client = numbers_->client_of(static_cast<std::uint32_t>(next));
            known_.push_back(client ? std::optional(client->address) : std::nullopt);
        }
        return known_[number];
    }

private:
    std::size_t slot_;
    key_numbers* numbers_;
    // The clients of the first numbers. A number never changes its client.
    std::vector<std::optional<std::array<std::uint8_t, 16>>> mutable known_ = {};
};

/// Selects the keys of an arrival that give its standing in a queue.
struct place_of_arrivals {
    std::optional<std::size_t> fair = {};
    std::optional<std::size_t> priority = {};
    tool::network_map<int> weights = {};   // of the keys of `fair`
    key_numbers const* clients = nullptr;  // these keys, if there are weights

    [[nodiscard]] weir::request of(arrival const& a, weir::amount cost) const {
        if (!fair && !priority) [[likely]]
            return cost;
        weir::standing how;
        if (fair)
            how.flow = a.keys[*fair];
        if (priority)
            how.priority = static_cast<int>(a.keys[*priority]);
        if (auto const client = clients ? clients->client_of(a.keys[*fair]) : std::nullopt)
            if (auto const* const weight = weights.find(client->address))
                how.weight = *weight;
        return {cost, how};
    }
};

/// A hash without a random seed, so that a repeated replay has the same result.
struct steady_hash {
    [[nodiscard]] std::uint64_t operator()(weir::hash_seed const&,
                                           std::uint64_t key) const noexcept {
        return weir::key_hash()({0x5bd1e995'9d2c5681, 0x2545f491'4f6cdd1d}, key);
    }
};

class lane;
struct visit;
struct transfer;

/// The completion handler of a waiting request or transfer: reports the decision to its lane.
class on_turn {
public:
    on_turn(lane& owner, visit& v, stage::executor_type const& ex) noexcept
        : lane_(&owner), visit_(&v), executor_(ex) {}
    on_turn(lane& owner, transfer& t, stage::executor_type const& ex) noexcept
        : lane_(&owner), transfer_(&t), executor_(ex) {}

    using executor_type = stage::executor_type;
    executor_type get_executor() const noexcept { return executor_; }
    // An immediate decision calls the handler immediately.
    using immediate_executor_type = boost::asio::system_executor;
    immediate_executor_type get_immediate_executor() const noexcept { return {}; }

    template <class Permit>
    void operator()(weir::error_code ec, Permit permit) const;

private:
    lane* lane_;
    visit* visit_ = nullptr;
    transfer* transfer_ = nullptr;  // in place of the visit
    executor_type executor_;
};

/// The types with which the templates of `limiting` are instantiated: requests and time of a log.
struct world {
    using executor = stage::executor_type;
    using timer = replay::timer;
    using request_info = arrival;
    using keys = key_of_arrivals;
    using place = place_of_arrivals;
    using hash = steady_hash;
    using limit = limiting::limit<world>;
    // A log has no other costs, but a record of weir-proxy has them.
    static weir::amount cost_of(config::cost const& c, arrival const& a) noexcept {
        return a.permits != 0 ? weir::amount(a.permits) : c.estimate;
    }
    template <class Permit>
    using handler = on_turn;
    static constexpr std::uint32_t shards = 1;
};

using limit = world::limit;
using gate = limiting::gate<world>;

/// A request and its progress through the limits.
struct visit {
    limiting::entry<world> entry{arrival()};
    std::uint64_t number = 0;
    int attempts = 0;
    gate const* at = nullptr;
    unsigned status = 0;       // of its response
    bool is_answered = false;  // its route answers it once the limits grant it
    std::size_t route = 0;     // of `at`
    std::uint32_t parts = 0;   // its service, and its transfers that have not ended
    nanoseconds slowed{};      // how much later its transfers ended than in the log
};

}  // namespace replay
