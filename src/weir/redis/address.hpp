#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::redis::detail {

/// What a URL says: see `options::url`.
struct address {
    std::string path;  // of a local socket; otherwise host and port
    std::string host;
    std::uint16_t port = 6379;
    std::string user;
    std::string password;
    std::uint32_t database = 0;

    /// Throws `std::invalid_argument`, which does not repeat what the URL says, since a password may be in it.
    static address parse(std::string_view url);
};

}  // namespace weir::redis::detail
