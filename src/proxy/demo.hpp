#pragma once

#include "config/listener.hpp"
#include "net/asio.hpp"

#include <chrono>
#include <filesystem>
#include <thread>

namespace proxy {

namespace asio = boost::asio;

/// A demo backend for the proxy, on its own thread and port. It takes `service_time` for each request, and serves all
/// requests concurrently.
class demo_backend {
public:
    static constexpr std::chrono::milliseconds service_time{300};

    demo_backend();
    ~demo_backend();

    [[nodiscard]] net::tcp::endpoint listens_at() const { return acceptor_.local_endpoint(); }

private:
    net::task<> open();
    net::task<> serve(net::tcp_socket client);

    asio::io_context context_{1};
    net::tcp_acceptor acceptor_;
    int requests_ = 0;
    int active_ = 0;
    std::thread runs_;
};

/// A certificate for the demo, in files that exist as long as this object.
class demo_certificate {
public:
    /// Throws `std::runtime_error` or `std::filesystem::filesystem_error`.
    demo_certificate();
    demo_certificate(demo_certificate const&) = delete;
    ~demo_certificate();

    [[nodiscard]] config::certificate files() const {
        return {.certificate = folder_ / "certificate.pem", .key = folder_ / "key.pem"};
    }

private:
    std::filesystem::path folder_;
};

}  // namespace proxy
