#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tool {

/// The bits before an IPv4 address that is mapped into IPv6.
inline constexpr int mapped_bits = 96;

/// Whether an address of 16 bytes is a mapped IPv4 address.
[[nodiscard]] bool is_v4_mapped(std::array<std::uint8_t, 16> const& address) noexcept;

/// All addresses that start with the same bits. An IPv4 address mapped into IPv6 counts as the IPv4 address.
struct network {
    std::array<std::uint8_t, 16>
        address{};  // an IPv4 address is mapped, in the last 4 bytes; bits after the prefix are 0
    int prefix = 128;  // in bits of `address`: for IPv4, 96 more than in the text

    /// Whether this is an IPv4 network.
    [[nodiscard]] bool is_v4() const noexcept;
    /// Whether an address of 16 bytes, mapped if it is IPv4, is in the network.
    [[nodiscard]] bool contains(std::array<std::uint8_t, 16> const& other) const noexcept;

    /// The network of the first `bits` bits of the address, which must not exceed `prefix`.
    [[nodiscard]] network first(int bits) const noexcept;

    friend bool operator==(network const&, network const&) = default;
};

/// Parses `10.0.0.0/8` or `fd00::/8`; an address alone is a network of one address. Bits after the prefix must be 0.
[[nodiscard]] std::optional<network> network_of(std::string_view text);

[[nodiscard]] std::string to_string(network const& n);

/// Whether an address of 16 bytes, mapped if it is IPv4, is a loopback address.
[[nodiscard]] bool is_loopback(std::array<std::uint8_t, 16> const& address);

}  // namespace tool
