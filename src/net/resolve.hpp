#pragma once

#include "asio.hpp"

#include <string>

namespace net {

/// The first endpoint that the name has; blocks meanwhile.
[[nodiscard]] tcp::endpoint resolve(std::string const& host, std::string const& port,
                                    error_code& ec);

/// Whether what is sent to `to` may come back to a socket that listens at `at`.
[[nodiscard]] bool leads_back(tcp::endpoint const& to, tcp::endpoint const& at);

}  // namespace net
