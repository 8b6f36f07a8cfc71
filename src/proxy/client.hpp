#pragma once

#include "config/configuration.hpp"
#include "http/head.hpp"

#include <boost/asio/ip/address.hpp>

#include <string>

namespace proxy {

/// The address as text, for the upstream and the log; `unknown` if it is unspecified.
[[nodiscard]] std::string name_of(boost::asio::ip::address const& client);

/// Whether the peer's word on its client is believed: it is in a trusted network, or comes by a socket of the file system
/// (its address is unspecified) where any network is trusted.
[[nodiscard]] bool is_trusted(config::clients_options const& c,
                              boost::asio::ip::address const& peer);

/// Who the client of a request is: the peer; or, if that is trusted, the right-most address in the field that is not. What
/// stands left of that, the client may have written itself. An entry that is no address ends the search.
[[nodiscard]] boost::asio::ip::address client_of(config::clients_options const& c,
                                                 http::request_head const& request,
                                                 boost::asio::ip::address const& peer);

}  // namespace proxy
