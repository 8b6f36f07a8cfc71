#pragma once

#include "http/head.hpp"
#include "net/asio.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace proxy {

/// Ids for requests: none of them twice, by whatever process.
class request_ids {
public:
    request_ids();
    /// 32 digits.
    void make(std::string& out);

private:
    std::uint64_t process_;
    std::uint64_t next_;
};

/// What the access log says of a request.
struct log_line {
    std::chrono::system_clock::time_point ended;
    std::string_view client;
    std::string_view request;
    unsigned status = 0;
    std::uint64_t bytes = 0;
    net::clock::duration took{};
    net::clock::duration waited{};
    std::string_view upstream;  // the server that was asked; empty if none was
    std::string_view limit;     // that has turned the request away; empty if none has
    std::string_view id;
};

/// As it is written:
///
///     2024-05-01T12:00:00.123Z 127.0.0.1 "GET /dish HTTP/1.1" 200 1024 0.305 0.104 10.0.0.7:9000 "-" 5f3a9c...
///
/// time, client, request, status, bytes of the answer's body, seconds in all, of these in the queue, the server, the limit
/// that has turned it away, and the id of the request. A byte that is not printable ASCII, a quote or a backslash is
/// written as `\x22`.
[[nodiscard]] std::string text_of(log_line const& l);

/// The same as an object of JSON, with the names that nginx has for its members. What there is not is null.
[[nodiscard]] std::string json_of(log_line const& l);

/// What a request is called in the logs of all that have seen it: the X-Request-Id that has come with it, if it is short and
/// printable, or a fresh one. The request goes on with it, and with no other; `id` must live for as long as its head.
void take_request_id(http::request_head& request, std::string& id, request_ids& fresh);

}  // namespace proxy
