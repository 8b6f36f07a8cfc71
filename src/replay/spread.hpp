#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

using std::chrono::nanoseconds;

/// The arrival times, within their second, of requests whose log has whole seconds. Deterministic for the same log.
struct spread {
    enum class kind : std::uint8_t {
        even,       // request i of n arrives i/n seconds after the start of the second
        at_random,  // each request arrives at a random time of the second
        burst,      // all requests arrive at the start of the second
    };
    kind how = kind::even;
    std::uint64_t seed = 1;

    /// Parses `even`, `random`, `random 7` or `burst`; returns nothing for another text.
    [[nodiscard]] static std::optional<spread> parse(std::string_view text);

    /// Sets `out` to the offsets of `count` requests from the start of `second`, in order.
    void offsets(std::int64_t second, std::size_t count, std::vector<nanoseconds>& out) const;
};

[[nodiscard]] std::string to_string(spread const& s);

/// The service times of requests for which the log has none. Deterministic for the same log.
struct service_time {
    enum class kind : std::uint8_t { fixed, exponential, uniform };
    kind how = kind::fixed;
    nanoseconds min{};  // lower bound of `uniform`; otherwise the mean
    nanoseconds max{};  // upper bound of `uniform`
    std::uint64_t seed = 1;

    /// Parses `50ms`, `exponential 50ms` or `10ms..90ms`; returns nothing for another text.
    [[nodiscard]] static std::optional<service_time> parse(std::string_view text);

    /// Returns the service time of request `number`.
    [[nodiscard]] nanoseconds of(std::uint64_t number) const noexcept;
};

[[nodiscard]] std::string to_string(service_time const& t);

}  // namespace replay
