#pragma once

#include <boost/asio/ip/address.hpp>

#include <cstdint>

namespace weir {

/// A client as a key of eight bytes: the first bits of its address, and so the network that it is
/// counted with. An IPv6 client usually has a network of 64 bits to itself; all its addresses are one key.
///
/// An IPv4 address that is mapped into IPv6 is the IPv4 address; the scope of an IPv6 address is left out.
/// IPv4 and IPv6 have no key in common, but for networks of IPv6 that are reserved (0:ffff::/32).
///
/// `v4_prefix` is 0 to 32 bits, `v6_prefix` 0 to 64; otherwise it throws `std::invalid_argument`.
[[nodiscard]] std::uint64_t client_key(boost::asio::ip::address const& address, int v4_prefix = 32,
                                       int v6_prefix = 64);

}  // namespace weir
