#pragma once

#include "clock.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>

#include <type_traits>

// The types of Asio with the executor of the proxy. It is not type-erased, so scheduling is cheaper.
namespace net {

namespace asio = boost::asio;
using boost::system::error_code;

using executor = asio::io_context::executor_type;
using timer = asio::basic_waitable_timer<clock, clock_traits, executor>;
using tcp = asio::ip::tcp;
using tcp_socket = asio::basic_stream_socket<tcp, executor>;
using tcp_acceptor = asio::basic_socket_acceptor<tcp, executor>;

// TCP or a unix socket.
using stream = asio::generic::stream_protocol;
using endpoint = stream::endpoint;
using stream_socket = asio::basic_stream_socket<stream, executor>;
using stream_acceptor = asio::basic_socket_acceptor<stream, executor>;

template <class T = void>
using task = asio::awaitable<T, executor>;

/// Completes with a tuple that starts with the `error_code`, instead of throwing errors of the network.
inline constexpr auto as_values = asio::as_tuple(asio::deferred);
using values = std::remove_const_t<decltype(as_values)>;

}  // namespace net
