#pragma once

#include <boost/asio/ip/address.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace net {

/// What a balancer says of a client, before anything that the client says.
struct introduction {
    enum class state : std::uint8_t { incomplete, complete, wrong };

    state is = state::incomplete;
    std::size_t size = 0;  // in bytes, if it is complete
    /// Absent if the balancer speaks for itself, or does not know.
    std::optional<boost::asio::ip::address> client;
};

/// Parses the beginning of a connection by the PROXY protocol, version 1 or 2, as HAProxy's proxy-protocol.txt has it.
[[nodiscard]] introduction parse_introduction(std::string_view bytes);

}  // namespace net
