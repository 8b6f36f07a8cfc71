#pragma once

#include "net/asio.hpp"
#include "openssl.hpp"

#include <string>

namespace tls {

/// Between OpenSSL and the socket. During a handshake it collects the messages that OpenSSL writes, so that a flight
/// takes one system call, and so do the tickets of TLS 1.3. Until they are sent, OpenSSL finds no input: the other side
/// answers only a flight that it has received.
class flight {
public:
    /// Lets `ssl` read and write the socket through this object, which must outlive `ssl` and stay where it is.
    void begin(SSL* ssl, int descriptor);

    /// Sends the collected messages. Returns `would_block` if some remain.
    [[nodiscard]] net::error_code send();
    /// Passes on each message at once from here on. Precondition: all messages were sent.
    void end() noexcept;

private:
    static BIO_METHOD const* method();
    static int write(BIO* own, char const* bytes, int n);
    static int read(BIO* own, char* into, int n);
    static long control(BIO* own, int command, long number, void* pointer);

    BIO* socket_ = nullptr;  // of the SSL object
    std::string collected_;
    bool collects_ = true;
};

}  // namespace tls
