#pragma once

#include "context.hpp"
#include "openssl.hpp"

namespace tls {

/// A certificate with its key and its issuers.
struct certificate {
    certificate_info info;
    certificate_ptr leaf;
    chain_ptr issuers;
    key_ptr key;

    /// The algorithm of the key: a client gets one certificate of each kind to choose from.
    [[nodiscard]] int kind() const noexcept { return EVP_PKEY_get_base_id(key.get()); }
};

/// Reads a certificate. Throws `std::runtime_error`, which names the file and the reason.
[[nodiscard]] certificate read_certificate(certificate_files const& files);

}  // namespace tls
