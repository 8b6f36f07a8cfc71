#include "client_certificates.hpp"

#include "pem.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>

#include <cstddef>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <vector>

namespace tls {
namespace {

// The longest chain of certificates that a client may send, in bytes.
constexpr long longest_chain = 32 * 1024;

// The longest list of names that a message can have, in bytes.
constexpr std::size_t longest_names = 65'535;

// TLS 1.3 renews a session at each use. After this time the client must prove its certificate again.
constexpr std::time_t proof_life = 2 * 60 * 60;

struct infos_deleter {
    void operator()(STACK_OF(X509_INFO) * all) const noexcept {
        sk_X509_INFO_pop_free(all, X509_INFO_free);
    }
};
using infos_ptr = std::unique_ptr<STACK_OF(X509_INFO), infos_deleter>;

infos_ptr read_blocks(std::string const& file) {
    auto const in = open_pem(file);
    auto const no_password = [](char*, int, int, void*) { return -1; };
    infos_ptr all(PEM_X509_INFO_read_bio(in.get(), nullptr, no_password, nullptr));
    if (!all)
        fail_at(file, take_reason());
    ERR_clear_error();
    return all;
}

std::vector<X509*> read_authorities(std::string const& file, infos_ptr const& blocks) {
    std::vector<X509*> all;
    for (int i = 0; i != sk_X509_INFO_num(blocks.get()); ++i) {
        auto const* const block = sk_X509_INFO_value(blocks.get(), i);
        if (block->crl)
            fail_at(file, "it has a list of revoked certificates, which weir-proxy does not check");
        if (block->x509)
            all.push_back(block->x509);
    }
    if (all.empty())
        fail_at(file, "it has no certificate in PEM format");
    return all;
}

std::string der_of(X509 const* one) {
    unsigned char* bytes = nullptr;
    auto const size = i2d_X509(one, &bytes);
    if (size < 0)
        throw std::bad_alloc();
    std::string made(reinterpret_cast<char const*>(bytes), static_cast<std::size_t>(size));
    OPENSSL_free(bytes);
    return made;
}

// Clients choose among their certificates by these names.
void set_names(SSL_CTX* to, std::vector<X509*> const& authorities, std::string const& file) {
    std::size_t size = 0;
    for (auto* const one : authorities) {
        size += 2 + static_cast<std::size_t>(i2d_X509_NAME(X509_get_subject_name(one), nullptr));
        if (SSL_CTX_add_client_CA(to, one) != 1)
            throw std::bad_alloc();
    }
    if (size > longest_names)
        fail_at(file, "the names of the authorities have more than 64 KiB, the most that a client "
                      "can receive");
}

int on_new_ticket(SSL* ssl, void*) {
    auto* const session = SSL_get_session(ssl);
    void* found = nullptr;
    std::size_t size = 0;
    SSL_SESSION_get0_ticket_appdata(session, &found, &size);
    if (size != 0)  // of a resumed session, or of the first of two tickets
        return 1;
    std::time_t const until = std::time(nullptr) + proof_life;
    return SSL_SESSION_set1_ticket_appdata(session, &until, sizeof until);
}

bool is_still_proven(SSL_SESSION* session) {
    void* found = nullptr;
    std::size_t size = 0;
    std::time_t until = 0;
    SSL_SESSION_get0_ticket_appdata(session, &found, &size);
    if (size == sizeof until)
        std::memcpy(&until, found, size);
    auto const* const peer = SSL_SESSION_get0_peer(session);
    return std::time(nullptr) < until &&
           (!peer || X509_cmp_current_time(X509_get0_notAfter(peer)) > 0);
}

SSL_TICKET_RETURN on_old_ticket(SSL*, SSL_SESSION* session, unsigned char const*, std::size_t,
                                SSL_TICKET_STATUS status, void*) {
    bool const is_readable = status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW;
    if (!is_readable || !is_still_proven(session))
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

}  // namespace

std::string ask_for_certificates(SSL_CTX* to, client_certificates const& c) {
    auto const blocks = read_blocks(c.authorities);
    auto const authorities = read_authorities(c.authorities, blocks);
    store_ptr const store(X509_STORE_new());
    if (!store)
        throw std::bad_alloc();
    std::string differs(c.required ? "required" : "optional");
    for (auto* const one : authorities) {
        if (X509_STORE_add_cert(store.get(), one) != 1)
            fail_at(c.authorities, take_reason());
        differs += der_of(one);
    }
    // An authority may be known without the one that issued its own certificate.
    X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN);
    if (SSL_CTX_set1_verify_cert_store(to, store.get()) != 1 ||
        SSL_CTX_set_session_ticket_cb(to, on_new_ticket, on_old_ticket, nullptr) != 1)
        throw std::bad_alloc();
    set_names(to, authorities, c.authorities);
    SSL_CTX_set_max_cert_list(to, longest_chain);
    SSL_CTX_set_verify(to, SSL_VERIFY_PEER | (c.required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                       nullptr);
    return differs;
}

std::string text_of(X509_NAME const* name) {
    bio_ptr const out(BIO_new(BIO_s_mem()));
    bool const is_written = out && X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_RFC2253) >= 0;
    ERR_clear_error();
    char* bytes = nullptr;
    auto const size = is_written ? BIO_get_mem_data(out.get(), &bytes) : 0L;
    std::string text(size > 0 ? bytes : "", static_cast<std::size_t>(size));
    // A blank at the end would be lost at the end of a header field.
    if (text.ends_with("\\ "))
        text.replace(text.size() - 1, 1, "20");
    return text;
}

std::string verified_subject_of(SSL const* ssl) {
    auto const* const peer = SSL_get0_peer_certificate(ssl);
    return peer && SSL_get_verify_result(ssl) == X509_V_OK
               ? text_of(X509_get_subject_name(peer))
               : std::string();
}

}  // namespace tls
