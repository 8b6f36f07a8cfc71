#pragma once

#include "asio.hpp"

#include <string>
#include <vector>

namespace net {

/// The endpoints that the name has, at least one unless there is an error; blocks meanwhile.
[[nodiscard]] std::vector<tcp::endpoint> resolve(std::string const& host, std::string const& port,
                                                 error_code& ec);

/// Whether what is sent to `to` may come back to a socket that listens at `at`.
[[nodiscard]] bool leads_back(tcp::endpoint const& to, tcp::endpoint const& at);

}  // namespace net
