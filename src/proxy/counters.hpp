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

/// The reason why a connection lacks the header of the PROXY protocol with which it must begin.
enum class introduction_failure : std::uint8_t {
    none,
    untrusted,     // the peer may not send it
    invalid,       // the connection begins with something else
    timeout,       // the peer was too slow
    disconnected,  // the connection ended within the header
};
inline constexpr std::size_t introduction_failures = 5;

/// A counter for each value of an enumeration with `size` values.
template <class Enum, std::size_t size>
class counters_by {
public:
    [[nodiscard]] counter& operator[](Enum which) noexcept {
        return all_[static_cast<std::size_t>(which)];
    }
    [[nodiscard]] counter const& operator[](Enum which) const noexcept {
        return all_[static_cast<std::size_t>(which)];
    }

private:
    std::array<counter, size> all_;
};

struct counters : counters_by<ending, endings>,
                  counters_by<handshake, handshakes>,
                  counters_by<introduction_failure, introduction_failures> {
    using counters_by<ending, endings>::operator[];
    using counters_by<handshake, handshakes>::operator[];
    using counters_by<introduction_failure, introduction_failures>::operator[];
    [[nodiscard]] counter const& operator[](counter counters::* which) const noexcept {
        return this->*which;
    }

    counter connections;
    counter open;
    counter tunnels;   // open connections that switched to another protocol
    counter requests;  // without malformed ones
    counter active;    // requests in progress, with upgraded connections
    counter waiting;   // of these, in the queues of limits
    counter troubles;  // rejections, and failures at upstreams

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
};

}  // namespace proxy
