#pragma once

#include <weir/any_limiter.hpp>
#include <weir/error.hpp>
#include <weir/outcome.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include "arrivals.hpp"
#include "http/head.hpp"
#include "limit.hpp"
#include "limiting/gate.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "request_info.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace proxy {

/// Returns whether the store of a limit is the reason of a rejection.
[[nodiscard]] inline bool is_of_store(net::error_code ec) noexcept {
    return ec == weir::errc::unavailable || ec == weir::errc::misconfigured;
}

/// The permits of a request, or the reason of its rejection.
struct entry : limiting::entry<world> {
    using limiting::entry<world>::entry;

    unsigned status = 0;  // of the rejection; 0 without one
    char const* why = nullptr;
    limit const* rejected_by = nullptr;  // also if the client disconnected there; owned by the plan
    std::chrono::seconds retry_after{};  // 0: the limits never grant the request
    net::presence client = net::presence::here;  // otherwise it disconnected during the wait
    unsigned answered = 0;  // the status of the response that the limits count; 0 before it

    // Only where a limit keeps a record:
    net::clock::time_point arrived{};
    std::optional<net::clock::time_point> left;  // when it released its seats before its end

    /// The number of the limit that rejected the request; none if the store of the limit was unavailable.
    [[nodiscard]] std::optional<std::size_t> rejected_number() const noexcept {
        bool const known = rejected.by && !is_of_store(rejected.ec);
        return known ? std::optional(rejected.number) : std::nullopt;
    }
};

/// A limiter that grants nothing, and in which no request can wait.
struct full_limiter {
    explicit full_limiter(net::executor const& ex);

    weir::basic_any_limiter<net::executor, net::timer> limiter;
    weir::permit taken;
};

/// The limits of one route. Any thread may use it.
class gate : private limiting::gate<world> {
    using base = limiting::gate<world>;

public:
    /// Creates a gate, as the base class does. The limits keep their records during its life. `ex` is the executor of the
    /// limits.
    gate(net::executor const& ex, std::vector<std::shared_ptr<limit>> const& limits,
         costs const& replaced = {});

    /// Whether one of the limits counts concurrent requests.
    [[nodiscard]] bool has_seats() const noexcept {
        return std::ranges::any_of(limits(), [](auto const& l) { return l->has_seats(); });
    }

    /// Rejects a request that the rates in this process cannot grant within its patience, and returns false. Otherwise it
    /// takes and counts nothing. Call it at most once, and before `enter_at_once`. It does not wait.
    ///
    /// Rates with the order `lifo`, `adaptive_lifo` or `codel` are not asked.
    [[nodiscard]] net::task<bool> may_enter(entry& e, net::connection& client) const;

    /// Grants or rejects a request if that needs no wait. Otherwise returns false: call `enter_in_turn`.
    [[nodiscard]] bool enter_at_once(entry& e) const;

    /// Waits until the request is granted or rejected; returns immediately if it is granted already. If the client
    /// disconnects during the wait, the request leaves the queue immediately, and `e` has the response for a client
    /// that may still read.
    [[nodiscard]] net::task<> enter_in_turn(entry& e, net::connection& client) const;

    /// Whether a granted request may be sent a second time. The rates count it again. This waits for replies of stores
    /// only.
    [[nodiscard]] net::task<bool> enter_again(entry& e, net::connection& client) const;

    /// The head of the upstream's response arrived: it decides what the limits count.
    void hear(entry& e, http::answer_head const& answer) const noexcept;
    /// The route itself responds with this status.
    void answer(entry& e, unsigned status) const noexcept;
    /// The request ended: corrects its permits, and adds it to the records of its limits. The client got `sent` bytes
    /// of the response's body, and the proxy got `received` bytes of a body without Content-Length.
    void settle(entry& e, std::uint64_t sent, std::optional<std::uint64_t> received) const noexcept;

    /// Changes the cost of a granted request at each rate from `cost` to `to(cost)`.
    template <class F>
    void change_cost(entry& e, F to) const noexcept {
        for (std::size_t i = 0; i != e.permits.size(); ++i)
            if (e.permits[i])
                base::correct(e.permits[i], to(e.at[i].cost));
    }

    /// Releases the seats of a request before its end.
    void free_seats(entry& e) const noexcept;

    /// The requests that lack the seats of a request: they wait now, or were rejected at any time.
    struct demand {
        std::uint64_t waiting = 0;
        std::uint64_t rejected = 0;
    };
    /// The demand for the seats that `e` holds. Seats with a key do not count: there a client mostly waits for itself.
    [[nodiscard]] demand demand_for_seats(entry const& e) const;
    using base::report;

    /// The limits that a request must pass, in the order of its permits.
    [[nodiscard]] std::span<std::shared_ptr<limit> const> limits() const noexcept {
        return {all().data(), strict()};
    }

private:
    template <class Permit>
    [[nodiscard]] bool is_let_in(entry& e, verdict<Permit>& v, net::clock::time_point since) const;
    void record(entry const& e) const noexcept;

    // Decides the end of an entry that was rejected.
    void turn_away_and_punish(entry& e) const;

    std::vector<std::shared_ptr<arrivals>> records_;  // of each limit; empty if none keeps one
    std::shared_ptr<full_limiter const> full_;        // null without rates to ask before seats
};

}  // namespace proxy
