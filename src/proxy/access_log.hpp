#pragma once

#include "net/asio.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace proxy {

/// What the access log says of a request.
struct log_line {
    std::string_view client;
    std::string_view request;
    unsigned status = 0;
    std::uint64_t bytes = 0;
    net::clock::duration took{};
    net::clock::duration waited{};
};

/// As it is written:
///
///     2024-05-01T12:00:00.123Z 127.0.0.1 "GET /dish HTTP/1.1" 200 1024 0.305 0.104
///
/// time, client, request, status, bytes of the answer's body, seconds in all, and of these in the queue.
/// A byte of the request that is not printable ASCII, a quote or a backslash is written as `\x22`.
[[nodiscard]] std::string text_of(log_line const& l);

}  // namespace proxy
