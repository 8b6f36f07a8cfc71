#pragma once

#include "config/configuration.hpp"
#include "http/head.hpp"

#include <boost/asio/ip/address.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace proxy {

/// The address as text, for the upstream and the log; `unknown` if it is unspecified.
[[nodiscard]] std::string name_of(boost::asio::ip::address const& client);

/// The 16 bytes of an address; an IPv4 address is mapped into IPv6.
[[nodiscard]] std::array<std::uint8_t, 16> bytes_of(boost::asio::ip::address const& address);

/// Whether the proxy trusts the peer to name its client. It does if the peer is in a trusted network, or if the peer
/// uses a Unix socket (its address is unspecified) and any network is trusted.
[[nodiscard]] bool is_trusted(config::clients_options const& c,
                              boost::asio::ip::address const& peer);

/// Returns the client of a request: the peer or, if the peer is trusted, the right-most address in the header field
/// that is not trusted. The client may have written the entries to the left of it. An entry that is not an address ends
/// the search.
[[nodiscard]] boost::asio::ip::address client_of(config::clients_options const& c,
                                                 http::request_head const& request,
                                                 boost::asio::ip::address const& peer);

}  // namespace proxy
