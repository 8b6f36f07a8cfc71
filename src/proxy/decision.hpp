#pragma once

#include "config/configuration.hpp"
#include "counters.hpp"
#include "failure.hpp"
#include "http/head.hpp"
#include "net/presence.hpp"
#include "problem.hpp"

#include <cstdint>
#include <string>
#include <string_view>

// Decides on a request, and on its connection. These functions are pure: the result depends on the arguments alone.
namespace proxy {

enum class action : std::uint8_t {
    answer,   // the proxy responds
    forward,  // the upstream responds
    upgrade,  // the upstream responds, and may switch to another protocol
};

/// The action for a request.
struct decision {
    action what = action::answer;
    bool limited = true;             // the limits of its route apply first
    ending how = ending::answered;   // the ending to count if nothing fails
    problem say = {};                // of `answer`
    std::string_view protocol = {};  // of `upgrade`, as the configuration spells it
};

/// `malformed` has a status if the request is invalid; `to` is null if no route matches.
[[nodiscard]] decision decide(http::fault const& malformed, http::request_head const& request,
                              config::route const* to) noexcept;

/// The next step of a connection.
enum class next : std::uint8_t {
    request,        // wait for another request
    close,          // immediately
    close_if_read,  // immediately if all input was read, else gently
    close_gently,   // so that the client, which may still be sending, receives the response
    reset,          // so that the client sees an error
};

/// How a request ends.
struct conclusion {
    ending how;
    next after;
    problem say = {};  // to the client, if there is a status
};

/// The next step of the connection if the proxy is shutting down and accepts no further request.
[[nodiscard]] next last_after(conclusion const& c) noexcept;

/// Concludes a request to which the proxy responds. `is_read`: all of its body was read.
[[nodiscard]] conclusion conclude(decision const& what, http::request_head const& request,
                                  bool is_read) noexcept;
/// Concludes a request that the limits rejected, or whose client disconnected while it waited.
[[nodiscard]] conclusion conclude(problem const& say, net::presence client,
                                  http::request_head const& request, bool is_read) noexcept;
/// Concludes a request that was relayed, even if it reached no server.
[[nodiscard]] conclusion conclude(relayed const& r, http::request_head const& request,
                                  bool is_read) noexcept;

}  // namespace proxy
