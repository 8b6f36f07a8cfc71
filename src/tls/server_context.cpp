#include "server_context.hpp"

#include "client_certificates.hpp"
#include "engine.hpp"
#include "http/characters.hpp"

#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace tls {
namespace {

using namespace std::chrono_literals;

// A shorter time than that for which the keys of tickets are valid.
constexpr std::chrono::seconds session_life = 2h;

context_ptr make_server_context() {
    auto made = engine::make_context(TLS_server_method());
    auto* const c = made.get();
    // Early data is off by default: an attacker could repeat it, and with it a request that counts against limits.
    SSL_CTX_set_options(c, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);  // the tickets have the sessions
    SSL_CTX_set_timeout(c, std::chrono::seconds(session_life).count());
    return made;
}

// The engine of a client.
class server_engine final : public engine {
public:
    server_engine(std::shared_ptr<void const> of, ssl_ptr ssl, int descriptor, bool stops)
        : engine(std::move(of), std::move(ssl), descriptor), stops_(stops) {
        SSL_set_app_data(this->ssl(), this);
    }

    /// Whether OpenSSL must stop and ask again: for every other of its questions.
    [[nodiscard]] static bool must_stop(SSL* ssl) {
        auto& me = *static_cast<server_engine*>(SSL_get_app_data(ssl));
        return me.stops_ && (me.has_stopped_ = !me.has_stopped_);
    }

private:
    bool const stops_;
    bool has_stopped_ = false;
};

}  // namespace

std::string server_name_of(SSL const* ssl) {
    auto const* const name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    return name ? names::normal(name) : std::string();
}

bool is_built_in() noexcept {
    return true;
}

std::shared_ptr<context const> make_context(settings const& s, std::shared_ptr<ticket_keys> keys) {
    return std::make_shared<server_context>(s, std::move(keys));
}

server_context::server_context(settings const& s, std::shared_ptr<ticket_keys> keys)
    : context_(make_server_context()),
      refuses_unknown_names_(s.refuses_unknown_names),
      protocols_(s.protocols),
      keys_(std::move(keys)) {
    for (auto const& files : s.certificates)
        add(files);
    auto const& first = all_.front().info.names;
    default_ = first.empty() ? names::list{0} : names_.with(first.front());
    limit_sessions_to(
        s.clients ? s.listener + ask_for_certificates(context_.get(), *s.clients) : s.listener);
    auto* const c = context_.get();
    SSL_CTX_set_app_data(c, this);
    SSL_CTX_set_tlsext_servername_callback(c, on_server_name);
    SSL_CTX_set_cert_cb(c, on_certificate, nullptr);
    SSL_CTX_set_alpn_select_cb(c, on_protocols, nullptr);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(c, on_ticket);
}

void server_context::add(certificate_files const& files) {
    auto one = read_certificate(files);
    if (one.info.names.empty() && !all_.empty())
        throw std::runtime_error("`" + files.certificate +
                                 "`: it has no DNS name, so no client would get it; only the first "
                                 "certificate may have none");
    // OpenSSL may reject a certificate that its security level does not allow.
    ssl_ptr const trial(SSL_new(context_.get()));
    if (!trial || !use(trial.get(), one))
        throw std::runtime_error("`" + files.certificate + "`: " + take_reason());
    for (auto const& name : one.info.names)
        names_.add(name, all_.size());
    infos_.push_back(one.info);
    all_.push_back(std::move(one));
}

void server_context::limit_sessions_to(std::string_view what) {
    std::array<unsigned char, SSL_MAX_SID_CTX_LENGTH> id{};
    static_assert(SSL_MAX_SID_CTX_LENGTH >= 32);
    if (EVP_Digest(what.data(), what.size(), id.data(), nullptr, EVP_sha256(), nullptr) != 1 ||
        SSL_CTX_set_session_id_context(context_.get(), id.data(), 32) != 1)
        throw std::runtime_error("OpenSSL: " + take_reason());
}

std::unique_ptr<net::channel> server_context::accept(int descriptor, bool stops) const {
    ssl_ptr ssl(SSL_new(context_.get()));
    if (!ssl)
        throw std::bad_alloc();
    SSL_set_accept_state(ssl.get());
    return std::make_unique<server_engine>(shared_from_this(), std::move(ssl), descriptor, stops);
}

