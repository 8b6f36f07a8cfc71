#pragma once

#include <weir/error.hpp>
#include <weir/permit.hpp>
#include <weir/time.hpp>

#include "config/configuration.hpp"
#include "selection.hpp"

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <ranges>

namespace limiting {

/// The largest number of limits of a gate in a configuration: the limits of a route and the seats of an upstream.
inline constexpr std::size_t usual_limits = config::route::most_limits + 1;

/// The state of one request at the gate.
template <class World>
struct entry {
    explicit entry(typename World::request_info const& a) noexcept : who(a) {}

    typename World::request_info who;

    // The limiter of each limit and the permit of each passed limit, in the order of the gate. The permit of a limit
    // without a rule for the request is empty.
    boost::container::small_vector<selected, usual_limits> at;
    boost::container::small_vector<weir::permit, 4> permits;
    std::size_t passed = 0;

    weir::duration patience{};  // the rest of it
    weir::duration waited{};    // the sum of all waits

    /// The limit that rejected the request, if one did, and the reason.
    struct rejection {
        typename World::limit* by = nullptr;
        std::size_t number = 0;  // its index in the order of the gate
        weir::error_code ec;
        std::optional<weir::duration> retry_after;
    };
    rejection rejected;

    /// Refunds all permits, for a request that the proxy did not forward.
    void give_back() noexcept {
        for (auto& permit : permits | std::views::reverse)
            permit.refund();
    }
    /// Refunds all permits, for a request that enters the same gate again, with the rest of its patience.
    void start_again() noexcept {
        give_back();
        permits.clear();
        passed = 0;
        rejected = {};
    }
    /// Releases all permits and restores the initial state, except for `patience`.
    void reset() noexcept {
        at.clear();
        permits.clear();
        passed = 0;
        waited = {};
        rejected = {};
    }
};

}  // namespace limiting
