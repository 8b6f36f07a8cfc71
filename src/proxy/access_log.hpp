#pragma once

#include "http/head.hpp"
#include "net/asio.hpp"
#include "net/channel.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace proxy {

/// Makes ids of requests. An id is unique across processes.
class request_ids {
public:
    request_ids();
    /// Writes 32 hexadecimal digits.
    void make(std::string& out);

private:
    std::array<char, 32> text_;  // the first half identifies the process
    std::uint64_t next_;
};

/// The facts of a request in the access log.
struct log_line {
    std::chrono::system_clock::time_point ended;
    std::string_view client;
    std::string_view request;
    unsigned status = 0;
    std::uint64_t bytes = 0;
    net::clock::duration took{};
    net::clock::duration waited{};
    std::optional<net::clock::duration> throttled = {};  // empty without a bandwidth
    std::string_view upstream;  // the server that got the request; empty without one
    std::string_view limit;     // that rejected the request; empty without one
    std::string_view id;
    std::optional<net::channel::agreement> encryption = {};
};

/// Formats a line of the text format:
///
///     2024-05-01T12:00:00.123Z 127.0.0.1 "GET /cart HTTP/1.1" 200 1024 0.305 0.104 10.0.0.7:9000 "-" 5f3a9c...
///
/// The fields are: time, client, request, status, bytes of the response body, seconds in total, seconds in queues,
/// server, the limit that rejected the request, and the id of the request. A quote, a backslash and a byte outside
/// printable ASCII are written like `\x22`.
[[nodiscard]] std::string text_of(log_line const& l);

/// Formats a line as a JSON object, with nginx's names for its members. A missing value is null. Only the line of an
/// encrypted connection has the members about that.
[[nodiscard]] std::string json_of(log_line const& l);

/// Sets `id` to the request's X-Request-Id, if it is printable, without spaces, and has at most 128 characters, or
/// else to a new id. The forwarded request has this id and no other; a request with the maximum number of fields gets
/// no new id. `id` must live as long as the request's head.
void take_request_id(http::request_head& request, std::string& id, request_ids& fresh);

}  // namespace proxy
