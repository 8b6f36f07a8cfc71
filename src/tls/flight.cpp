#include "flight.hpp"

#include <boost/asio/error.hpp>

#include <cerrno>
#include <cstddef>
#include <new>

namespace tls {

namespace {

flight& flight_of(BIO* own) {
    return *static_cast<flight*>(BIO_get_data(own));
}

// The socket may be ready later.
int passed_on(BIO* own, int result) {
    BIO_clear_retry_flags(own);
    BIO_copy_next_retry(own);
    return result;
}

}  // namespace

int flight::write(BIO* own, char const* bytes, int n) {
    auto& self = flight_of(own);
    if (!self.collects_)
        return passed_on(own, BIO_write(self.socket_, bytes, n));
    BIO_clear_retry_flags(own);
    try {
        self.collected_.append(bytes, static_cast<std::size_t>(n));
    } catch (std::bad_alloc const&) {
        errno = ENOMEM;
        return -1;
    }
    return n;
}

int flight::read(BIO* own, char* into, int n) {
    auto& self = flight_of(own);
    if (self.collected_.empty())
        return passed_on(own, BIO_read(self.socket_, into, n));
    BIO_clear_retry_flags(own);
    BIO_set_retry_read(own);
    return -1;
}

// OpenSSL flushes after each message that may be the last one of a flight.
long flight::control(BIO* own, int command, long number, void* pointer) {
    return command == BIO_CTRL_FLUSH ? 1 : BIO_ctrl(BIO_next(own), command, number, pointer);
}

BIO_METHOD const* flight::method() {
    static BIO_METHOD const* const one = [] {
        auto* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_FILTER, "flight");
        if (!made)
            throw std::bad_alloc();
        BIO_meth_set_write(made, write);
        BIO_meth_set_read(made, read);
        BIO_meth_set_ctrl(made, control);
        return made;
    }();
    return one;
}

void flight::begin(SSL* ssl, int descriptor) {
    bio_ptr own(BIO_new(method()));
    bio_ptr socket(BIO_new_socket(descriptor, BIO_NOCLOSE));
    if (!own || !socket)
        throw std::bad_alloc();
    BIO_set_data(own.get(), this);
    BIO_set_init(own.get(), 1);
    socket_ = socket.release();
    auto* const both = BIO_push(own.release(), socket_);
    SSL_set_bio(ssl, both, both);
}

net::error_code flight::send() {
    while (!collected_.empty()) {
        errno = 0;
        auto const n = BIO_write(socket_, collected_.data(), static_cast<int>(collected_.size()));
        if (n <= 0)
            return BIO_should_retry(socket_)
                       ? net::error_code(boost::asio::error::would_block)
                       : net::error_code(errno, boost::system::system_category());
        collected_.erase(0, static_cast<std::size_t>(n));
    }
    return {};
}

void flight::end() noexcept {
    collects_ = false;
    std::string().swap(collected_);
}

}  // namespace tls
