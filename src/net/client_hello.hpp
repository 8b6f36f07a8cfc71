#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace net {

/// The first message of a client that uses TLS. It names the server that the client wants, before any encryption.
struct client_hello {
    enum class state : std::uint8_t { incomplete, complete, wrong };

    /// With the heads of its records. A longer one is wrong.
    static constexpr std::size_t most_bytes = 16 * 1024;

    state is = state::incomplete;
    std::string server_name;  // if it is complete; empty if the client names none
};

/// Parses the first bytes of a connection (RFC 8446, 4.1.2 and 5.1; RFC 6066, 3). Other messages are wrong, as soon as
/// their bytes show that. A ClientHello that TLS does not allow is also wrong: with two extensions of one type, with two
/// names, or with a name that is empty, longer than 255 bytes or not printable ASCII without spaces. The function judges
/// neither versions, nor ciphers, nor the content of other extensions.
[[nodiscard]] client_hello parse_client_hello(std::string_view bytes);

/// The alert `unrecognized_name`, for a client that did not begin to encrypt.
[[nodiscard]] std::string_view unrecognized_name_alert() noexcept;

}  // namespace net
