#include "engine.hpp"

#include "client_certificates.hpp"
#include "failure.hpp"
#include "server_context.hpp"

#include <boost/asio/error.hpp>

#include <openssl/err.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace tls {
namespace {

namespace asio = net::asio;

// The longest record of TLS.
constexpr std::size_t record_size = 16 * 1024;

// Takes bytes from pieces, as one piece of at most a record.
class source {
public:
    explicit source(http::gather const& what) : what_(what) {}

    [[nodiscard]] bool empty() {
        while (at_ != what_.size() && offset_ == what_[at_].size()) {
            ++at_;
            offset_ = 0;
        }
        return at_ == what_.size();
    }
    [[nodiscard]] std::string_view front() const { return what_[at_].substr(offset_); }
    std::size_t skip(std::size_t n) {
        auto left = n;
        while (left > 0 && !empty()) {
            auto const part = std::min(left, front().size());
            offset_ += part;
            left -= part;
        }
        return n - left;
    }
    // The next bytes, up to `most`. Several pieces are copied into one record: an own record for each would cost more.
    [[nodiscard]] std::string_view next(std::array<char, record_size>& room, std::size_t most) {
        auto const first = front();
        if (first.size() >= most || at_ + 1 == what_.size())
            return first.substr(0, most);
        std::size_t size = 0;
        for (source rest = *this; size < most && !rest.empty();) {
            auto const part = rest.front().substr(0, most - size);
            std::memcpy(room.data() + size, part.data(), part.size());
            size += part.size();
            rest.skip(part.size());
        }
        return {room.data(), size};
    }

private:
    http::gather const& what_;
    std::size_t at_ = 0;
    std::size_t offset_ = 0;
};

class tls_category final : public boost::system::error_category {
public:
    [[nodiscard]] char const* name() const noexcept override { return "tls"; }
    [[nodiscard]] std::string message(int value) const override {
        switch (static_cast<failure>(value)) {
            case failure::unknown_name:
                return "unknown server name";
            case failure::no_common_version:
                return "no common version of TLS";
            case failure::no_common_cipher:
                return "no common cipher, signature algorithm or protocol";
            case failure::not_tls:
                return "the client does not use TLS";
            case failure::rejected:
                return "the client rejected the connection";
            case failure::no_certificate:
                return "the client has no certificate";
            case failure::bad_certificate:
                return "the certificate of the client is not valid";
            case failure::other:
                break;
        }
        return "TLS error";
    }
};

}  // namespace

boost::system::error_category const& category() noexcept {
    static tls_category const one;
    return one;
}

