#pragma once

#include <weir/error.hpp>

#include "lane_bytes.hpp"
#include "names.hpp"
#include "outcome.hpp"
#include "plan.hpp"
#include "stage.hpp"
#include "world.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace replay {

/// The grant or rejection of a request or of one of its attempts.
struct decision {
    std::uint64_t number = 0;  // number of the request, from 0
    nanoseconds at{};
    nanoseconds waited{};
    std::optional<weir::errc> rejected;  // reason of the rejection; empty if granted
    std::size_t rule = 0;                // number of the rule that rejected the request
};

/// Options of a lane.
struct lane_options {
    bool details = true;   // record series and keys, not only totals
    int retries = 0;       // how often a client retries a rejected request
    std::size_t plan = 0;  // number of the plan
    std::vector<std::vector<std::uint16_t>> const* ways =
        nullptr;  // for each `arrival::way`, the number of the route in each plan
    std::function<void(decision const&)> watcher;
    nanoseconds epoch{};  // of the times of arrivals, since 1970
};

/// The real limiters of a plan, on the time of the log.
///
/// Order of events at one instant:
/// 1. Requests end their service and release their permits.
/// 2. Waiting requests and transfers are granted. Patience that ends at this instant still suffices for a grant.
/// 3. Bytes of transfers are ready.
/// 4. Rejected requests are retried.
/// 5. Requests of the log arrive.
class lane {
public:
    /// Makes the limiters at `begin`, the time of the first request. `keys` gives the meaning of `arrival::keys`.
    lane(plan const& p, std::vector<key_numbers>& keys, nanoseconds begin, lane_options options);
    ~lane();
    lane(lane const&) = delete;

    /// Adds a request, which must not be earlier than the previous one.
    void come(arrival const& a);

    /// Advances the time until no request waits, is served or will be retried.
    void finish();

    /// The totals so far.
    [[nodiscard]] outcome const& so_far() const noexcept { return so_far_; }

    /// Returns the totals and the `most` keys with the most rejections. `asked` has the number of requests of each key.
    [[nodiscard]] outcome result(std::vector<std::vector<std::uint64_t>> const& asked,
                                 std::size_t most) const;

private:
    friend class on_turn;
    friend class lane_bytes;

    struct event {
        nanoseconds at;
        std::uint64_t order;
        visit* who;
        friend bool operator>(event const& a, event const& b) noexcept {
            return std::pair(a.at, a.order) > std::pair(b.at, b.order);
        }
    };
    using events = std::priority_queue<event, std::vector<event>, std::greater<>>;

    void add_limit(planned_limit const& l);
    [[nodiscard]] std::shared_ptr<limit> make_limiter(
        config::limit what, std::optional<key> const& per, place_of_arrivals const& place);
    [[nodiscard]] std::size_t slot_of(key const& k) const;
    [[nodiscard]] std::size_t number_of(limit const* l) const noexcept;
    void set_time(nanoseconds t) noexcept;
    void advance(nanoseconds t);
    void ask(visit& v);
    void wait(visit& v);
    template <class Permit>
    void decided(visit& v, weir::error_code ec, Permit& permit);
    void grant(visit& v);
    void answer(visit& v);
    void reject(visit& v);
    void end_part(visit& v);
    void leave(visit& v);
    void settle(visit& v) const noexcept;
    [[nodiscard]] visit& new_visit();
    void end(visit& v) noexcept;

    stage stage_;
    struct route {
        gate entrance;
        std::optional<unsigned> respond;  // the status of a response without an upstream
    };

    std::vector<std::shared_ptr<limit>> limits_;  // in the order of the plan
    std::vector<std::size_t> slots_;              // index of the key of each limit
    std::vector<route> routes_;
    std::vector<key_numbers>& keys_;
    lane_options options_;

    nanoseconds now_;
    bool counts_statuses_ = false;  // a limit does
    bool is_busy_ = false;          // a request waits, or a completion may have been posted
    std::uint64_t number_ = 0;
    std::uint64_t order_ = 0;
    std::uint64_t waiting_ = 0;
    std::uint64_t in_use_ = 0;
    events ends_;     // ends of service
    events returns_;  // retries of rejected requests
    std::deque<visit> visits_;
    std::vector<visit*> free_;
    std::unique_ptr<lane_bytes> bytes_;  // null without a limit of bytes

    outcome so_far_;
    std::vector<std::vector<std::uint64_t>> rejected_;  // rejections by kind of key and by key
};

}  // namespace replay
