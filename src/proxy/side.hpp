#pragma once

#include "http/buffer.hpp"
#include "net/connection.hpp"

namespace proxy {

/// One side of an exchange or of a tunnel: a connection and its unread bytes.
struct side {
    net::connection& connection;
    http::buffer& received;
};

}  // namespace proxy
