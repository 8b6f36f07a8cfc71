#pragma once

#include "support/temporary_folder.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <future>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace support {

/// A relay to a server at a local socket that delays everything by `delay` in each direction. It can also stall, like a
/// stopped server, or cut all connections and refuse new ones, like a server that has ended.
class slow_way {
    using local = boost::asio::local::stream_protocol;

public:
    slow_way(std::string const& server, std::chrono::nanoseconds delay)
        : server_(server), delay_(delay) {
        listen();
        thread_ = std::thread([this] { ctx_.run(); });
    }
    slow_way(slow_way const&) = delete;
    slow_way& operator=(slow_way const&) = delete;
    ~slow_way() {
        ctx_.stop();
        thread_.join();
    }

    [[nodiscard]] std::string socket() const { return folder_ / "socket"; }

    /// Passes nothing on until `pass_on`; a connection is accepted, but the server does not see it.
    void stall() {
        on_thread([this] { is_stalled_ = true; });
    }
    /// Cuts all connections, and refuses new ones until `pass_on`.
    void refuse() {
        on_thread([this] {
            acceptor_.reset();
            for (auto const& d : directions_)
                d->from->close();
            directions_.clear();
        });
    }
    /// Passes nothing more on, on connections whose clients have sent `word`.
    void silence(std::string word) {
        on_thread([&] {
            for (auto const& d : directions_)
                d->is_silent = d->said->find(word) != std::string::npos;
        });
    }
    /// Ends a stall, or the refusal of connections.
    void pass_on() {
        on_thread([this] {
            is_stalled_ = false;
            for (auto const& d : std::exchange(directions_, {})) {
                d->is_silent = false;
                if (std::exchange(d->is_held, false))
                    deliver(d);
                directions_.push_back(d);
            }
            if (!acceptor_)
                listen();
        });
    }

private:
    // Data from one end goes to the other, one piece after the other.
    struct direction {
        direction(std::shared_ptr<local::socket> f, std::shared_ptr<local::socket> t)
            : from(std::move(f)), to(std::move(t)), timer(from->get_executor()) {}
        std::shared_ptr<local::socket> from;
        std::shared_ptr<local::socket> to;
        boost::asio::steady_timer timer;
        std::array<char, 65536> piece{};
        std::size_t size = 0;
        bool is_held = false;  // its piece waits for the end of a stall
        bool is_silent = false;
        std::shared_ptr<std::string> said;  // the first bytes of the client
    };

    // Returns when `f` has run on the thread of the relay.
    template <class F>
    void on_thread(F f) {
        std::promise<void> done;
        boost::asio::post(ctx_, [&] {
            f();
            done.set_value();
        });
        done.get_future().wait();
    }

    void listen() {
        std::filesystem::remove(socket());
        acceptor_.emplace(ctx_, local::endpoint(socket()));
        accept();
    }
    void accept() {
        acceptor_->async_accept([this](auto ec, local::socket s) {
            if (ec)
                return;
            auto const client = std::make_shared<local::socket>(std::move(s));
            auto const server = std::make_shared<local::socket>(ctx_);
            server->connect(local::endpoint(server_));
            auto const said = std::make_shared<std::string>();
            for (auto const& d : {std::make_shared<direction>(client, server),
                                  std::make_shared<direction>(server, client)}) {
                d->said = said;
                directions_.push_back(d);
                pass(d);
            }
            accept();
        });
    }
    void pass(std::shared_ptr<direction> const& d) {
        d->from->async_read_some(boost::asio::buffer(d->piece), [this, d](auto ec, std::size_t n) {
            if (ec) {
                boost::system::error_code ignored;
                d->to->shutdown(local::socket::shutdown_send, ignored);
                directions_.remove(d);
                return;
            }
            d->size = n;
            if (d->said->size() < d->piece.size())
                d->said->append(d->piece.data(), n);
            d->timer.expires_after(delay_);
            d->timer.async_wait([this, d](auto) { deliver(d); });
        });
    }
    void deliver(std::shared_ptr<direction> const& d) {
        if (is_stalled_ || d->is_silent) {
            d->is_held = true;
            return;
        }
        boost::system::error_code failed;
        boost::asio::write(*d->to, boost::asio::buffer(d->piece, d->size), failed);
        if (!failed)
            pass(d);
    }

    temporary_folder folder_{"weir-slow-way-"};
    std::string server_;
    std::chrono::nanoseconds delay_;
    boost::asio::io_context ctx_;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
        ctx_.get_executor()};
    std::optional<local::acceptor> acceptor_;
    std::list<std::shared_ptr<direction>> directions_;
    bool is_stalled_ = false;
    std::thread thread_;
};

}  // namespace support
