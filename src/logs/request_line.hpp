#pragma once

#include <string_view>

namespace logs {

/// The second word: `/a?b` of `GET /a?b HTTP/1.1`. Returns the whole text if it has only one word.
[[nodiscard]] inline std::string_view target_of(std::string_view request) noexcept {
    auto const first = request.find(' ');
    if (first == request.npos)
        return request;
    auto const rest = request.substr(first + 1);
    return rest.substr(0, rest.find(' '));
}

/// The first word: `GET` of `GET /a?b HTTP/1.1`. Empty if the text has only one word.
[[nodiscard]] inline std::string_view method_of(std::string_view request) noexcept {
    auto const first = request.find(' ');
    return first == request.npos ? std::string_view() : request.substr(0, first);
}

/// Whether the text is the first line of a request: `GET /a?b HTTP/1.1`.
[[nodiscard]] inline bool is_request_line(std::string_view request) noexcept {
    auto const last = request.rfind(' ');
    return last != request.npos && request.find(' ') != last &&
           request.substr(last + 1).starts_with("HTTP/");
}

/// Whether weir-proxy wrote the text in place of a request, for a connection of another protocol: `tcp 0.0.0.0:3306`.
[[nodiscard]] inline bool is_connection_line(std::string_view request) noexcept {
    return request.starts_with("tcp ") && !is_request_line(request);
}

/// Whether servers respond with this status to a request that they cannot read or forward.
[[nodiscard]] inline bool is_of_invalid_request(unsigned status) noexcept {
    switch (status) {
        case 400:
        case 408:
        case 413:
        case 414:
        case 417:
        case 431:
        case 501:
        case 505:
            return true;
        default:
            return false;
    }
}

}  // namespace logs
