#pragma once

#include "http/head.hpp"

#include <boost/asio/ip/address.hpp>

namespace proxy {

/// A request, for as long as its head lies in the buffer, and the client that it is of.
struct asking {
    http::request_head const& request;
    boost::asio::ip::address const& client;
};

}  // namespace proxy
