#pragma once

#include "http/head.hpp"
#include "tool/network.hpp"

#include <boost/asio/ip/address.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace admin {

/// Decides which requests the admin server accepts.
struct guard {
    std::string host;                  // of the configured address
    std::vector<tool::network> allow;  // besides this machine itself
    bool write = false;

    /// Whether the peer may send requests. The address of a peer on a unix socket is unspecified; such a peer may.
    [[nodiscard]] bool lets_in(boost::asio::ip::address const& peer) const;

    /// Whether the Host of the request is empty, an address, `localhost` or `host`. An attacker can point any other
    /// name at this address, so that a browser treats the responses as the attacker's site (DNS rebinding).
    [[nodiscard]] bool is_here(http::request_head const& request) const;

    /// Why the request may not change anything; empty if it may. A browser reports the site that caused a request; only
    /// its requests from the page itself may change limits.
    [[nodiscard]] http::fault forbids_change(http::request_head const& request) const;
};

/// The value of a header field; empty if the field is missing.
[[nodiscard]] std::string_view value_of(http::request_head const& request, std::string_view name);

}  // namespace admin
