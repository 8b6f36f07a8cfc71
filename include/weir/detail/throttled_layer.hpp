#pragma once

#include <weir/amount.hpp>
#include <weir/error.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/deferred.hpp>

#include <poll.h>

#include <limits>
#include <utility>

namespace weir::inline v0_2::detail {

/// A layer that can wait until it is readable or writable: a socket. Other layers hold bytes of which their socket does
/// not know, as TLS does.
template <class Layer>
concept waiting_layer = requires(Layer& l) {
    l.async_wait(Layer::wait_read, boost::asio::deferred);
    { l.native_handle() } -> std::convertible_to<int>;
};

template <class Layer>
[[nodiscard]] bool is_ready(Layer& layer, short event) noexcept {
    pollfd one{.fd = layer.native_handle(), .events = event, .revents = 0};
    return ::poll(&one, 1, 0) != 0;  // an error is reported by the transfer
}

/// A number of bytes that nothing bounds.
inline constexpr amount any_number = std::numeric_limits<amount>::max();

/// The difference between reads and writes: the calls of the next layer.
struct reading {
    using buffer_type = boost::asio::mutable_buffer;

    template <class Layer>
    [[nodiscard]] static constexpr bool pays_later() noexcept {
        return !waiting_layer<Layer>;
    }

    /// Returns the number of bytes that the layer has, `any_number` if it only knows that there are some.
    template <class Layer>
    [[nodiscard]] static amount ready(Layer& layer) noexcept {
        if constexpr (requires(error_code ec) { layer.available(ec); }) {
            error_code ignored;
            return static_cast<amount>(layer.available(ignored));
        } else {
            return is_ready(layer, POLLIN) ? any_number : 0;
        }
    }
    template <class Layer, class Handler>
    static void wait(Layer& layer, Handler&& handler) {
        layer.async_wait(Layer::wait_read, std::forward<Handler>(handler));
    }
    template <class Layer, class Buffers, class Handler>
    static void start(Layer& layer, Buffers const& buffers, Handler&& handler) {
        layer.async_read_some(buffers, std::forward<Handler>(handler));
    }
};

struct writing {
    using buffer_type = boost::asio::const_buffer;

    template <class Layer>
    [[nodiscard]] static constexpr bool pays_later() noexcept {
        return false;
    }

    /// Returns `any_number` if the layer takes bytes, otherwise 0.
    template <class Layer>
    [[nodiscard]] static amount ready(Layer& layer) noexcept {
        return is_ready(layer, POLLOUT) ? any_number : 0;
    }
    template <class Layer, class Handler>
    static void wait(Layer& layer, Handler&& handler) {
        layer.async_wait(Layer::wait_write, std::forward<Handler>(handler));
    }
    template <class Layer, class Buffers, class Handler>
    static void start(Layer& layer, Buffers const& buffers, Handler&& handler) {
        layer.async_write_some(buffers, std::forward<Handler>(handler));
    }
};

}  // namespace weir::inline v0_2::detail
