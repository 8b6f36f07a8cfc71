#pragma once

#include "context.hpp"
#include "openssl.hpp"

#include <string>

namespace tls {

/// Makes `to` ask each client for a certificate. Throws `std::runtime_error`, which names the file and the reason.
/// Returns a text that differs for other authorities and rules: a session of one text must not be resumed with another,
/// because a session keeps the result of the verification.
[[nodiscard]] std::string ask_for_certificates(SSL_CTX* to, client_certificates const& c);

/// The text of a name (RFC 4514), in printable ASCII: each byte of another character is `\` and two hexadecimal digits. It
/// begins and ends with no blank.
[[nodiscard]] std::string text_of(X509_NAME const* name);

/// The subject of the certificate of the other side, if it has one and it was verified; otherwise empty.
[[nodiscard]] std::string verified_subject_of(SSL const* ssl);

}  // namespace tls
