#pragma once

#include "net/asio.hpp"
#include "net/connection.hpp"

namespace proxy {

/// Ends the output, and then reads until the client closes the connection, sends nothing for `silence`, or `most` passed.
/// Closing a socket with unread input resets the connection, and then the client may not receive the last bytes.
[[nodiscard]] net::task<> close_gently(net::connection& client, net::clock::duration silence,
                                       net::clock::duration most);

}  // namespace proxy
