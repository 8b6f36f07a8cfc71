#pragma once

#include <weir/error.hpp>

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

/// What has become of a request, or, if it comes back, of one attempt.
struct decision {
    std::uint64_t number = 0;  // of the request, from 0
    nanoseconds at{};
    nanoseconds waited{};
    std::optional<weir::errc> rejected;  // otherwise it was granted
    std::size_t rule = 0;                // which has rejected it
};

struct lane_options {
    bool details = true;   // series and keys, and not only numbers
    int retries = 0;       // how often a client comes back that is rejected
    std::size_t plan = 0;  // its number
    std::vector<std::vector<std::uint16_t>> const* ways =
        nullptr;  // of arrivals: the route of each plan
    std::function<void(decision const&)> watcher;
};

/// The real limiters of a plan on the time of the log.
///
/// At one instant, requests that have been served leave first; then those that wait are served, for whom patience ends
/// when its last instant is over; then those come that come back, and then those of the log.
class lane {
public:
    /// `keys` are those of `arrival::keys`. The limiters are made at `begin`, the time of the first request.
    lane(plan const& p, std::vector<key_numbers>& keys, nanoseconds begin, lane_options options);
    ~lane();
    lane(lane const&) = delete;

    /// `a` is not before the one before it.
    void come(arrival const& a);

    /// Goes on until all have gone that wait, are being served or will come back.
    void finish();

    /// The numbers so far.
    [[nodiscard]] outcome const& so_far() const noexcept { return so_far_; }

    /// The same with the keys that were rejected most. `asked` has how often each key has come.
    [[nodiscard]] outcome result(std::vector<std::vector<std::uint64_t>> const& asked,
                                 std::size_t most) const;

private:
    friend class on_turn;

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
    void leave(visit& v);
    [[nodiscard]] visit& new_visit();
    void end(visit& v) noexcept;

    stage stage_;
    struct route {
        gate entrance;
        bool answers;  // by itself
    };

    std::vector<std::shared_ptr<limit>> limits_;  // in the order of the plan
    std::vector<std::size_t> slots_;              // of the key of each
    std::vector<route> routes_;
    std::vector<key_numbers>& keys_;
    lane_options options_;

    nanoseconds now_;
    bool is_busy_ = false;  // somebody waits, or something may have been posted
    std::uint64_t number_ = 0;
    std::uint64_t order_ = 0;
    std::uint64_t waiting_ = 0;
    std::uint64_t in_use_ = 0;
    events ends_;     // of those that are being served
    events returns_;  // of those that have been rejected
    std::deque<visit> visits_;
    std::vector<visit*> free_;

    outcome so_far_;
    std::vector<std::vector<std::uint64_t>> rejected_;  // by source, by key
};

}  // namespace replay