server_context const& server_context::of(SSL* ssl) {
    return *static_cast<server_context const*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

// The first certificate of each kind of key that the name has, of which OpenSSL selects one that the client can verify.
names::list server_context::certificates_for(std::string_view server_name) const {
    auto found = server_name.empty() ? default_ : names_.find(server_name);
    if (found.empty() && !refuses_unknown_names_)
        found = default_;
    names::list chosen;
    for (auto const i : found) {
        auto const is_alike = [&](std::size_t other) {
            return all_[other].kind() == all_[i].kind();
        };
        if (std::ranges::none_of(chosen, is_alike))
            chosen.push_back(i);
    }
    return chosen;
}

bool server_context::serves(std::string_view server_name, std::string_view host) const {
    if (server_name.empty() || host.empty() || http::iequals(server_name, host))
        return true;
    auto const have_host = names_.find_all(host);
    return std::ranges::any_of(certificates_for(server_name), [&](std::size_t one) {
        return std::ranges::find(have_host, one) != have_host.end();
    });
}

int server_context::on_server_name(SSL* ssl, int* alert, void*) {
    auto const& me = of(ssl);
    if (!me.certificates_for(server_name_of(ssl)).empty())
        return SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name)
                   ? SSL_TLSEXT_ERR_OK
                   : SSL_TLSEXT_ERR_NOACK;
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// OpenSSL needs a certificate only for a complete ClientHello that resumes no session.
int server_context::on_certificate(SSL* ssl, void*) {
    constexpr int ask_again = -1;
    if (server_engine::must_stop(ssl))
        return ask_again;
    auto const& me = of(ssl);
    return std::ranges::all_of(me.certificates_for(server_name_of(ssl)), [&](std::size_t i) {
        return me.use(ssl, me.all_[i]);
    });
}

bool server_context::use(SSL* ssl, certificate const& one) const {
    return SSL_use_cert_and_key(ssl, one.leaf.get(), one.key.get(), one.issuers.get(), 1) == 1;
}

int server_context::on_protocols(SSL* ssl, unsigned char const** out, unsigned char* out_size,
                                 unsigned char const* in, unsigned in_size, void*) {
    auto const& protocols = of(ssl).protocols_;
    if (protocols.empty())
        return SSL_TLSEXT_ERR_NOACK;
    // A list of texts, each after its size. OpenSSL has checked it.
    std::span<unsigned char const> const offered(in, in_size);
    for (auto const& wanted : protocols)
        for (std::size_t i = 0; i < offered.size(); i += 1 + offered[i]) {
            std::string_view const one(reinterpret_cast<char const*>(&in[i + 1]), offered[i]);
            if (one != wanted)
                continue;
            *out = &in[i + 1];
            *out_size = offered[i];
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// Prepares the encryption of a new ticket, or the decryption of a client's. Returns 1; 2 if the client should get a new
// ticket; 0 if the ticket is not valid, so that the full handshake follows; -1 on failure.
int server_context::on_ticket(SSL* ssl, unsigned char* name, unsigned char* iv,
                              EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, int is_new) {
    auto& keys = *of(ssl).keys_;
    auto const now = std::chrono::steady_clock::now();
    ticket_keys::found_key found;
    if (is_new) {
        found.key = keys.current(now);
        std::ranges::copy(found.key.name, name);
        if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1)
            return -1;
    } else {
        auto const known = keys.find(
            std::span<unsigned char const, ticket_keys::name_size>(name, ticket_keys::name_size),
            now);
        if (!known)
            return 0;
        found = *known;
    }
    auto const init = is_new ? EVP_EncryptInit_ex2 : EVP_DecryptInit_ex2;
    std::array<OSSL_PARAM, 3> const parameters{
        OSSL_PARAM_construct_octet_string(
            OSSL_MAC_PARAM_KEY, found.key.authentication.data(), found.key.authentication.size()),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, const_cast<char*>("SHA256"), 0),
        OSSL_PARAM_construct_end()};
    if (init(cipher, EVP_aes_256_cbc(), found.key.encryption.data(), iv, nullptr) != 1 ||
        EVP_MAC_CTX_set_params(mac, parameters.data()) != 1)
        return -1;
    // A client of TLS 1.3 should use a ticket once (RFC 8446, C.4).
    bool const is_used_up = is_new == 0 && SSL_version(ssl) == TLS1_3_VERSION;
    return found.is_current && !is_used_up ? 1 : 2;
}

}  // namespace tls
