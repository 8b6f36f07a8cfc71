#pragma once

#include <weir/outcome.hpp>

#include "http/head.hpp"

#include <cstdint>

namespace proxy {

class upstream_server;

/// How a request that the limits have let in can fail on its way to the upstream and back.
enum class failure : std::uint8_t {
    none,
    // Of the upstream:
    unreachable,      // no server accepts a connection
    silent,           // it has closed the connection and has not finished the head of an answer
    too_slow,         // it does not accept a connection, or does not answer, in time
    header_too_long,  // of the answer
    malformed,        // the answer is not HTTP, or not clear
    bad_chunks,       // in the body of the answer
    cut_off,          // the body of the answer has ended too soon
    // Of the client:
    body_too_slow,
    body_cut_off,
    body_bad_chunks,
    client_ended,  // it sends no more, and nobody waits for what it might still read
    client_gone,
};

/// What the client is told: a status, and a line for people.
[[nodiscard]] http::fault fault_of(failure f) noexcept;

/// Whether the failure says nothing of the upstream.
[[nodiscard]] bool is_of_client(failure f) noexcept;
/// Whether the client has left before its answer was complete.
[[nodiscard]] constexpr bool is_hang_up(failure f) noexcept {
    return f == failure::client_ended || f == failure::client_gone;
}

/// How far a request has come at the upstream. Later is more.
enum class progress : std::uint8_t {
    idle,
    asked,      // something was sent to the upstream
    heard,      // something has come from it
    begun,      // something of its answer was sent to the client
    switched,   // the same, and the connections now carry another protocol
    complete,   // all of the answer was sent
    tunnelled,  // the other protocol has ended
};

/// Whether the connections carry another protocol, or have done so.
[[nodiscard]] constexpr bool has_switched(progress p) noexcept {
    return p == progress::switched || p == progress::tunnelled;
}

/// The end of a request's way to the upstream and back.
struct relayed {
    failure why = failure::none;
    http::fault said = {};  // what the client is told of `why`
    progress reached = progress::idle;
    http::framing framing = http::framing::none;  // of the answer, as the client gets it
    bool keep_alive = false;                      // the connection to the client can go on
    unsigned status = 0;                          // of the upstream's answer
    upstream_server const* server = nullptr;      // to which it was sent; null if to none
};

/// What it says of the load of the upstream. Neither a client that hangs up nor the length of a tunnel says anything.
[[nodiscard]] weir::outcome outcome_of(relayed const& r) noexcept;

/// An attempt to get an answer, when its connection has ended.
struct attempt {
    http::verb method;
    bool has_body;
    bool answered;  // something has come back
    bool
        kept;  // the connection had been used before, so that the server may have closed it as idle
};

/// Whether the request may be sent again: it may have come to nothing, and to do it twice does no harm (RFC 9110, 9.2.2).
/// A body has been used up by the first attempt.
[[nodiscard]] bool may_repeat(attempt const& a) noexcept;

}  // namespace proxy
