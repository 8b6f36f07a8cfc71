#pragma once

#include <weir/amount.hpp>
#include <weir/policy/limiter_config.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace config {

class table_reader;
struct limit;

/// A rate of bytes, and the most bytes that may pass at once.
struct byte_rate {
    static constexpr weir::amount most = 1'000'000'000'000;

    weir::amount per_second = 1;
    weir::amount burst = 1;

    friend bool operator==(byte_rate const&, byte_rate const&) = default;
};
/// The burst of a rate without one: the bytes of 50 ms, and at least 16 KiB.
[[nodiscard]] weir::amount usual_burst(weir::amount per_second) noexcept;
/// Formats a rate for `byte_rate_of`: `10MB/s`, or `10MB/s burst 1MB` if the burst is not the usual one.
[[nodiscard]] std::string to_string(byte_rate const& r);
/// Parses `10MB/s` or `64KiB/s burst 1MiB`: whole numbers with the units B, kB, MB, GB, KiB, MiB and GiB. Returns nothing
/// unless the rate and the burst are from 1 to `byte_rate::most`.
[[nodiscard]] std::optional<byte_rate> byte_rate_of(std::string_view text);
/// The rule of a limiter that grants one permit for each byte.
[[nodiscard]] weir::limiter_config rule_of(byte_rate const& r);

/// The rates of bytes from clients and to clients; empty: unlimited.
struct bandwidth {
    std::optional<byte_rate> up;
    std::optional<byte_rate> down;

    friend bool operator==(bandwidth const&, bandwidth const&) = default;
};

/// A direction of a bandwidth: `&bandwidth::up` or `&bandwidth::down`.
using direction = std::optional<byte_rate> bandwidth::*;
inline constexpr direction directions[] = {&bandwidth::up, &bandwidth::down};

/// Whether a limit of bytes has a rate in that direction, for any key.
[[nodiscard]] bool has_rate(limit const& l, direction d);
/// The rate of the keys of the override with the number `by`, or of the keys without one; empty: they are unlimited.
[[nodiscard]] std::optional<byte_rate> rate_of(limit const& l, direction d,
                                               std::optional<std::uint32_t> by = {});
/// The configuration of the limiter of a direction, which grants one permit for each byte. Bytes wait as long as they
/// must.
[[nodiscard]] limit limiter_of(limit const& l, direction d);

/// Reads the table `bandwidth`: `up`, `down` or both.
[[nodiscard]] bandwidth read_rates(table_reader& t);

/// Reads the member `bandwidth` of a limit, and reports members that a limit of bytes cannot have. Sets `l.rule` to the
/// rule of one direction.
void read_bandwidth(table_reader& t, limit& l);

}  // namespace config
