#include "client.hpp"

#include "certificate.hpp"
#include "engine.hpp"
#include "openssl.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

namespace tls {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::array<unsigned char, 9> http_1_1{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

using session_ptr = std::unique_ptr<SSL_SESSION, freed_by<SSL_SESSION_free>>;

// ---- Errors

// The values are OpenSSL's `X509_V_ERR_...`.
class certificate_errors final : public boost::system::error_category {
public:
    [[nodiscard]] char const* name() const noexcept override { return "certificate"; }
    [[nodiscard]] std::string message(int value) const override {
        return std::string("the certificate is not accepted: ") +
               X509_verify_cert_error_string(value);
    }
};

// The values are the codes of OpenSSL.
class tls_errors final : public boost::system::error_category {
public:
    [[nodiscard]] char const* name() const noexcept override { return "tls"; }
    [[nodiscard]] std::string message(int value) const override {
        auto const code = static_cast<unsigned long>(value);
        bool const is_of_ssl = ERR_GET_LIB(code) == ERR_LIB_SSL;
        if (auto const reason = ERR_GET_REASON(code);
            is_of_ssl && (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST))
            return "the server does not use TLS at this port";
        auto const* const text = ERR_reason_error_string(code);
        return text ? text : "unknown error of OpenSSL";
    }
};

certificate_errors const of_certificate;
tls_errors const of_tls;

// ---- The contents of the files, and the state of the system's authorities

class fingerprint {
public:
    void add(std::string_view part) {
        text_ += std::to_string(part.size()) + ' ';
        text_ += part;
    }
    void add_file(std::string const& path) {
        std::ifstream in(path, std::ios::binary);
        add(std::string(std::istreambuf_iterator<char>(in), {}));
    }
    // A folder changes with the names in it. A new authority is a new name.
    void add_folder(std::string const& path) {
        struct stat s{};
        if (::stat(path.c_str(), &s) == 0)
            add(std::to_string(s.st_ino) + ' ' + std::to_string(s.st_mtim.tv_sec) + ' ' +
                std::to_string(s.st_mtim.tv_nsec));
    }
    // A digest: the text may have a private key.
    [[nodiscard]] std::string digest() const {
        std::string out(EVP_MAX_MD_SIZE, '\0');
        unsigned size = 0;
        if (EVP_Digest(text_.data(), text_.size(), reinterpret_cast<unsigned char*>(out.data()),
                       &size, EVP_sha256(), nullptr) != 1)
            throw std::runtime_error("OpenSSL: " + take_reason());
        out.resize(size);
        return out;
    }

private:
    std::string text_;
};

std::string variable_or(char const* name, char const* otherwise) {
    auto const* const value = std::getenv(name);
    return value ? value : otherwise;
}

std::string fingerprint_of(client_settings const& s) {
    fingerprint made;
    made.add(s.is_insecure ? "insecure" : s.authorities.empty() ? "system" : "file");
    if (!s.is_insecure && !s.authorities.empty()) {
        made.add_file(s.authorities);
    } else if (!s.is_insecure) {
        made.add_file(variable_or(X509_get_default_cert_file_env(), X509_get_default_cert_file()));
        made.add_folder(variable_or(X509_get_default_cert_dir_env(), X509_get_default_cert_dir()));
    }
    if (s.certificate) {
        made.add_file(s.certificate->certificate);
        made.add_file(s.certificate->key);
    }
    return made.digest();
}

// ---- Contexts

void trust(SSL_CTX* c, client_settings const& s) {
    SSL_CTX_set_verify(c, s.is_insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
    if (s.is_insecure)
        return;
    if (s.authorities.empty()) {
        if (SSL_CTX_set_default_verify_paths(c) != 1)
            throw std::runtime_error("cannot use the authorities of the system: " + take_reason());
        return;
    }
    if (SSL_CTX_load_verify_file(c, s.authorities.c_str()) != 1)
        throw std::runtime_error("`" + s.authorities + "`: " + take_reason());
    // Each certificate of the file is trusted, also one that another authority signed.
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(c), X509_V_FLAG_PARTIAL_CHAIN);
}

void present(SSL_CTX* c, certificate_files const& files) {
    auto const one = read_certificate(files);
    if (SSL_CTX_use_cert_and_key(c, one.leaf.get(), one.key.get(), one.issuers.get(), 1) != 1)
        throw std::runtime_error("`" + files.certificate + "`: " + take_reason());
}

int on_session(SSL* ssl, SSL_SESSION* session);

// The context of all clients of one upstream.
struct shared_context {
    explicit shared_context(client_settings const& s)
        : context(engine::make_context(TLS_client_method())),
          contents(fingerprint_of(s)),
          session_life(s.session_life) {
        auto* const c = context.get();
        SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(c, on_session);
        trust(c, s);
        if (s.certificate)
            present(c, *s.certificate);
    }

