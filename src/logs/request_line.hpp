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

}  // namespace logs
