#pragma once

#include "buffer.hpp"
#include "field_changes.hpp"
#include "head.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace http {

/// How a request is forwarded.
struct forwarding {
    std::string_view peer;             // the last entry of X-Forwarded-For
    bool is_trusted = false;           // the peer may set X-Forwarded-Proto and X-Forwarded-Host
    std::string_view upstream;         // the Host of a request without one
    std::string_view upgrade = {};     // the protocol to ask for; empty: none
    std::string_view target = {};      // empty: the target of the request
    std::string_view scheme = "http";  // X-Forwarded-Proto, if no trusted peer states it
};

/// Writes the header of a request for the upstream. A trusted peer may state X-Forwarded-Proto and X-Forwarded-Host;
/// otherwise they describe the request itself.
void compose(std::string& out, request_head const& request, forwarding const& how,
             changes_of_message const& changes = {});

/// The framing of the response's body for a client of this version.
[[nodiscard]] framing framing_for(unsigned version, answer_head const& answer) noexcept;

/// Writes the header of a response for the client. `date` is used if the upstream sent none. `lines` are complete lines
/// to add, except to an interim response.
void compose(std::string& out, answer_head const& answer, framing body, unsigned version,
             bool keep_alive, std::string_view date, changes_of_message const& changes = {},
             std::string_view lines = {});

/// Writes the header of a 101 response that switches to the protocol `upgrade`.
void compose_switch(std::string& out, answer_head const& answer, std::string_view upgrade,
                    changes_of_message const& changes, std::string_view lines);

/// A response by the proxy itself.
struct own_response {
    unsigned status = 0;
    std::string_view type = {};  // of its body
    std::size_t length = 0;
    std::optional<std::chrono::seconds> retry_after = {};
    std::string_view lines = {};  // further complete lines of the header
};
/// Whether responses with this status have a body, unless the request was a HEAD.
[[nodiscard]] constexpr bool has_body(unsigned status) noexcept {
    return status >= 200 && status != 204 && status != 304;
}
/// Writes the header of a response by the proxy itself.
void compose(std::string& out, own_response const& answer, unsigned version, bool keep_alive,
             std::string_view date, changes_of_message const& changes = {});

/// Appends the other pieces to `head`, which is the first piece, if they are so small that copying costs less than
/// sending several pieces.
void join(gather& pieces, std::string& head);

}  // namespace http
