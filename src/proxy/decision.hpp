#pragma once

#include "config/configuration.hpp"
#include "counters.hpp"
#include "failure.hpp"
#include "http/head.hpp"
#include "net/presence.hpp"
#include "problem.hpp"

#include <cstdint>
#include <string_view>

// What becomes of a request, and of the connection by which it came. All of it follows from values: nothing here waits.
namespace proxy {

enum class action : std::uint8_t {
    answer,   // the proxy answers by itself
    forward,  // the upstream does
    upgrade,  // the same, and both may go over to another protocol
};

/// What is done with a request.
struct decision {
    action what = action::answer;
    bool limited = true;             // by the limits of its route, which may refuse it
    ending how = ending::answered;   // unless something comes between
    problem say = {};                // of `answer`
    std::string_view protocol = {};  // of `upgrade`, as the configuration spells it
};

/// `malformed` if the request cannot be read; `to` is null if no route fits it.
[[nodiscard]] decision decide(http::fault const& malformed, http::request_head const& request,
                              config::route const* to) noexcept;

/// What becomes of the connection.
enum class next : std::uint8_t {
    request,        // another request may come
    close,          // at once
    close_if_read,  // at once, unless something was not read: then gently
    close_gently,   // so that the client, which may still be sending, sees its answer
    reset,          // so that the client sees an error
};

/// How a request ends.
struct conclusion {
    ending how;
    next after;
    problem say = {};  // to the client, if there is a status
};

/// What becomes of the connection if no other request is wanted, since the proxy is about to end.
[[nodiscard]] next last_after(conclusion const& c) noexcept;

/// Of what the proxy answers by itself. `is_read`: all of its body was read.
[[nodiscard]] conclusion conclude(decision const& what, http::request_head const& request,
                                  bool is_read) noexcept;
/// Of what the limits have turned away, or what has left meanwhile.
[[nodiscard]] conclusion conclude(problem const& say, net::presence client,
                                  http::request_head const& request, bool is_read) noexcept;
/// Of what was sent to the upstream, or would have been.
[[nodiscard]] conclusion conclude(relayed const& r, http::request_head const& request,
                                  bool is_read) noexcept;

}  // namespace proxy
