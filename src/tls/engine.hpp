#pragma once

#include "flight.hpp"
#include "net/channel.hpp"
#include "openssl.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace tls {

/// OpenSSL on the descriptor of a socket. An idle connection has no buffers (`SSL_MODE_RELEASE_BUFFERS`).
class engine : public net::channel {
public:
    /// A context for engines: TLS 1.2 or 1.3, without renegotiation and compression. Throws `std::runtime_error`.
    [[nodiscard]] static context_ptr make_context(SSL_METHOD const* side);

    /// `of` owns the context of `ssl`, whose data it uses. `ssl` accepts a client or connects to a server.
    engine(std::shared_ptr<void const> of, ssl_ptr ssl, int descriptor);

    [[nodiscard]] result shake_hands() override;
    [[nodiscard]] net::channel::agreement agreed() const override;
    [[nodiscard]] result read(std::span<char> into) override;
    [[nodiscard]] result write(http::gather const& what) override;
    [[nodiscard]] bool has_input() const override;
    result end_output() override;

protected:
    [[nodiscard]] SSL* ssl() const noexcept { return ssl_.get(); }
    /// The error for a code of OpenSSL, after which it allows no further call.
    [[nodiscard]] virtual net::error_code error_of(unsigned long code) const;

private:
    [[nodiscard]] result failed(bool by_write = false);
    [[nodiscard]] result write_record(char const* bytes, std::size_t n);

    std::shared_ptr<void const> of_;
    flight flight_;
    ssl_ptr ssl_;
    std::string server_name_;
    std::string client_certificate_;
    std::size_t longest_ = 0;  // bytes of a record
    std::size_t pending_ = 0;  // bytes in a record that the socket did not accept yet
    std::size_t ahead_ = 0;    // bytes that were sent, but not reported
    bool is_broken_ = false;   // OpenSSL allows no further call
    bool is_deaf_ =
        false;  // the other side accepts no bytes; it may have sent the reason, which can be read
};

}  // namespace tls
