#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace support {

/// A TCP port that rejects connections at all addresses of the machine. Until its destructor, the kernel selects this
/// port for no other socket. A program that names the port and sets SO_REUSEADDR can listen on it meanwhile.
class reserved_port {
public:
    reserved_port() {
        int const yes = 1;
        sockaddr_in at{};
        at.sin_family = AF_INET;
        socklen_t size = sizeof at;
        if (socket_ < 0 || ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
            ::bind(socket_, reinterpret_cast<sockaddr const*>(&at), size) != 0 ||
            ::getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &size) != 0)
            throw std::system_error(errno, std::generic_category(), "cannot reserve a port");
        number_ = ntohs(at.sin_port);
    }
    reserved_port(reserved_port const&) = delete;
    reserved_port& operator=(reserved_port const&) = delete;
    ~reserved_port() { ::close(socket_); }

    [[nodiscard]] std::uint16_t number() const noexcept { return number_; }

private:
    int socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    std::uint16_t number_ = 0;
};

}  // namespace support
