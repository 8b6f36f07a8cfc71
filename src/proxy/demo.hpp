#pragma once

#include "net/asio.hpp"

#include <chrono>
#include <thread>

namespace proxy {

namespace asio = boost::asio;

/// A demo backend for the proxy, on its own thread and port. It takes `cooking_time` for each request, and serves all
/// requests concurrently.
class demo_kitchen {
public:
    static constexpr std::chrono::milliseconds cooking_time{300};

    demo_kitchen();
    ~demo_kitchen();

    [[nodiscard]] net::tcp::endpoint listens_at() const { return acceptor_.local_endpoint(); }

private:
    net::task<> open();
    net::task<> serve(net::tcp_socket guest);

    asio::io_context context_{1};
    net::tcp_acceptor acceptor_;
    int dishes_ = 0;
    int on_the_stove_ = 0;
    std::thread runs_;
};

}  // namespace proxy
