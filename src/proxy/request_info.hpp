#pragma once

#include "http/head.hpp"

#include <boost/asio/ip/address.hpp>

#include <string_view>

namespace proxy {

/// A request, valid while its head is in the buffer and its connection exists, and its client.
struct request_info {
    http::request_head const& request;
    boost::asio::ip::address const& client;
    bool is_trusted = false;  // its peer is trusted, and may state its cost
    // See `net::channel::agreement`.
    std::string_view client_certificate = {};
    std::string_view server_name = {};
};

}  // namespace proxy
