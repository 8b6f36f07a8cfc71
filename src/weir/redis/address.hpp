#pragma once

#include "tls.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::inline v0_2::redis::detail {

/// The address of a server, with the login and the database.
struct address {
    std::string path;  // of a local socket; otherwise host and port are set
    std::string host;
    std::uint16_t port = 6379;
    std::string user;
    std::string password;
    std::uint32_t database = 0;

    /// Returns it as text, without the login.
    [[nodiscard]] std::string to_string() const {
        auto const is_v6 = host.find(':') != host.npos;
        return path.empty() ? (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port) : path;
    }
};

/// Returns the address in a redirection, `MOVED slot host:port` or `ASK slot host:port`, by a server at `by`: with its
/// login, and with its host if the host is empty. `nullopt` if the text is invalid.
[[nodiscard]] std::optional<address> redirected(std::string_view said, address const& by);

/// The servers of a URL, and how to connect to them.
struct destination {
    std::vector<address> servers;    // at least one
    std::optional<tls_options> tls;  // none: nothing is encrypted
    /// The name of a primary. If it is set, the servers are Sentinels, which know its address.
    std::string primary_name;
    /// The login and the database at that primary.
    address primary;

    /// Parses a URL: see `options::url`. Throws `std::invalid_argument`. Its text does not quote the URL, which may
    /// contain a password.
    static destination parse(std::string_view url);
};

}  // namespace weir::inline v0_2::redis::detail
