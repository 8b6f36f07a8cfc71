#pragma once

#include <cstdint>
#include <string_view>

namespace http {

/// The name of a header field, among the names that have a meaning for the proxy.
enum class field_name : std::uint8_t {
    other,
    accept,
    connection,
    content_length,
    date,
    expect,
    forwarded,
    host,
    http2_settings,
    keep_alive,
    proxy_authenticate,
    proxy_authorization,
    proxy_connection,
    te,
    trailer,
    transfer_encoding,
    upgrade,
    x_forwarded_for,
    x_forwarded_host,
    x_forwarded_method,
    x_forwarded_proto,
    x_forwarded_uri,
    x_original_host,
    x_original_method,
    x_original_uri,
    x_original_url,
    x_request_id
};

/// Finds a name, without regard to case.
[[nodiscard]] field_name field_name_of(std::string_view text) noexcept;

}  // namespace http
