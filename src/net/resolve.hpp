#pragma once

#include "asio.hpp"

#include <optional>
#include <string>
#include <vector>

namespace net {

/// Resolves a name to its endpoints: at least one, unless there is an error. Blocks the thread.
[[nodiscard]] std::vector<endpoint> resolve(std::string const& host, std::string const& port,
                                            error_code& ec);

/// The endpoint of a unix socket; empty if the path is too long.
[[nodiscard]] std::optional<endpoint> unix_endpoint(std::string const& path);
/// The path of a unix socket; empty for another endpoint.
[[nodiscard]] std::string path_of(endpoint const& at);

/// Formats an endpoint as in the configuration: `127.0.0.1:80`, `[::1]:80`, `unix:/run/x`.
[[nodiscard]] std::string to_string(endpoint const& at);

/// The address and port; empty for a unix socket.
[[nodiscard]] std::optional<tcp::endpoint> tcp_endpoint(endpoint const& at);

/// Whether a connection to `to` may arrive at a socket that listens on `at`.
[[nodiscard]] bool leads_back(endpoint const& to, endpoint const& at);

}  // namespace net
