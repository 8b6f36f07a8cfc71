#pragma once

#include <boost/asio/ip/address.hpp>

#include <cstdint>

namespace weir::inline v0_2 {

/// Returns a client as a key of eight bytes: the first bits of its address, that is, its network. All addresses of an
/// IPv6 client are usually in one network of 64 bits, and so have one key.
///
/// An IPv4 address that is mapped into IPv6 counts as the IPv4 address; the scope of an IPv6 address is ignored. IPv4
/// and IPv6 addresses never share a key, except for reserved IPv6 networks (0:ffff::/32).
///
/// @param v4_prefix  bits of an IPv4 address, 0 to 32
/// @param v6_prefix  bits of an IPv6 address, 0 to 64
/// @throws std::invalid_argument if a prefix is out of bounds
[[nodiscard]] std::uint64_t client_key(boost::asio::ip::address const& address, int v4_prefix = 32,
                                       int v6_prefix = 64);

}  // namespace weir::inline v0_2
