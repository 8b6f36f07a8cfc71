#pragma once

#include "asio.hpp"
#include "http/buffer.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace net {

/// The encryption of one connection. It reads and writes the socket of the connection itself, and never waits. Use it on
/// the thread of the connection, and only while the socket is open.
class channel {
public:
    /// `ec` is `would_block` if the operation must be repeated when the socket is ready for `next`.
    struct result {
        std::size_t bytes = 0;
        error_code ec = {};
        stream_socket::wait_type next = stream_socket::wait_read;
        bool is_costly =
            false;  // the next call of `shake_hands` uses the private key, and need not wait for the socket
    };

    /// The result of the handshake. The texts live as long as the channel.
    struct agreement {
        std::string_view version = {};  // such as `TLSv1.3`
        std::string_view cipher = {};
        // For which the client asked, in lower case; empty if it named none, or an address.
        std::string_view server_name = {};
        std::string_view client_certificate =
            {};  // its subject (RFC 4514), printable ASCII; empty without a verified one
        std::string_view protocol = {};  // by ALPN; empty if they agreed on none
        bool is_resumed = false;         // with the keys of an earlier connection
    };

    channel() = default;
    channel(channel const&) = delete;
    virtual ~channel() = default;

    /// Begins the connection. Call it until it succeeds or fails, before the other functions.
    [[nodiscard]] virtual result shake_hands() = 0;
    [[nodiscard]] virtual agreement agreed() const = 0;

    /// Reads bytes. `ec` is `eof` only if the other side announced the end: without that, the data may have been cut.
    [[nodiscard]] virtual result read(std::span<char> into) = 0;
    /// Writes as many bytes as the socket accepts. After `would_block` the next call must begin with the bytes that this
    /// call did not write.
    [[nodiscard]] virtual result write(http::gather const& what) = 0;
    /// Whether there are received bytes that the socket does not report: `read` comes before a wait for the socket.
    [[nodiscard]] virtual bool has_input() const = 0;
    /// Announces the end of the output. Call it only after `write` wrote all bytes.
    virtual result end_output() = 0;
};

}  // namespace net
