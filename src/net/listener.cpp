#include "listener.hpp"

#include <boost/asio/post.hpp>

#include <chrono>

namespace net {

listener::listener(asio::io_context& context, tcp::endpoint const& at, std::int64_t most)
    : context_(context), acceptor_(context), pause_(context), most_(most) {
    acceptor_.open(at.protocol());
    acceptor_.set_option(tcp_acceptor::reuse_address(true));
    acceptor_.bind(at);
    acceptor_.listen(4096);
}

void listener::start(handlers h) {
    handlers_ = std::move(h);
    accept();
}

void listener::close() {
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
}

void listener::accept() {
    waits_ = open_.load() >= most_;
    if (waits_) {
        complain(std::to_string(most_) +
                 " connections are open, which is the most that is allowed: others wait");
        return;
    }
    acceptor_.async_accept(handlers_.next_context(), [this](error_code ec, tcp_socket socket) {
        if (!acceptor_.is_open())
            return;
        if (ec && ec != asio::error::connection_aborted) {
            // No file or memory is to be had for the moment.
            complain("no connection can be accepted: " + ec.message());
            pause();
            return;
        }
        if (!ec)
            take_in(std::move(socket));
        accept();
    });
}

void listener::take_in(tcp_socket socket) {
    error_code gone;
    auto const from = socket.remote_endpoint(gone);
    if (gone)
        return;
    ++open_;
    handlers_.accepted(std::move(socket), from, admission(*this));
}

void listener::pause() {
    pause_.expires_after(std::chrono::milliseconds(100));
    pause_.async_wait([this](error_code stopped) {
        if (!stopped)
            accept();
    });
}

void listener::leave() noexcept {
    if (open_.fetch_sub(1) != most_)
        return;
    asio::post(context_, [this] {
        if (waits_ && acceptor_.is_open())
            accept();
    });
}

void listener::complain(std::string what) {
    auto const now = clock::now();
    if (complained_ != clock::time_point::min() && now < complained_ + std::chrono::minutes(1))
        return;
    complained_ = now;
    handlers_.trouble(std::move(what));
}

}  // namespace net
