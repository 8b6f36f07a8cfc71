#pragma once

#include <boost/asio/ip/address.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace net {

/// The header that a load balancer sends before the data of a client.
struct introduction {
    enum class state : std::uint8_t { incomplete, complete, wrong };

    state is = state::incomplete;
    std::size_t size = 0;  // in bytes, if it is complete
    /// Empty if the balancer connects for itself, or does not know the client.
    std::optional<boost::asio::ip::address> client;
};

/// Parses the header of the PROXY protocol, version 1 or 2, as HAProxy's proxy-protocol.txt specifies it.
[[nodiscard]] introduction parse_introduction(std::string_view bytes);

}  // namespace net
