#pragma once

#include "net/client_hello.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

/// Properties of the parser of a ClientHello for any input. Each function throws if a property does not hold.
namespace hello {

using state = net::client_hello::state;

inline bool equal(net::client_hello const& a, net::client_hello const& b) {
    return a.is == b.is && a.server_name == b.server_name;
}

/// The verdict over the first bytes stays the verdict when more bytes follow.
inline void stays_the_same(std::string_view bytes, std::size_t first) {
    auto const n = std::min(first, bytes.size());
    auto const early = net::parse_client_hello(std::string(bytes.substr(0, n)));
    auto const late = net::parse_client_hello(std::string(bytes));
    if (early.is != state::incomplete && !equal(early, late))
        throw std::logic_error("more bytes changed the verdict");
    if (early.is == state::incomplete && !early.server_name.empty())
        throw std::logic_error("an incomplete message has a name");
    if (late.is == state::incomplete && bytes.size() >= net::client_hello::most_bytes)
        throw std::logic_error("a message that is too long is awaited");
    if (!std::ranges::all_of(late.server_name, [](char c) { return c > ' ' && c < 0x7f; }))
        throw std::logic_error("a name that cannot be printed");
}

/// A message, divided into records of at most `length` bytes.
inline std::string records_of(std::string_view message, std::size_t length) {
    std::string out;
    for (std::size_t at = 0; at < message.size(); at += length) {
        auto const part = message.substr(at, length);
        out += {'\x16', '\x03', '\x01', static_cast<char>(part.size() >> 8),
                static_cast<char>(part.size() & 255)};
        out += part;
    }
    return out;
}

/// The division into records does not matter.
inline void is_the_same_in_records(std::string_view message, std::size_t length) {
    auto const n = std::max<std::size_t>(length, 1);
    auto const cut = records_of(message, n);
    if (cut.size() > net::client_hello::most_bytes || message.empty())
        return;
    if (!equal(net::parse_client_hello(cut), net::parse_client_hello(records_of(message, 16'384))))
        throw std::logic_error("the division into records changed the verdict");
}

}  // namespace hello
