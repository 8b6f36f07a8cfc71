#pragma once

#include <weir/time.hpp>
#include <weir/wait_histogram.hpp>

#include "admin/state.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace proxy {

/// A counter that one thread changes and any thread reads.
class counter {
public:
    void operator++() noexcept { add(1); }
    void operator--() noexcept { add(~std::uint64_t(0)); }
    [[nodiscard]] std::uint64_t value() const noexcept {
        return value_.load(std::memory_order_relaxed);
    }

private:
    void add(std::uint64_t n) noexcept { value_.store(value() + n, std::memory_order_relaxed); }
    std::atomic<std::uint64_t> value_ = 0;
};

/// Adds 1 to a counter for its lifetime.
class counted {
public:
    explicit counted(counter& c) noexcept : in_(c) { ++in_; }
    counted(counted const&) = delete;
    ~counted() { --in_; }

private:
    counter& in_;
};

/// The result of a request.
enum class ending : std::uint8_t {
    answered,      // with the upstream's response
    routed,        // answered by a route, or no route matched
    rejected,      // 429 and 503 of a limit
    disconnected,  // the client disconnected before the response was complete
    failed,        // 502 and 504, and incomplete responses
    malformed,     // 4xx and 5xx for an invalid request
};
inline constexpr std::size_t endings = 6;

/// The result of a handshake of TLS.
enum class handshake : std::uint8_t {
    full,
    resumed,  // with the keys of an earlier connection
    // Failed:
    limited,       // a limit of handshakes rejected it
    timeout,       // the client was too slow
    disconnected,  // the connection ended
    unknown_name,
    no_common_version,
    no_common_cipher,
    not_tls,
    rejected,  // by the client
    no_certificate,
    bad_certificate,
    other,
};
inline constexpr std::size_t handshakes = 13;
[[nodiscard]] constexpr bool is_complete(handshake h) noexcept {
    return h == handshake::full || h == handshake::resumed;
}

struct counters {
    counter connections;
    counter open;
    counter tunnels;   // open connections that switched to another protocol
    counter requests;  // without malformed ones
    counter active;    // requests in progress, with upgraded connections
    counter waiting;   // of these, in the queues of limits
    counter troubles;  // rejections, and failures at upstreams
    std::array<counter, endings> ended;
    std::array<counter, handshakes> shaken;

    // Of responses: see `admin::state`.
    std::array<counter, admin::state::classes> responses;
    std::array<counter, weir::wait_histogram::ranges> response_times;

    /// Counts a response that no limit caused, in its class.
    void count_status(unsigned status) noexcept {
        ++responses[std::clamp(status / 100, 2U, 5U) - 2];
    }
    void count_time(weir::duration took) noexcept {
        ++response_times[weir::wait_histogram::range_of(took)];
    }

    [[nodiscard]] counter& operator[](handshake how) noexcept {
        return shaken[static_cast<std::size_t>(how)];
    }
    [[nodiscard]] counter const& operator[](handshake how) const noexcept {
        return shaken[static_cast<std::size_t>(how)];
    }
    [[nodiscard]] counter& operator[](ending how) noexcept {
        return ended[static_cast<std::size_t>(how)];
    }
    [[nodiscard]] counter const& operator[](ending how) const noexcept {
        return ended[static_cast<std::size_t>(how)];
    }
};

}  // namespace proxy
