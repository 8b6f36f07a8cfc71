#pragma once

#include "config/configuration.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstdint>
#include <string_view>

// How a configuration understands a request.
namespace limiting {

/// Whether a route is for requests of this host (with or without a port), path (as `http::normal_path` has it) and
/// method. The first that fits a request is its route.
[[nodiscard]] bool fits(config::route const& r, std::string_view host, std::string_view path,
                        std::string_view method);

/// The class that a field names: a number from 0 to 7, as `3` or as the `u=3` of RFC 9218; 3 if it names none.
[[nodiscard]] int priority_of(std::string_view value);

/// The first address of the network that `weir::client_key` has made a key of.
[[nodiscard]] boost::asio::ip::address address_of_key(std::uint64_t key);

}  // namespace limiting
