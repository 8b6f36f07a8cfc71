#pragma once

#include "http/head.hpp"

#include <boost/asio/ip/address.hpp>

namespace proxy {

/// A request, valid while its head is in the buffer, and its client.
struct request_info {
    http::request_head const& request;
    boost::asio::ip::address const& client;
    bool is_trusted = false;  // its peer is trusted, and may state its cost
};

}  // namespace proxy
