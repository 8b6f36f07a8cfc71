#pragma once

#include "context.hpp"
#include "net/asio.hpp"
#include "net/channel.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// TLS 1.2 and 1.3 towards servers. These functions also exist without OpenSSL: then no client can be made.
namespace tls {

struct client_settings {
    std::string authorities =
        {};  // a PEM file of trusted certificates; empty: the authorities of the system
    bool is_insecure = false;                           // any certificate of a server is accepted
    std::optional<certificate_files> certificate = {};  // for servers that demand one
    // From the verification of a certificate until a new session must begin.
    std::chrono::steady_clock::duration session_life = std::chrono::hours(1);
};

/// The protocol inside the encryption.
enum class inner_protocol : std::uint8_t {
    http,   // HTTP/1.1, which is offered to the server by ALPN
    other,  // without ALPN
    none,   // the connection only tries the handshake: it neither resumes a session nor keeps one
};

/// The connections to one server. Each connection resumes the session of an earlier one, if the server allows it. A
/// resumed connection does not verify the certificate again. Any thread may use it.
class client {
public:
    client() = default;
    client(client const&) = delete;
    virtual ~client() = default;

    /// A channel for a new connection. It keeps the client. Its handshake fails unless the server has a certificate for
    /// its name that an authority signed.
    [[nodiscard]] virtual std::unique_ptr<net::channel> connect(int descriptor,
                                                                inner_protocol inner) const = 0;
    /// Whether both accept the same certificates and send the same one: the connections and the sessions of one are good
    /// enough for the other.
    [[nodiscard]] virtual bool is_like(client const& other) const = 0;
};

/// Makes a client for each server. A certificate must be for the server's name, which is a name or an IP address. Throws
/// `std::runtime_error`, which names the file and the reason.
[[nodiscard]] std::vector<std::shared_ptr<client const>> make_clients(
    client_settings const& s, std::vector<std::string> const& servers);

/// Whether an error towards a server is one of TLS, not of the network.
[[nodiscard]] bool is_of_tls(net::error_code const& ec) noexcept;
/// Whether the certificate of the server was not accepted.
[[nodiscard]] bool is_of_certificate(net::error_code const& ec) noexcept;

}  // namespace tls
