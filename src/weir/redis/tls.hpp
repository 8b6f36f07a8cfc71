#pragma once

#include <weir/error.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct bio_st;
struct ssl_ctx_st;
struct ssl_st;

namespace weir::inline v0_2::redis::detail {

/// How the connections of a store are encrypted, and whose certificates it accepts.
struct tls_options {
    std::string authorities;   // a file; empty: the authorities of the system
    bool is_insecure = false;  // any certificate is accepted
    std::string certificate;   // a file with the certificate of the client; empty: none
    std::string key;           // a file with the key of the client
};

/// The loaded files of `tls_options`. Any number of sessions may share it, on all threads.
class tls_context {
public:
    /// Throws `std::invalid_argument` if a file is not readable, or has no valid content.
    explicit tls_context(tls_options const& o);
    tls_context(tls_context const&) = delete;
    tls_context& operator=(tls_context const&) = delete;
    ~tls_context();

private:
    friend class tls_session;

    ssl_ctx_st* context_;
    bool is_insecure_;
};

/// The encryption of one connection. It transforms bytes only; the owner exchanges them with the server.
///
/// OpenSSL does not use `new`. If it gets no memory, the members throw `std::bad_alloc`, or the session fails.
class tls_session {
public:
    /// Begins a session with a server. Its certificate must be for `host`, which is a name or an address.
    tls_session(tls_context const& context, std::string const& host);
    tls_session(tls_session const&) = delete;
    tls_session& operator=(tls_session const&) = delete;
    ~tls_session();

    /// Adds bytes of the server.
    void receive(std::string_view bytes);
    /// Continues the handshake, until it needs more bytes of the server.
    void shake_hands();
    /// Returns whether the handshake has succeeded.
    [[nodiscard]] bool is_open() const noexcept { return is_open_; }
    /// Decrypts bytes into `to`, and returns their number: 0 if there are none yet, or if the session has failed. For an
    /// open session only.
    [[nodiscard]] std::size_t read(char* to, std::size_t size);
    /// Encrypts bytes. For an open session only.
    void write(std::string_view bytes);
    /// Removes the bytes that are due to the server, and appends them to `to`. If it throws, nothing has changed.
    void take_due(std::string& to);

    /// Returns why the session has failed; no error: it has not. The end of the session is `asio::error::eof`.
    [[nodiscard]] error_code const& error() const noexcept { return error_; }
    /// Returns the words for it.
    [[nodiscard]] std::string const& text() const noexcept { return text_; }

private:
    void note_failure(int result);

    ssl_st* session_;
    bio_st* from_server_;
    bio_st* to_server_;
    bool is_insecure_;
    bool is_open_ = false;
    error_code error_;
    std::string text_;
};

}  // namespace weir::inline v0_2::redis::detail
