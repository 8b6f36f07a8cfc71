#pragma once

#include "account.hpp"
#include "counters.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "routes.hpp"

#include <boost/asio/ip/address.hpp>

#include <optional>

namespace proxy {

/// Whether the handshake failed because of the client's certificate. With TLS 1.3 the client may have sent more already: the
/// connection must be closed gently, or unread bytes would hide the alert.
[[nodiscard]] constexpr bool lacks_certificate(handshake how) noexcept {
    return how == handshake::no_certificate || how == handshake::bad_certificate;
}

/// Waits at most `limit` for the first byte of a client, and leaves it unread. Returns nothing if the client ended the
/// connection before, such as the check of a load balancer, or if the proxy stops.
[[nodiscard]] net::task<std::optional<char>> first_byte_of(net::connection& client,
                                                           net::clock::duration limit);

/// Passes the limits of handshakes for the client `peer`, and completes the handshake of TLS within `limit`. Counts the
/// result. It needs no workspace, so an unfinished handshake holds little memory. A client that begins with text in place
/// of TLS stays unencrypted, with all its bytes unread. `first` is its first byte.
[[nodiscard]] net::task<handshake> encrypt(
    net::connection& client, char first, tls_listener const& by,
    boost::asio::ip::address const& peer, net::clock::duration limit, account& accounting);

}  // namespace proxy
