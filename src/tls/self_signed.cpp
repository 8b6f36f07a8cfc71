#include "context.hpp"
#include "openssl.hpp"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <stdexcept>

namespace tls {
namespace {

constexpr long valid_for = 30L * 24 * 3600;  // seconds

void check(bool is_good, char const* what) {
    if (!is_good)
        throw std::runtime_error(std::string("cannot ") + what + ": " + take_reason());
}

void add_names(X509* to) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, to, to, nullptr, nullptr, 0);
    std::unique_ptr<X509_EXTENSION, freed_by<X509_EXTENSION_free>> const names(X509V3_EXT_conf_nid(
        nullptr, &context, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1"));
    check(names && X509_add_ext(to, names.get(), -1) == 1, "name the certificate");
}

certificate_ptr make_certificate(EVP_PKEY* key) {
    certificate_ptr made(X509_new());
    check(made != nullptr, "make a certificate");
    auto* const x = made.get();
    std::uint32_t serial = 0;
    check(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1,
          "make a serial number");
    auto* const subject = X509_get_subject_name(x);
    bool const is_filled =
        X509_set_version(x, X509_VERSION_3) == 1 &&
        ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial) == 1 &&
        X509_gmtime_adj(X509_getm_notBefore(x), 0) &&
        X509_gmtime_adj(X509_getm_notAfter(x), valid_for) && X509_set_pubkey(x, key) == 1 &&
        X509_NAME_add_entry_by_txt(
            subject, "CN", MBSTRING_ASC, reinterpret_cast<unsigned char const*>("weir-proxy demo"),
            -1, -1, 0) == 1 &&
        X509_set_issuer_name(x, subject) == 1;
    check(is_filled, "make a certificate");
    add_names(x);
    check(X509_sign(x, key, EVP_sha256()) > 0, "sign the certificate");
    return made;
}

}  // namespace

void write_self_signed(certificate_files const& to) {
    key_ptr const key(EVP_EC_gen("P-256"));
    check(key != nullptr, "make a key");
    auto const made = make_certificate(key.get());
    int const descriptor = ::open(to.key.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    bio_ptr const key_file(descriptor >= 0 ? BIO_new_fd(descriptor, BIO_CLOSE) : nullptr);
    check(key_file && PEM_write_bio_PrivateKey(
                          key_file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1,
          "write the key");
    bio_ptr const file(BIO_new_file(to.certificate.c_str(), "wx"));
    check(file && PEM_write_bio_X509(file.get(), made.get()) == 1, "write the certificate");
}

}  // namespace tls
