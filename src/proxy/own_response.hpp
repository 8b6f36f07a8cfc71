#pragma once

#include "config/configuration.hpp"
#include "exchange.hpp"
#include "http/buffer.hpp"
#include "http/compose.hpp"
#include "problem.hpp"

#include <span>
#include <string_view>

namespace proxy {

/// Composes the proxy's response for `what`, in the media type that the client prefers, with the `changes` of its header.
/// Its texts are in `x` and `bodies`. Sets the status and the size in `x.record`.
[[nodiscard]] http::gather write_response(
    exchange& x, std::span<config::body const> bodies, problem const& what, bool keep_alive,
    std::string_view date, http::changes_of_message const& changes = {});

}  // namespace proxy
