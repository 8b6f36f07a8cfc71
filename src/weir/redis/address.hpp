#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::inline v0_2::redis::detail {

/// The parts of a URL: see `options::url`.
struct address {
    std::string path;  // of a local socket; otherwise host and port are set
    std::string host;
    std::uint16_t port = 6379;
    std::string user;
    std::string password;
    std::uint32_t database = 0;

    /// Throws `std::invalid_argument`. Its text does not quote the URL, which may contain a password.
    static address parse(std::string_view url);
};

}  // namespace weir::inline v0_2::redis::detail
