#pragma once

#include "support/temporary_folder.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>

namespace support {

/// A relay to a server at a local socket that delays everything by `delay` in each direction.
class slow_way {
    using local = boost::asio::local::stream_protocol;

public:
    slow_way(std::string const& server, std::chrono::nanoseconds delay)
        : server_(server), delay_(delay), acceptor_(ctx_, local::endpoint(socket())) {
        accept();
        thread_ = std::thread([this] { ctx_.run(); });
    }
    slow_way(slow_way const&) = delete;
    slow_way& operator=(slow_way const&) = delete;
    ~slow_way() {
        ctx_.stop();
        thread_.join();
    }

    [[nodiscard]] std::string socket() const { return folder_ / "socket"; }

private:
    // Data from one end goes to the other, one piece after the other.
    struct direction {
        direction(std::shared_ptr<local::socket> f, std::shared_ptr<local::socket> t)
            : from(std::move(f)), to(std::move(t)), timer(from->get_executor()) {}
        std::shared_ptr<local::socket> from;
        std::shared_ptr<local::socket> to;
        boost::asio::steady_timer timer;
        std::array<char, 65536> piece{};
    };

    void accept() {
        acceptor_.async_accept([this](auto ec, local::socket s) {
            if (ec)
                return;
            auto const client = std::make_shared<local::socket>(std::move(s));
            auto const server = std::make_shared<local::socket>(ctx_);
            server->connect(local::endpoint(server_));
            pass(std::make_shared<direction>(client, server));
            pass(std::make_shared<direction>(server, client));
            accept();
        });
    }
    void pass(std::shared_ptr<direction> const& d) {
        d->from->async_read_some(boost::asio::buffer(d->piece), [this, d](auto ec, std::size_t n) {
            if (ec) {
                boost::system::error_code ignored;
                d->to->shutdown(local::socket::shutdown_send, ignored);
                return;
            }
            d->timer.expires_after(delay_);
            d->timer.async_wait([this, d, n](auto) {
                boost::system::error_code failed;
                boost::asio::write(*d->to, boost::asio::buffer(d->piece, n), failed);
                if (!failed)
                    pass(d);
            });
        });
    }

    temporary_folder folder_{"weir-slow-way-"};
    std::string server_;
    std::chrono::nanoseconds delay_;
    boost::asio::io_context ctx_;
    local::acceptor acceptor_;
    std::thread thread_;
};

}  // namespace support
