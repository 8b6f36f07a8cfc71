#pragma once

#include "context.hpp"
#include "net/channel.hpp"
#include "openssl.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace tls {

/// OpenSSL on the descriptor of a socket. An idle connection has no buffers (`SSL_MODE_RELEASE_BUFFERS`).
class engine final : public net::channel {
public:
    /// `of` owns the context of `ssl`, whose data it uses. The engine sets the application data of `ssl`.
    engine(std::shared_ptr<context const> of, ssl_ptr ssl, int descriptor);

    [[nodiscard]] result shake_hands() override;
    [[nodiscard]] net::channel::agreement agreed() const override;
    [[nodiscard]] result read(std::span<char> into) override;
    [[nodiscard]] result write(http::gather const& what) override;
    [[nodiscard]] bool has_input() const override;
    result end_output() override;

private:
    [[nodiscard]] result failed();
    [[nodiscard]] result write_record(char const* bytes, std::size_t n);

    std::shared_ptr<context const> of_;
    ssl_ptr ssl_;
    std::string client_certificate_;
    std::size_t longest_ = 0;  // bytes of a record
    std::size_t pending_ = 0;  // bytes in a record that the socket did not accept yet
    std::size_t ahead_ = 0;    // bytes that were sent, but not reported
    bool is_broken_ = false;   // OpenSSL allows no further call
};

}  // namespace tls
