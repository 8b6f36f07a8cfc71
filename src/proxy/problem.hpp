#pragma once

#include "config/configuration.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace proxy {

/// What the proxy answers by itself, instead of an upstream.
struct problem {
    unsigned status = 0;
    std::string_view why;
    std::optional<std::chrono::seconds> retry_after = {};
    std::string_view violated = {};  // the `policy::name` of the limit that rejected the request
    std::string_view lines = {};     // of the header, about limits
};

struct own_body {
    std::string_view type;  // a media type
    std::string_view text;
};

/// The body that the client wants most by its Accept: of those that the configuration has for the status, the line of
/// text, or application/problem+json (RFC 9457) with the types of draft-ietf-httpapi-ratelimit-headers-10. Where it wants
/// several alike, the first of them; so it is if it wants none. A client of application/json gets problems as well.
///
/// What is returned may lie in `memory`.
[[nodiscard]] own_body choose_body(std::span<config::body const> bodies, problem const& what,
                                   std::string_view accept, std::string& memory);

}  // namespace proxy
