#pragma once

#include "tls/openssl.hpp"

#include <boost/test/unit_test.hpp>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <string>

/// A certificate with its key. Without an issuer it signs itself, as an authority if it has no alternative names. It is
/// valid for `seconds` from now.
struct made_certificate {
    made_certificate(std::string const& alternatives, std::string const& common,
                     made_certificate const* issuer = nullptr, long seconds = 1000)
        : key(EVP_EC_gen("P-256")), x(X509_new()) {
        static long serial = 0;
        auto* const subject = X509_get_subject_name(x.get());
        X509_set_version(x.get(), 2);
        ASN1_INTEGER_set(X509_get_serialNumber(x.get()), ++serial);
        X509_gmtime_adj(X509_getm_notBefore(x.get()), -1000);
        X509_gmtime_adj(X509_getm_notAfter(x.get()), seconds);
        X509_set_pubkey(x.get(), key.get());
        X509_NAME_add_entry_by_txt(
            subject, "CN", MBSTRING_ASC, reinterpret_cast<unsigned char const*>(common.c_str()), -1,
            -1, 0);
        X509_set_issuer_name(x.get(), issuer ? X509_get_subject_name(issuer->x.get()) : subject);
        if (!alternatives.empty())
            extend(NID_subject_alt_name, alternatives);
        else if (!issuer)
            extend(NID_basic_constraints, "critical,CA:TRUE");
        BOOST_REQUIRE(X509_sign(x.get(), issuer ? issuer->key.get() : key.get(), EVP_sha256()) > 0);
    }
    void extend(int what, std::string const& value) const {
        auto* const one = X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
        BOOST_REQUIRE(one);
        X509_add_ext(x.get(), one, -1);
        X509_EXTENSION_free(one);
    }
    void write(std::string const& file) const {
        auto* const to = std::fopen(file.c_str(), "w");
        BOOST_REQUIRE(to);
        BOOST_REQUIRE(PEM_write_X509(to, x.get()) == 1);
        std::fclose(to);
    }

    tls::key_ptr key;
    tls::certificate_ptr x;
};
