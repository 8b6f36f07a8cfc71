#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tool {

/// Addresses that have their first bits in common. An IPv4 address that is mapped into IPv6 is the IPv4 address.
struct network {
    std::array<std::uint8_t, 16>
        address{};     // IPv4 in the last four bytes, mapped; bits behind the prefix are 0
    int prefix = 128;  // bits of `address`: 96 more than are written for IPv4

    /// Whether it is one of IPv4.
    [[nodiscard]] bool is_v4() const noexcept;
    /// Of 16 bytes; IPv4 mapped.
    [[nodiscard]] bool contains(std::array<std::uint8_t, 16> const& other) const noexcept;

    friend bool operator==(network const&, network const&) = default;
};

/// `10.0.0.0/8`, `fd00::/8`; an address alone is a network of one. Bits behind the prefix must be 0.
[[nodiscard]] std::optional<network> network_of(std::string_view text);

[[nodiscard]] std::string to_string(network const& n);

/// Whether such an address, of 16 bytes and IPv4 mapped, is that of this machine to itself.
[[nodiscard]] bool is_loopback(std::array<std::uint8_t, 16> const& address);

}  // namespace tool
