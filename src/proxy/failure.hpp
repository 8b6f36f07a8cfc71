#pragma once

#include <weir/outcome.hpp>

#include "http/head.hpp"

#include <cstdint>

namespace proxy {

class upstream_server;

/// Why a granted request failed at the upstream or at the client.
enum class failure : std::uint8_t {
    none,
    // The upstream:
    unreachable,      // no server accepts a connection
    untrusted,        // its certificate is not accepted
    tls_failed,       // another error of TLS
    silent,           // it closed the connection before the end of a response's head
    too_slow,         // it did not accept a connection or did not respond in time
    header_too_long,  // of the response
    malformed,        // the response is not HTTP or is ambiguous
    bad_chunks,       // in the body of the response
    cut_off,          // the body of the response ended too soon
    // The client:
    body_too_slow,
    body_cut_off,
    body_bad_chunks,
    body_too_large,
    client_ended,  // it closed its sending side, and the configuration treats that as a disconnect
    client_gone,
};

/// The status and the text of the response to the client.
[[nodiscard]] http::fault fault_of(failure f) noexcept;

/// Whether the client caused the failure. Such a failure does not indicate trouble at the upstream.
[[nodiscard]] bool is_of_client(failure f) noexcept;
/// Whether the client disconnected before its response was complete.
[[nodiscard]] constexpr bool is_hang_up(failure f) noexcept {
    return f == failure::client_ended || f == failure::client_gone;
}

/// The stages of a request at the upstream, in order.
enum class progress : std::uint8_t {
    idle,
    asked,      // sent bytes to the upstream
    heard,      // received bytes from the upstream
    begun,      // sent bytes of the response to the client
    switched,   // sends status 101
    complete,   // sent the whole response
    tunnelled,  // sent status 101: the connections carry another protocol
};

/// Whether the response is a 101.
[[nodiscard]] constexpr bool has_switched(progress p) noexcept {
    return p == progress::switched || p == progress::tunnelled;
}

/// The result of a relay.
struct relayed {
    failure why = failure::none;
    http::fault said = {};  // the response to the client for `why`
    progress reached = progress::idle;
    http::framing framing = http::framing::none;  // of the response, as the client gets it
    bool keep_alive = false;  // the connection to the client can carry another request
    unsigned status = 0;      // of the upstream's response
    upstream_server const* server = nullptr;  // the server that got the request; null without one
    bool lacks_seat = false;                  // the servers that could be reached had no free seat
};

/// The outcome to report to adaptive seats. A client that disconnects and the duration of a tunnel carry no information
/// about the load of the upstream.
[[nodiscard]] weir::outcome outcome_of(relayed const& r) noexcept;

/// An attempt to get a response whose connection ended.
struct attempt {
    http::verb method;
    bool has_body;
    bool answered;  // the upstream sent bytes
    bool kept;      // the connection was used before: the server may have closed it as idle
};

/// Whether the request may be sent again: the server may not have seen it, and its method is idempotent (RFC 9110,
/// 9.2.2). A request with a body is never sent again, since the first attempt consumed the body.
[[nodiscard]] bool may_repeat(attempt const& a) noexcept;

}  // namespace proxy
