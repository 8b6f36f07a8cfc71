#pragma once

#include "account.hpp"
#include "config/configuration.hpp"
#include "net/asio.hpp"
#include "net/proxy_protocol.hpp"
#include "side.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstdint>
#include <optional>

namespace proxy {

/// Whether the bytes behind the header of the PROXY protocol stay in the socket, for another reader.
enum class rest : std::uint8_t { may_be_read, stays };

/// Reads the header of the PROXY protocol at the start of a connection, from a trusted `peer` only. Returns nothing, and
/// counts the reason, if the connection must end.
[[nodiscard]] net::task<std::optional<net::introduction>> receive_introduction(
    side from, boost::asio::ip::address const& peer, config::configuration const& c, rest behind,
    account& accounting);

}  // namespace proxy
