#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace logs {

/// A part of a line that a reader can extract.
struct key_source {
    enum class kind : std::uint8_t {
        client,  // the address or the name of the client
        field,   // the field `name` of the format
        method,  // of the request
        target,  // of the request, with its query
        host,    // of the request
    };
    kind what = kind::client;
    std::string name = {};
    bool may_be_missing = false;  // the format may lack it; then it is empty

    friend bool operator==(key_source const&, key_source const&) = default;
};

/// The maximum number of parts that a reader extracts.
inline constexpr std::size_t most_keys = 8;

/// A request, as a line of a log describes it. The texts are valid until the reader reads the next line.
struct entry {
    std::chrono::nanoseconds at{};  // the time in the line, since 1970 in UTC
    bool whole_second = false;      // the time has no fraction of a second

    /// The time from the arrival of the request at the limiter to `at`; negative if it arrived later.
    std::chrono::nanoseconds before{};
    /// The service time of the request, if the line contains it.
    std::optional<std::chrono::nanoseconds> held;

    /// The bytes of the response and of the request, if the line contains them: of the body, or with the head where a
    /// format has no other number.
    std::optional<std::uint64_t> sent;
    std::optional<std::uint64_t> received;

    unsigned status = 0;         // 0: the line has none
    bool is_invalid = false;     // the server rejected the request as invalid, before any limit
    bool is_connection = false;  // no request, but a connection of another protocol

    /// The requested parts, in the order of the request; empty where the line has none.
    std::array<std::string_view, most_keys> keys;
};

}  // namespace logs
