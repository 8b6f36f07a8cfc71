#pragma once

#include "net/asio.hpp"

#include <chrono>
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

}  // namespace proxy
