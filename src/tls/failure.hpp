#pragma once

#include "net/asio.hpp"

#include <boost/system/error_code.hpp>

#include <cstdint>
#include <type_traits>

namespace tls {

/// Why a handshake failed, besides errors of the network.
enum class failure : std::uint8_t {
    other = 1,          // a message that breaks the protocol
    unknown_name,       // the client asks for a name that no certificate has
    no_common_version,  // the client has neither TLS 1.2 nor 1.3
    no_common_cipher,   // or no signature algorithm of a certificate, or no common protocol (ALPN)
    not_tls,            // such as an HTTP request
    rejected,           // by the client, for example because it does not trust the certificate
    no_certificate,     // the client has none, and one is required
    bad_certificate,    // the certificate of the client is not valid
};
inline constexpr std::size_t failures = 8;

[[nodiscard]] boost::system::error_category const& category() noexcept;
[[nodiscard]] inline net::error_code make_error_code(failure f) noexcept {
    return {static_cast<int>(f), category()};
}

}  // namespace tls

template <>
struct boost::system::is_error_code_enum<tls::failure> : std::true_type {};
