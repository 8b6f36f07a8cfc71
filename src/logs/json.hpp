#pragma once

#include "entry.hpp"
#include "format.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace logs {

/// The names of the JSON members to read. `request.remote_ip` is a member of a member. If a line has several of the
/// names, the first name in the list counts.
struct json_names {
    std::vector<std::string> time{"time",         "timestamp", "@timestamp", "ts",
                                  "time_iso8601", "msec",      "time_local", "start_time"};
    std::vector<std::string> client{"remote_addr",       "client_ip", "client",    "remote_ip",
                                    "request.client_ip", "clientip",  "ip",        "remote",
                                    "request.remote_ip", "host",      "ClientHost"};
    std::vector<std::string> request{"request", "request_line"};
    std::vector<std::string> target{"request_uri", "uri", "url", "path", "request.uri", "target"};
    std::vector<std::string> method{"method", "request_method", "request.method", "RequestMethod"};
    std::vector<std::string> host{"http_host", "server_name", "request.host", "RequestHost"};
    std::vector<std::string> status{"status", "status_code", "code", "response.status"};
    std::vector<std::string> took{"request_time", "duration", "took", "latency", "elapsed"};
    std::vector<std::string> sent{
        "body_bytes_sent", "size",  "bytes_sent",           "response_size",
        "bytes_out",       "bytes", "DownstreamContentSize"};
    std::vector<std::string> received{
        "bytes_read",     "content_length", "request_size",      "bytes_in",
        "bytes_received", "request_length", "RequestContentSize"};
    std::vector<std::string> upstream{"upstream"};            // of weir-proxy
    std::vector<std::string> waited{"waited"};                // time in the queue of weir-proxy
    std::chrono::nanoseconds unit = std::chrono::seconds(1);  // of `took` and `waited`

    /// Parses a text such as `time=ts client=ip took=ms:ms`. Throws `std::invalid_argument` if it is invalid.
    [[nodiscard]] static json_names parse(std::string_view text);
};

[[nodiscard]] std::unique_ptr<line_reader> make_json_reader(json_names names, stamped when,
                                                            std::vector<key_source> const& keys);

}  // namespace logs
