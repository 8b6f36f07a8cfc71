#include "certificate.hpp"

#include "names.hpp"
#include "pem.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <string_view>
#include <utility>

namespace tls {
namespace {

// OpenSSL would ask for it on the terminal.
int no_password(char*, int, int, void* asked) {
    *static_cast<bool*>(asked) = true;
    return -1;
}

void read_leaf_and_issuers(std::string const& file, certificate& into) {
    auto const in = open_pem(file);
    into.leaf.reset(PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr));
    if (!into.leaf) {
        bool const is_empty = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
        fail_at(file, is_empty ? "it has no certificate in PEM format" : take_reason());
    }
    into.issuers.reset(sk_X509_new_null());
    while (certificate_ptr next{PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr)})
        if (sk_X509_push(into.issuers.get(), next.get()) > 0)
            static_cast<void>(next.release());
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        fail_at(file, take_reason());
    ERR_clear_error();
}

key_ptr read_key(std::string const& file) {
    auto const in = open_pem(file, S_IROTH | S_IWOTH);
    bool is_encrypted = false;
    key_ptr key(PEM_read_bio_PrivateKey(in.get(), nullptr, no_password, &is_encrypted));
    if (is_encrypted)
        fail_at(file, "the key is encrypted; store it without a password");
    if (!key) {
        bool const is_empty = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
        fail_at(file, is_empty ? "it has no private key in PEM format" : take_reason());
    }
    return key;
}

void add_if_usable(std::vector<std::string>& names, ASN1_STRING const* name) {
    auto const* const data = ASN1_STRING_get0_data(name);
    std::string text(reinterpret_cast<char const*>(data),
                     static_cast<std::size_t>(ASN1_STRING_length(name)));
    if (names::is_usable(text))
        names.push_back(std::move(text));
}

// The DNS names among the subject's alternative names, or the common name if there are none (RFC 6125, 6.4.4).
std::vector<std::string> names_of(X509* leaf) {
    std::vector<std::string> names;
    bool has_dns_name = false;
    if (auto* const all = static_cast<GENERAL_NAMES*>(
            X509_get_ext_d2i(leaf, NID_subject_alt_name, nullptr, nullptr))) {
        for (int i = 0; i != sk_GENERAL_NAME_num(all); ++i) {
            auto const* const one = sk_GENERAL_NAME_value(all, i);
            if (one->type != GEN_DNS)
                continue;
            has_dns_name = true;
            add_if_usable(names, one->d.dNSName);
        }
        GENERAL_NAMES_free(all);
    }
    auto const* const subject = X509_get_subject_name(leaf);
    auto const at = has_dns_name ? -1 : X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at >= 0)
        add_if_usable(names, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    return names;
}

std::chrono::system_clock::time_point time_of(ASN1_TIME const* t) {
    std::tm parts{};
    if (ASN1_TIME_to_tm(t, &parts) != 1)
        return {};
    return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

// Whether clients reject the certificate without an answer of its OCSP responder (RFC 7633).
bool must_staple(X509* leaf) {
    constexpr long status_request = 5;
    auto* const all =
        static_cast<TLS_FEATURE*>(X509_get_ext_d2i(leaf, NID_tlsfeature, nullptr, nullptr));
    bool found = false;
    for (int i = 0; all && i != sk_ASN1_INTEGER_num(all); ++i)
        found = found || ASN1_INTEGER_get(sk_ASN1_INTEGER_value(all, i)) == status_request;
    TLS_FEATURE_free(all);
    return found;
}

}  // namespace

std::string take_reason() {
    auto const code = ERR_peek_last_error();
    auto const* const text = ERR_reason_error_string(code);
    std::string why(text ? text : "unknown error of OpenSSL");
    ERR_clear_error();
    return why;
}

certificate read_certificate(certificate_files const& files) {
    certificate made;
    read_leaf_and_issuers(files.certificate, made);
    made.key = read_key(files.key);
    if (X509_check_private_key(made.leaf.get(), made.key.get()) != 1) {
        ERR_clear_error();
        fail_at(files.key, "the key does not fit the certificate `" + files.certificate + "`");
    }
    if (must_staple(made.leaf.get()))
        fail_at(files.certificate, "clients reject this certificate without OCSP stapling, which "
                                   "weir-proxy does not have; "
                                   "get one without `must-staple`");
    made.info = {.file = files.certificate,
                 .names = names_of(made.leaf.get()),
                 .valid_from = time_of(X509_get0_notBefore(made.leaf.get())),
                 .valid_until = time_of(X509_get0_notAfter(made.leaf.get()))};
    return made;
}

}  // namespace tls
