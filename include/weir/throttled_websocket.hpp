#pragma once

#include <weir/error.hpp>
#include <weir/throttled_stream.hpp>

#include <boost/beast/core/role.hpp>
#include <boost/beast/websocket/teardown.hpp>

#include <utility>

namespace weir::inline v0_2 {

/// Closes the layer below a throttled stream after the closing handshake of a websocket, which calls this function.
/// Include this header for `websocket::stream<weir::throttled_stream<...>>`. It waits for no permits.
template <class NextLayer>
void teardown(boost::beast::role_type role, throttled_stream<NextLayer>& stream, error_code& ec) {
    using boost::beast::websocket::teardown;
    teardown(role, stream.next_layer(), ec);
}

/// Closes the layer below a throttled stream after the closing handshake of a websocket, which calls this function.
/// Include this header for `websocket::stream<weir::throttled_stream<...>>`. It waits for no permits.
template <class NextLayer, class Handler>
void async_teardown(boost::beast::role_type role, throttled_stream<NextLayer>& stream,
                    Handler&& handler) {
    using boost::beast::websocket::async_teardown;
    async_teardown(role, stream.next_layer(), std::forward<Handler>(handler));
}

}  // namespace weir::inline v0_2