context_ptr engine::make_context(SSL_METHOD const* side) {
    // Of TLS 1.2. For TLS 1.3, OpenSSL has its own list.
    constexpr char const* ciphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
    context_ptr made(SSL_CTX_new(side));
    auto* const c = made.get();
    if (!c || SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(c, ciphers) != 1)
        throw std::runtime_error("cannot start OpenSSL: " + take_reason());
    // For an end without an announcement OpenSSL would send an alert, to a client that has closed: see `failed`.
    SSL_CTX_set_options(
        c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                            SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    // Otherwise a peer that sends records without data as fast as it can would occupy the thread.
    SSL_CTX_clear_mode(c, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_read_ahead(c, 1);  // otherwise each record takes two system calls
    return made;
}

engine::engine(std::shared_ptr<void const> of, ssl_ptr ssl, int descriptor)
    : of_(std::move(of)), ssl_(std::move(ssl)) {
    flight_.begin(ssl_.get(), descriptor);
}

net::error_code engine::error_of(unsigned long code) const {
    if (ERR_GET_LIB(code) != ERR_LIB_SSL)
        return failure::other;
    switch (auto const reason = ERR_GET_REASON(code)) {
        case SSL_R_HTTP_REQUEST:
        case SSL_R_HTTPS_PROXY_REQUEST:
        case SSL_R_WRONG_VERSION_NUMBER:
            return failure::not_tls;
        case SSL_R_CALLBACK_FAILED:
            return failure::unknown_name;
        case SSL_R_UNSUPPORTED_PROTOCOL:
        case SSL_R_VERSION_TOO_LOW:
            return failure::no_common_version;
        case SSL_R_NO_SHARED_CIPHER:
        case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        case SSL_R_NO_SHARED_GROUPS:
        case SSL_R_NO_SUITABLE_KEY_SHARE:
        case SSL_R_NO_APPLICATION_PROTOCOL:
            return failure::no_common_cipher;
        case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
            return failure::no_certificate;
        case SSL_R_CERTIFICATE_VERIFY_FAILED:
            return failure::bad_certificate;
        default:
            return reason > SSL_AD_REASON_OFFSET ? failure::rejected : failure::other;
    }
}

// The result of a call that did not succeed.
engine::result engine::failed(bool by_write) {
    switch (SSL_get_error(ssl_.get(), 0)) {
        case SSL_ERROR_WANT_READ:
            return {.ec = asio::error::would_block, .next = net::stream_socket::wait_read};
        case SSL_ERROR_WANT_WRITE:
            return {.ec = asio::error::would_block, .next = net::stream_socket::wait_write};
        case SSL_ERROR_WANT_X509_LOOKUP:
            return {.ec = asio::error::would_block, .is_costly = true};
        case SSL_ERROR_ZERO_RETURN:
            is_broken_ = BIO_eof(SSL_get_rbio(ssl_.get())) != 0;  // an end without an announcement
            if (is_broken_)
                return {.ec = asio::error::connection_reset};
            return {.ec = asio::error::eof};
        case SSL_ERROR_SYSCALL: {
            int const why = errno;
            // OpenSSL 3.5 does not tell after a failed write that it wanted to write.
            is_deaf_ = by_write || SSL_want_write(ssl_.get()) != 0;
            is_broken_ = !is_deaf_;
            ERR_clear_error();
            if (why == 0)
                return {.ec = asio::error::connection_reset};
            return {.ec = net::error_code(why, boost::system::system_category())};
        }
        default:
            is_broken_ = true;
            // A certificate that cannot be verified may add further errors before this one.
            auto const last = ERR_peek_last_error();
            auto const code =
                ERR_GET_REASON(last) == SSL_R_CERTIFICATE_VERIFY_FAILED ? last : ERR_peek_error();
            ERR_clear_error();
            return {.ec = error_of(code)};
    }
}

engine::result engine::shake_hands() {
    auto sent = flight_.send();  // the rest of a flight that the socket did not accept at once
    result r;
    if (!sent) {
        ERR_clear_error();
        errno = 0;
        r = SSL_do_handshake(ssl_.get()) == 1 ? result() : failed();
        sent = flight_.send();  // also the alert of a failure
    }
    if (r.ec && r.ec != asio::error::would_block)
        return r;
    if (sent) {
        is_deaf_ = sent != asio::error::would_block;
        return {.ec = sent, .next = net::stream_socket::wait_write};
    }
    if (r.ec)
        return r;
    flight_.end();
    // A client can ask for shorter records (RFC 6066).
    auto const code = SSL_SESSION_get_max_fragment_length(SSL_get0_session(ssl_.get()));
    longest_ = code == TLSEXT_max_fragment_length_DISABLED ? record_size : std::size_t(256) << code;
    server_name_ = server_name_of(ssl_.get());
    client_certificate_ = verified_subject_of(ssl_.get());
    return {};
}

net::channel::agreement engine::agreed() const {
    unsigned char const* protocol = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_.get(), &protocol, &size);
    return {.version = SSL_get_version(ssl_.get()),
            .cipher = SSL_get_cipher_name(ssl_.get()),
            .server_name = server_name_,
            .client_certificate = client_certificate_,
            .protocol = {reinterpret_cast<char const*>(protocol), size},
            .is_resumed = SSL_session_reused(ssl_.get()) != 0};
}

engine::result engine::read(std::span<char> into) {
    if (is_broken_)
        return {.ec = asio::error::connection_reset};
    ERR_clear_error();
    errno = 0;
    std::size_t n = 0;
    if (SSL_read_ex(ssl_.get(), into.data(), into.size(), &n) != 1)
        return failed();
    return {.bytes = n};
}

engine::result engine::write(http::gather const& what) {
    thread_local std::array<char, record_size> room;
    if (is_broken_ || is_deaf_)
        return {.ec = asio::error::connection_reset};
    source from(what);
    result r;
    while (!from.empty()) {
        if (auto const n = from.skip(ahead_); n > 0) {
            ahead_ -= n;
            r.bytes += n;
            continue;
        }
        auto const next = from.next(room, longest_);
        // A repeated call must offer the bytes of the record that waits, which OpenSSL has already: if the caller offers
        // fewer of them now, it finds the others sent later.
        auto const size = std::max(next.size(), pending_);
        auto const one = write_record(next.size() < size ? room.data() : next.data(), size);
        ahead_ = one.bytes;
        if (one.ec) {
            pending_ = one.ec == asio::error::would_block ? size : 0;
            r.ec = one.ec;
            r.next = one.next;
            return r;
        }
        pending_ = 0;
    }
    return r;
}

engine::result engine::write_record(char const* bytes, std::size_t n) {
    ERR_clear_error();
    errno = 0;
    std::size_t written = 0;
    if (SSL_write_ex(ssl_.get(), bytes, n, &written) != 1)
        return failed(true);
    return {.bytes = written};
}

bool engine::has_input() const {
    return SSL_has_pending(ssl_.get()) != 0;
}

// It does not wait for the announcement of the other side.
engine::result engine::end_output() {
    if (is_broken_ || is_deaf_ || SSL_in_init(ssl_.get()) != 0)
        return {.ec = asio::error::connection_reset};
    ERR_clear_error();
    errno = 0;
    if (SSL_shutdown(ssl_.get()) < 0)
        return failed();
    return {};
}

}  // namespace tls
