#include "tls.hpp"

#include <weir/redis/error.hpp>

#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <new>
#include <stdexcept>
#include <system_error>

namespace weir::inline v0_2::redis::detail {
namespace {

// Returns the words for the first error of OpenSSL in this thread.
std::string reason() {
    auto const code = ERR_peek_error();
    if (ERR_GET_LIB(code) == ERR_LIB_SYS)
        return std::generic_category().message(ERR_GET_REASON(code));
    auto const* const text = ERR_reason_error_string(code);
    return text ? text : "unknown error";
}

void check(bool succeeded, std::string const& what, std::string const& file) {
    if (!succeeded)
        throw std::invalid_argument(
            "weir::redis: cannot use the " + what + " " + file + ": " + reason());
}

void load(SSL_CTX* to, tls_options const& o) {
    if (!o.is_insecure && o.authorities.empty())
        check(SSL_CTX_set_default_verify_paths(to) == 1, "authorities", "of the system");
    else if (!o.is_insecure)
        check(SSL_CTX_load_verify_locations(to, o.authorities.c_str(), nullptr) == 1, "authorities",
              o.authorities);
    if (o.certificate.empty())
        return;
    check(SSL_CTX_use_certificate_chain_file(to, o.certificate.c_str()) == 1, "certificate",
          o.certificate);
    check(SSL_CTX_use_PrivateKey_file(to, o.key.c_str(), SSL_FILETYPE_PEM) == 1, "key", o.key);
}

int without_password(char*, int, int, void*) {
    return 0;
}

}  // namespace

tls_context::tls_context(tls_options const& o)
    : context_(SSL_CTX_new(TLS_client_method())), is_insecure_(o.is_insecure) {
    if (!context_)
        throw std::bad_alloc();
    ERR_clear_error();
    SSL_CTX_set_min_proto_version(context_, TLS1_2_VERSION);
    SSL_CTX_set_options(context_, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_verify(context_, is_insecure_ ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
    // By default OpenSSL asks for the password of a key at the terminal.
    SSL_CTX_set_default_passwd_cb(context_, &without_password);
    try {
        load(context_, o);
    } catch (...) {
        SSL_CTX_free(context_);
        throw;
    }
}

tls_context::~tls_context() {
    SSL_CTX_free(context_);
}

tls_session::tls_session(tls_context const& context, std::string const& host)
    : session_(SSL_new(context.context_)),
      from_server_(BIO_new(BIO_s_mem())),
      to_server_(BIO_new(BIO_s_mem())),
      is_insecure_(context.is_insecure_) {
    error_code not_numeric;
    boost::asio::ip::make_address(host, not_numeric);
    bool is_prepared = session_ && from_server_ && to_server_;
    if (is_prepared && !not_numeric) {
        is_prepared = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session_), host.c_str()) == 1;
    } else if (is_prepared) {
        SSL_set_hostflags(session_, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        is_prepared = SSL_set1_host(session_, host.c_str()) == 1 &&
                      SSL_set_tlsext_host_name(session_, host.c_str()) == 1;
    }
    if (!is_prepared) {
        SSL_free(session_);
        BIO_free(from_server_);
        BIO_free(to_server_);
        throw std::bad_alloc();
    }
    SSL_set_bio(session_, from_server_, to_server_);
    SSL_set_connect_state(session_);
}

tls_session::~tls_session() {
    SSL_free(session_);  // which owns the two others
}

void tls_session::receive(std::string_view bytes) {
    auto const size = static_cast<int>(bytes.size());
    if (size != 0 && BIO_write(from_server_, bytes.data(), size) != size)
        throw std::bad_alloc();
}

void tls_session::shake_hands() {
    ERR_clear_error();
    auto const result = SSL_do_handshake(session_);
    is_open_ = result == 1;
    if (!is_open_)
        note_failure(result);
}

std::size_t tls_session::read(char* to, std::size_t size) {
    ERR_clear_error();
    auto const n = SSL_read(session_, to, static_cast<int>(size));
    if (n > 0)
        return static_cast<std::size_t>(n);
    note_failure(n);
    return 0;
}

void tls_session::write(std::string_view bytes) {
    ERR_clear_error();
    auto const size = static_cast<int>(bytes.size());
    if (SSL_write(session_, bytes.data(), size) != size)
        throw std::bad_alloc();
}

void tls_session::take_due(std::string& to) {
    auto const size = BIO_ctrl_pending(to_server_);
    if (size == 0)
        return;
    auto const before = to.size();
    to.resize(before + size);
    BIO_read(to_server_, to.data() + before, static_cast<int>(size));
}

void tls_session::note_failure(int result) {
    auto const why = SSL_get_error(session_, result);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return;
    if (why == SSL_ERROR_ZERO_RETURN) {
        error_ = boost::asio::error::eof;
        return;
    }
    auto const verified = SSL_get_verify_result(session_);
    if (!is_open_ && !is_insecure_ && verified != X509_V_OK) {
        error_ = errc::certificate;
        text_ = X509_verify_cert_error_string(verified);
        return;
    }
    error_ = errc::tls;
    text_ = reason();
    if (!is_open_ && ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER)
        text_ += ": the server does not seem to use TLS at this port";
}

}  // namespace weir::inline v0_2::redis::detail
