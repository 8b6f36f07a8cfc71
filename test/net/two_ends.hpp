#pragma once

#include "net/asio.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <string_view>

/// Runs the context until the condition is true; fails if that takes long.
template <class F>
void run_until(net::asio::io_context& context, F holds) {
    auto const end = net::clock::now() + std::chrono::seconds(20);
    while (!holds()) {
        BOOST_REQUIRE((net::clock::now() < end));
        context.restart();
        context.run_one_for(std::chrono::milliseconds(1));
    }
}

/// The two ends of a connection over the loopback.
struct two_ends {
    two_ends() {
        net::stream_acceptor acceptor(
            context, net::endpoint(net::tcp::endpoint(net::asio::ip::address_v4::loopback(), 0)));
        theirs.connect(acceptor.local_endpoint());
        acceptor.accept(mine);
    }

    void they_send(std::string_view text) {
        net::asio::write(theirs, net::asio::buffer(text.data(), text.size()));
    }
    void they_end_their_half() { theirs.shutdown(net::stream_socket::shutdown_send); }
    void they_reset() {
        theirs.set_option(net::asio::socket_base::linger(true, 0));
        theirs.close();
    }
    /// Reads all bytes; the result is `eof` or an error.
    std::string they_read(net::error_code& end) {
        std::string text;
        net::asio::read(theirs, net::asio::dynamic_buffer(text), end);
        return text;
    }

    net::asio::io_context context;
    net::stream_socket mine{context};
    net::stream_socket theirs{context};
};