    context_ptr const context;
    std::string const contents;  // a digest of the files
    clock::duration const session_life;
};

// A session, and when its certificate was verified. Each connection has its own copy: OpenSSL may change it.
struct known_session {
    session_ptr session;
    clock::time_point verified;
};

class server_client final : public client, public std::enable_shared_from_this<server_client> {
public:
    server_client(std::shared_ptr<shared_context const> shared, std::string server)
        : shared_(std::move(shared)), server_(std::move(server)) {
        if (server_.ends_with('.'))  // of a name that is complete; certificates do not have it
            server_.pop_back();
        boost::system::error_code not_numeric;
        boost::asio::ip::make_address(server_, not_numeric);
        is_address_ = !not_numeric;
    }

    [[nodiscard]] std::unique_ptr<net::channel> connect(int descriptor,
                                                        inner_protocol inner) const override;
    [[nodiscard]] bool is_like(client const& other) const override {
        auto const* const it = dynamic_cast<server_client const*>(&other);
        return it && it->server_ == server_ && it->shared_->contents == shared_->contents;
    }

    void keep(SSL_SESSION const* session, clock::time_point verified) const {
        session_ptr copy(SSL_SESSION_dup(session));
        std::lock_guard const lock(mutex_);
        last_ = {std::move(copy), verified};
    }
    void forget() const {
        std::lock_guard const lock(mutex_);
        last_ = {};
    }

private:
    [[nodiscard]] known_session session_at(clock::time_point now) const {
        std::lock_guard const lock(mutex_);
        if (!last_.session || now - last_.verified >= shared_->session_life)
            return {};
        return {session_ptr(SSL_SESSION_dup(last_.session.get())), last_.verified};
    }
    [[nodiscard]] bool expect_name(SSL* ssl) const;

    std::shared_ptr<shared_context const> const shared_;
    std::string server_;
    bool is_address_ = false;
    mutable std::mutex mutex_;
    mutable known_session last_;
};

class client_engine final : public engine {
public:
    client_engine(std::shared_ptr<server_client const> const& of, ssl_ptr ssl, int descriptor,
                  clock::time_point began, clock::time_point verified, inner_protocol inner)
        : engine(of, std::move(ssl), descriptor),
          client_(*of),
          began_(began),
          verified_(verified),
          keeps_sessions_(inner != inner_protocol::none) {
        SSL_set_app_data(this->ssl(), this);
    }

    [[nodiscard]] result shake_hands() override {
        auto const r = engine::shake_hands();
        if (r.ec && r.ec != boost::asio::error::would_block)
            client_.forget();
        return r;
    }

    void keep(SSL_SESSION const* session) const {
        if (keeps_sessions_)
            client_.keep(session, SSL_session_reused(ssl()) != 0 ? verified_ : began_);
    }

protected:
    [[nodiscard]] net::error_code error_of(unsigned long code) const override {
        // `code` may be the error of a signature, which caused that the verification failed.
        auto const verified = SSL_get_verify_result(ssl());
        if (SSL_in_init(ssl()) != 0 && SSL_get_verify_mode(ssl()) != SSL_VERIFY_NONE &&
            verified != X509_V_OK)
            return {static_cast<int>(verified), of_certificate};
        return {static_cast<int>(code & 0x7fffffff), of_tls};
    }

private:
    server_client const& client_;
    clock::time_point const began_;
    clock::time_point const verified_;  // the session that the connection may resume
    bool const keeps_sessions_;
};

int on_session(SSL* ssl, SSL_SESSION* session) {
    static_cast<client_engine const*>(SSL_get_app_data(ssl))->keep(session);
    return 0;  // OpenSSL keeps its reference
}

bool server_client::expect_name(SSL* ssl) const {
    if (is_address_)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server_.c_str()) == 1;
    SSL_set_hostflags(ssl,
                      X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return SSL_set1_host(ssl, server_.c_str()) == 1 &&
           SSL_set_tlsext_host_name(ssl, server_.c_str()) == 1;
}

std::unique_ptr<net::channel> server_client::connect(int descriptor, inner_protocol inner) const {
    auto const now = clock::now();
    ssl_ptr ssl(SSL_new(shared_->context.get()));
    auto const known = inner == inner_protocol::none ? known_session() : session_at(now);
    if (!ssl || !expect_name(ssl.get()) ||
        (inner == inner_protocol::http &&
         SSL_set_alpn_protos(ssl.get(), http_1_1.data(), http_1_1.size()) != 0) ||
        (known.session && SSL_set_session(ssl.get(), known.session.get()) != 1)) {
        ERR_clear_error();
        throw std::bad_alloc();
    }
    SSL_set_connect_state(ssl.get());
    return std::make_unique<client_engine>(
        shared_from_this(), std::move(ssl), descriptor, now, known.verified, inner);
}

}  // namespace

std::vector<std::shared_ptr<client const>> make_clients(client_settings const& s,
                                                        std::vector<std::string> const& servers) {
    auto const shared = std::make_shared<shared_context const>(s);
    std::vector<std::shared_ptr<client const>> made;
    for (auto const& one : servers)
        made.push_back(std::make_shared<server_client const>(shared, one));
    return made;
}

bool is_of_tls(net::error_code const& ec) noexcept {
    return ec.category() == of_tls || ec.category() == of_certificate;
}

bool is_of_certificate(net::error_code const& ec) noexcept {
    return ec.category() == of_certificate;
}

}  // namespace tls
