#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

// Owners of OpenSSL's objects.
namespace tls {

template <auto Free>
struct freed_by {
    template <class T>
    void operator()(T* p) const noexcept {
        Free(p);
    }
};

using bio_ptr = std::unique_ptr<BIO, freed_by<BIO_free_all>>;
using key_ptr = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;
using certificate_ptr = std::unique_ptr<X509, freed_by<X509_free>>;
using context_ptr = std::unique_ptr<SSL_CTX, freed_by<SSL_CTX_free>>;
using ssl_ptr = std::unique_ptr<SSL, freed_by<SSL_free>>;
using store_ptr = std::unique_ptr<X509_STORE, freed_by<X509_STORE_free>>;

struct chain_deleter {
    void operator()(STACK_OF(X509) * chain) const noexcept { sk_X509_pop_free(chain, X509_free); }
};
using chain_ptr = std::unique_ptr<STACK_OF(X509), chain_deleter>;

/// The reason of the last failure of OpenSSL on this thread, in its words. Clears the errors of the thread.
[[nodiscard]] std::string take_reason();

}  // namespace tls
