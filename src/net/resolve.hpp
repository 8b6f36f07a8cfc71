#pragma once

#include "asio.hpp"

#include <optional>
#include <string>
#include <vector>

namespace net {

/// The endpoints that the name has, at least one unless there is an error; blocks meanwhile.
[[nodiscard]] std::vector<endpoint> resolve(std::string const& host, std::string const& port,
                                            error_code& ec);

/// A socket of the file system; of too long a path there is none.
[[nodiscard]] std::optional<endpoint> unix_endpoint(std::string const& path);
/// Its path; empty if it is something else.
[[nodiscard]] std::string path_of(endpoint const& at);

/// As people write it: `127.0.0.1:80`, `[::1]:80`, `unix:/run/x`.
[[nodiscard]] std::string to_string(endpoint const& at);

/// The address and port, if it has them.
[[nodiscard]] std::optional<tcp::endpoint> tcp_endpoint(endpoint const& at);

/// Whether what is sent to `to` may come back to a socket that listens at `at`.
[[nodiscard]] bool leads_back(endpoint const& to, endpoint const& at);

}  // namespace net
