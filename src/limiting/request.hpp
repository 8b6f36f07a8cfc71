#pragma once

#include "config/configuration.hpp"
#include "tool/network_map.hpp"

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

// Matches requests with the configuration.
namespace limiting {

/// Whether a route matches requests with this host (with or without a port), path (from `http::normal_path`) and
/// method. A request uses the first route that matches it, its client and its header fields.
[[nodiscard]] bool fits(config::route const& r, std::string_view host, std::string_view path,
                        std::string_view method);

/// Whether a request has the header fields of a route. `value_of(name)` returns the value of a field; empty without one.
template <class ValueOf>
[[nodiscard]] bool has_headers(config::route const& r, ValueOf value_of) {
    return std::ranges::all_of(r.headers, [&](config::header_condition const& wanted) {
        return std::ranges::find(wanted.values, value_of(wanted.name)) != wanted.values.end();
    });
}

/// The networks of a route's clients.
[[nodiscard]] tool::network_set clients_of(config::route const& r);

/// The weights of a limit's clients in the order `fair`, by network.
[[nodiscard]] tool::network_map<int> weights_of(config::limit const& l);

/// The class in the value of a priority field: a number from 0 to 7, written `3`, or `u=3` as in RFC 9218; 3 if the
/// value has none.
[[nodiscard]] int priority_of(std::string_view value);

/// The first address of the network for which `weir::client_key` returned `key`.
[[nodiscard]] boost::asio::ip::address address_of_key(std::uint64_t key);

}  // namespace limiting
