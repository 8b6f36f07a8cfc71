#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace net {

/// The two ends of a client's connection.
struct connection_ends {
    boost::asio::ip::tcp::endpoint client;
    boost::asio::ip::tcp::endpoint target;

    friend bool operator==(connection_ends const&, connection_ends const&) = default;
};

/// The header that a load balancer sends before the data of a client.
struct introduction {
    enum class state : std::uint8_t { incomplete, complete, wrong };

    state is = state::incomplete;
    std::size_t size = 0;  // in bytes, if it is complete
    /// Empty if the balancer connects for itself, or does not know the client.
    std::optional<connection_ends> ends;
};

/// Parses the header of the PROXY protocol, version 1 or 2, as HAProxy's proxy-protocol.txt specifies it.
[[nodiscard]] introduction parse_introduction(std::string_view bytes);

/// The use of TLS by a client whose connection this program decrypts. Its texts are empty if they are unknown.
struct introduced_tls {
    /// A resumed session has the certificate of the connection that began it.
    enum class certificate : std::uint8_t { none, of_session, of_connection };

    std::string_view version;
    std::string_view cipher;
    std::string_view server_name;
    std::string_view protocol;
    certificate verified = certificate::none;
};

/// Formats such a header of version 1 or 2 for a connection from a client. Without `ends` it does not name the client.
/// Version 2 also has the parts of `tls`, if it is not empty. Precondition: each text has at most 255 bytes.
[[nodiscard]] std::string make_introduction(int version, std::optional<connection_ends> const& ends,
                                            std::optional<introduced_tls> const& tls = {});
/// Formats such a header for a connection of this program itself, such as a health check.
[[nodiscard]] std::string make_own_introduction(int version);

}  // namespace net
