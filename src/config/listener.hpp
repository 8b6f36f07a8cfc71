#pragma once

#include <weir/time.hpp>

#include "bandwidth.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace config {

// ---- Addresses

/// `127.0.0.1:8080`, `[::1]:8080`, `name:8080`.
struct tcp_address {
    std::string host;
    std::uint16_t port = 0;

    friend bool operator==(tcp_address const&, tcp_address const&) = default;
};
/// Parses `host:port`; empty if the text is invalid.
[[nodiscard]] std::optional<tcp_address> tcp_address_of(std::string_view text);

/// `unix:/run/weir.sock`.
struct unix_address {
    std::string path;

    friend bool operator==(unix_address const&, unix_address const&) = default;
};

/// `systemd:NAME`: the sockets that the service manager opened under that name.
struct inherited_sockets {
    std::string name;

    friend bool operator==(inherited_sockets const&, inherited_sockets const&) = default;
};

using listen_address = std::variant<tcp_address, unix_address, inherited_sockets>;
using server_address = std::variant<tcp_address, unix_address>;

[[nodiscard]] std::string to_string(listen_address const& a);
[[nodiscard]] std::string to_string(server_address const& a);

// ---- Listeners

/// The parts of a check that describe the request in question: its method, target and host.
enum class described_by : std::uint8_t {
    x_forwarded,  // X-Forwarded-Method, X-Forwarded-Uri and, if present, X-Forwarded-Host
    x_original,  // X-Original-Method, X-Original-URL or X-Original-URI, and, if present, X-Original-Host
    itself,  // its own method, target and Host
};
/// `x-forwarded`, `x-original`, `itself`.
[[nodiscard]] std::string to_string(described_by what);
[[nodiscard]] std::optional<described_by> described_by_of(std::string_view text);

/// Checks: the requests of another proxy, which asks whether it may forward a request of its client.
struct check_options {
    config::described_by described_by = config::described_by::x_forwarded;
    unsigned refuse = 429;  // the status of a response to a request that the limits reject

    friend bool operator==(check_options const&, check_options const&) = default;
};

/// A certificate for TLS. The files have the PEM format; a relative path starts at the folder of the configuration file.
struct certificate {
    std::string certificate;  // with the certificates of its issuers
    std::string key;

    friend bool operator==(config::certificate const&, config::certificate const&) = default;
};

/// The treatment of a client that asks for a server name without a certificate.
enum class unknown_name : std::uint8_t {
    refuse,  // an error
    first,   // the first certificate
};
/// `refuse`, `first`.
[[nodiscard]] std::string to_string(unknown_name what);
[[nodiscard]] std::optional<unknown_name> unknown_name_of(std::string_view text);

/// The certificates of clients.
struct client_certificates {
    std::string authorities;  // the PEM file of the authorities that may issue them
    bool required = true;     // otherwise a client may have none

    friend bool operator==(client_certificates const&, client_certificates const&) = default;
};

/// The connections of clients of TLS that ask for a server name of these.
struct tcp_route {
    std::vector<std::string> sni;     // names; `*.` in place of the first label matches one label
    std::string upstream;             // by name
    std::vector<std::string> limits;  // by name; in addition to `tcp_options::limits`
    std::vector<std::string> bandwidths;  // the same

    friend bool operator==(tcp_route const&, tcp_route const&) = default;
};

/// Connections of any protocol: the proxy relays the bytes of each connection to a server of the upstream.
struct tcp_options {
    std::string upstream;                 // by name; empty: connections without a route are refused
    std::vector<std::string> limits;      // by name; a connection gets permits from all or none
    std::vector<std::string> bandwidths;  // by name; the bytes of a connection get permits from all
    std::string refusal;  // the text for a connection that a limit rejects; empty: a reset
    weir::duration idle = std::chrono::hours(1);      // without data, until the connection ends
    std::vector<tcp_route> routes = {};               // an exact name comes before a wildcard
    std::optional<config::bandwidth> bandwidth = {};  // of each connection

    friend bool operator==(tcp_options const&, tcp_options const&) = default;
};

struct listener {
    listen_address address;
    bool proxy_protocol = false;        // each connection starts with its header, version 1 or 2
    std::optional<unsigned> mode = {};  // of the file of a unix socket; empty: by the umask
    std::optional<check_options> check = {};  // its requests are checks
    // Requests get a redirect to this port of https. Empty: they do not.
    std::optional<std::uint16_t> https_port = {};
    std::vector<certificate> tls = {};  // empty: clients do not use TLS
    config::unknown_name unknown_name = config::unknown_name::refuse;
    std::optional<config::client_certificates> client_certificates =
        {};                               // empty: the proxy does not ask for them
    std::optional<tcp_options> tcp = {};  // it accepts connections of any protocol
    std::vector<std::string> alpn =
        {};  // with `tls` and `tcp`: the protocols of clients, best first
    std::vector<std::string> handshake_limits =
        {};  // by name; a handshake gets permits from all or none
    std::vector<std::string> bandwidths =
        {};  // by name; the bytes of its requests and responses get permits from all

    friend bool operator==(listener const&, listener const&) = default;
};

}  // namespace config
