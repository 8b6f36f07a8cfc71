#pragma once

#include "config/configuration.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace proxy {

/// A response by the proxy, not by an upstream.
struct problem {
    unsigned status = 0;
    std::string_view why;
    std::optional<std::chrono::seconds> retry_after = {};
    std::string_view violated = {};  // the name of the quota that rejected the request, as `quoted`
    std::string_view lines = {};     // of the header, about limits
};

struct own_body {
    std::string_view type;  // a media type
    std::string_view text;
};

/// Returns the body that the client's Accept prefers. The candidates, in this order, are the configuration's bodies for
/// the status, a line of plain text, and application/problem+json (RFC 9457) with the types of
/// draft-ietf-httpapi-ratelimit-headers-11. Of equally preferred bodies the first one wins, also if the client accepts
/// none. A client that accepts application/json gets application/problem+json as well.
///
/// The result may refer to `memory`.
[[nodiscard]] own_body choose_body(std::span<config::body const> bodies, problem const& what,
                                   std::string_view accept, std::string& memory);

}  // namespace proxy
