#pragma once

#include <weir/amount.hpp>
#include <weir/permit.hpp>

#include "config/bandwidth.hpp"
#include "outcome.hpp"
#include "plan.hpp"
#include "stage.hpp"
#include "world.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace replay {

/// A limit of the bytes in one direction, and what passed it.
struct byte_limit {
    /// The bytes that passed with one value of the key.
    struct of_key {
        std::uint32_t wanting = 0;  // transfers that want bytes now
        std::uint64_t bytes = 0;
        std::uint64_t in_second = 0;  // bytes in the latest second with bytes
        std::uint64_t busiest = 0;    // bytes in the second with the most
        std::int64_t second = 0;
        nanoseconds waited{};
    };

    config::limit configuration;
    config::direction direction;
    std::shared_ptr<limit> limiter;
    std::shared_ptr<limit::selection_type const> selection;
    std::optional<std::size_t> slot;  // of the key; empty without one
    byte_outcome so_far;
    of_key all;                // of all keys together
    std::vector<of_key> keys;  // by the number of the key; the only one without a key

    [[nodiscard]] of_key& at(std::uint64_t key);
};

/// A response, or the body of a request, whose bytes pass limits.
struct transfer {
    struct share {
        byte_limit* of;
        limiting::selected at;
        config::byte_rate rate = {};
        bool waits = true;  // otherwise it is a dry run, or unlimited
        weir::permit permit = {};
    };

    visit* of = nullptr;
    nanoseconds begin{};
    nanoseconds held{};  // the time that it took in the log
    std::uint64_t all = 0;
    std::uint64_t left = 0;
    std::vector<share> shares;
    std::size_t next = 0;      // the share that is asked
    weir::amount portion = 0;  // that it takes now; 0: none
    nanoseconds asked{};
};

/// The limits of bytes of a plan, on the time of the log.
///
/// The bytes of a transfer are ready evenly over the service time of its request. It takes them in portions, as in
/// weir-proxy: each portion gets permits of all limits in turn, and waits for them in the order of arrival.
class lane_bytes {
public:
    /// Makes the limiter of a configuration, for the values of a key.
    using maker =
        std::function<std::shared_ptr<limit>(config::limit const&, std::optional<key> const&)>;

    /// `owner` decides and ends the transfers; `make` is called during the construction only.
    lane_bytes(lane& owner, stage::executor_type const& ex, plan const& p,
               std::vector<key_numbers> const& keys, maker const& make, bool details);
    lane_bytes(lane_bytes const&) = delete;

    /// Whether a route has a limit of the bytes of this request.
    [[nodiscard]] bool has_limits(std::size_t route, arrival const& a) const noexcept {
        return (a.sent != 0 && !routes_[route][down].empty()) ||
               (a.received != 0 && !routes_[route][up].empty());
    }
    /// Begins the transfers of a granted request; each one counts as a part of `v`.
    void start(visit& v, std::size_t route);
    /// The time of the next portion of a transfer that does not wait.
    [[nodiscard]] nanoseconds next() const noexcept {
        return ready_.empty() ? nanoseconds::max() : ready_.top().at;
    }
    /// Begins this portion. Precondition: its time has come.
    void go_on();
    /// The limiter of the next share of a transfer decided.
    void decided(transfer& t, weir::permit& permit);

    /// The number of transfers that have not ended.
    [[nodiscard]] std::size_t open() const noexcept { return transfers_.size() - free_.size(); }
    /// Ends all transfers, without completions.
    void clear() noexcept;

    /// The bytes that passed each limit, with the `most` keys with the most bytes.
    [[nodiscard]] std::vector<byte_outcome> results(std::vector<key_numbers> const& keys,
                                                    std::size_t most) const;

private:
    enum which : std::uint8_t { up, down };
    struct event {
        nanoseconds at;
        std::uint64_t order;
        transfer* who;
        friend bool operator>(event const& a, event const& b) noexcept {
            return std::pair(a.at, a.order) > std::pair(b.at, b.order);
        }
    };

    void start(visit& v, std::uint64_t bytes, std::vector<std::size_t> const& limits);
    void go(transfer& t);
    void begin_portion(transfer& t);
    [[nodiscard]] bool take(transfer& t);
    void pass(transfer& t);
    void finish(transfer& t);

    lane& owner_;
    stage::executor_type const executor_;
    bool const details_;
    std::deque<byte_limit> limits_;
    std::vector<std::array<std::vector<std::size_t>, 2>> routes_;  // limits by direction
    std::priority_queue<event, std::vector<event>, std::greater<>> ready_;
    std::uint64_t order_ = 0;
    std::deque<transfer> transfers_;
    std::vector<transfer*> free_;
};

}  // namespace replay
