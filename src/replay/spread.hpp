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

/// Where in a second the requests came of which a log knows the second only. Always the same for the same log.
struct spread {
    enum class kind : std::uint8_t {
        even,       // of n requests, number i comes i/n of the second after its beginning
        at_random,  // each at any time of the second
        burst,      // all at its beginning
    };
    kind how = kind::even;
    std::uint64_t seed = 1;

    /// `even`, `random`, `random 7`, `burst`; nothing if it is something else.
    [[nodiscard]] static std::optional<spread> parse(std::string_view text);

    /// How long after the beginning of the second the requests of `second` came, in their order.
    void offsets(std::int64_t second, std::size_t count, std::vector<nanoseconds>& out) const;
};

[[nodiscard]] std::string to_string(spread const& s);

/// How long requests are served, where the log does not say it. Always the same for the same log.
struct service_time {
    enum class kind : std::uint8_t { fixed, exponential, uniform };
    kind how = kind::fixed;
    nanoseconds min{};  // of `uniform`; otherwise the mean
    nanoseconds max{};  // of `uniform`
    std::uint64_t seed = 1;

    /// `50ms`, `exponential 50ms`, `10ms..90ms`; nothing if it is something else.
    [[nodiscard]] static std::optional<service_time> parse(std::string_view text);

    /// Of request `number`.
    [[nodiscard]] nanoseconds of(std::uint64_t number) const noexcept;
};

[[nodiscard]] std::string to_string(service_time const& t);

}  // namespace replay
