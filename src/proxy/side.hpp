#pragma once

#include "http/buffer.hpp"
#include "net/connection.hpp"

namespace proxy {

/// One side of an exchange or of a tunnel: a connection, and what has come by it and was not used.
struct side {
    net::connection& connection;
    http::buffer& received;
};

}  // namespace proxy
