#pragma once

#include "config/configuration.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstdint>
#include <string_view>

// Matches requests with the configuration.
namespace limiting {

/// Whether a route matches requests with this host (with or without a port), path (from `http::normal_path`) and
/// method. A request uses the first route that matches.
[[nodiscard]] bool fits(config::route const& r, std::string_view host, std::string_view path,
                        std::string_view method);

/// The class in the value of a priority field: a number from 0 to 7, written `3`, or `u=3` as in RFC 9218; 3 if the
/// value has none.
[[nodiscard]] int priority_of(std::string_view value);

/// The first address of the network for which `weir::client_key` returned `key`.
[[nodiscard]] boost::asio::ip::address address_of_key(std::uint64_t key);

}  // namespace limiting
