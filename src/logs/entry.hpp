#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace logs {

/// A part of each line.
struct key_source {
    enum class kind : std::uint8_t {
        client,  // the address, or the name, of the client
        field,   // the field `name` of the format
        method,  // of the request
        target,  // of the request, with its query
        host,    // that the request was for
    };
    kind what = kind::client;
    std::string name = {};
    bool may_be_missing = false;  // in the format: then it is empty

    friend bool operator==(key_source const&, key_source const&) = default;
};

/// How many parts of a line can be asked for.
inline constexpr std::size_t most_keys = 8;

/// A request as a line of a log describes it. The texts are valid until the next line is read.
struct entry {
    std::chrono::nanoseconds at{};  // the time of the line, since 1970 in UTC
    bool whole_second = false;      // it is known to the second only

    /// How long before that time the request came to the limiter; below 0: after it.
    std::chrono::nanoseconds before{};
    /// How long it was served, if the line says so.
    std::optional<std::chrono::nanoseconds> held;

    unsigned status = 0;  // 0: it is not said

    /// What was asked for, in its order; empty where the line has nothing.
    std::array<std::string_view, most_keys> keys;
};

}  // namespace logs
