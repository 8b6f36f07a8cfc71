#pragma once

#include "http/head.hpp"
#include "tool/network.hpp"

#include <boost/asio/ip/address.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace admin {

/// Who may ask, and what for.
struct guard {
    std::string host;                  // as the address was given
    std::vector<tool::network> allow;  // beside this machine itself
    bool write = false;

    /// Whether the peer may ask at all: unspecified for one that comes by a socket of the file system.
    [[nodiscard]] bool lets_in(boost::asio::ip::address const& peer) const;

    /// Whether the request names this very place: an address, `localhost` or `host`. Another name may be one that a site
    /// elsewhere has given to this address, so that a browser takes it for that site (DNS rebinding).
    [[nodiscard]] bool is_here(http::request_head const& request) const;

    /// What is wrong with a request that is to change something; nothing if it may. A browser says where it comes from, and only
    /// what comes from the page itself may change anything.
    [[nodiscard]] http::fault forbids_change(http::request_head const& request) const;
};

/// The value of a field; empty if it is not there.
[[nodiscard]] std::string_view value_of(http::request_head const& request, std::string_view name);

}  // namespace admin
