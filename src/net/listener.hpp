#pragma once

#include "asio.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace net {

/// Accepts connections, of which at most so many are open at a time: others wait in the backlog of the
/// kernel. It is used on the thread of its context, and outlives its admissions.
class listener {
public:
    /// What a connection has for as long as it is open; it may end on any thread.
    class admission {
    public:
        admission(admission&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
        ~admission() {
            if (of_)
                of_->leave();
        }

    private:
        friend class listener;
        explicit admission(listener& of) noexcept : of_(&of) {}
        listener* of_;
    };

    /// Throws `boost::system::system_error` if it cannot listen.
    listener(asio::io_context& context, tcp::endpoint const& at, std::int64_t most);

    [[nodiscard]] tcp::endpoint listens_at() const { return acceptor_.local_endpoint(); }

    /// What is done with a connection, and on which context it will live. `trouble` is told why nobody
    /// is let in for the moment, once a minute at most.
    struct handlers {
        std::function<asio::io_context&()> next_context;
        std::function<void(tcp_socket, tcp::endpoint, admission)> accepted;
        std::function<void(std::string)> trouble;
    };
    void start(handlers h);

    /// Lets nobody in from now on.
    void close();

private:
    void accept();
    void take_in(tcp_socket socket);
    void pause();
    void leave() noexcept;
    void complain(std::string what);

    asio::io_context& context_;
    tcp_acceptor acceptor_;
    timer pause_;
    handlers handlers_;
    std::int64_t const most_;
    std::atomic<std::int64_t> open_ = 0;
    bool waits_ = false;  // for one to leave
    clock::time_point complained_ = clock::time_point::min();
};

}  // namespace net
