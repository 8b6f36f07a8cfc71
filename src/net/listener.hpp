#pragma once

#include "asio.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>

namespace net {

/// Accepts connections on several listening sockets. At most `most` connections are open at a time; further ones wait
/// in the backlogs of the kernel. Use it on the thread of its context. It must outlive its admissions.
class listener {
public:
    /// Counts one open connection while it exists. It may be destroyed on any thread.
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

    /// A listening socket. Closing it removes the file of a unix socket.
    class acceptor {
    public:
        [[nodiscard]] endpoint listens_at() const { return acceptor_.local_endpoint(); }
        /// The name that `open` or `adopt` received.
        [[nodiscard]] std::string const& name() const noexcept { return name_; }
        /// Changes the mode of the file of a unix socket.
        [[nodiscard]] error_code set_mode(unsigned mode);

    private:
        friend class listener;
        acceptor(asio::io_context& context, std::string name)
            : acceptor_(context), pause_(context), name_(std::move(name)) {}

        stream_acceptor acceptor_;
        timer pause_;
        std::string name_;
        std::string path_;    // the file to remove
        bool waits_ = false;  // until a connection closes
        bool closed_ = false;
        int pending_ = 0;  // operations that refer to it
    };

    listener(asio::io_context& context, std::int64_t most);
    ~listener();

    /// `next_context` selects the context of the next connection. `accepted` receives the connection and its listening
    /// socket. `trouble` receives the reason why connections cannot be accepted now, at most once a minute.
    struct handlers {
        std::function<asio::io_context&()> next_context;
        std::function<void(stream_socket, endpoint, admission, acceptor const&)> accepted;
        std::function<void(std::string)> trouble;
    };
    void start(handlers h);

    /// Listens on `at`; other sockets may be accepting already. Throws `boost::system::system_error` if it cannot.
    /// Replaces the file of a unix socket unless a program listens on it. The file has `mode` before a program can connect.
    acceptor& open(endpoint const& at, std::string name, std::optional<unsigned> mode = {});
    /// Accepts on a socket that is already listening, and takes ownership of it.
    acceptor& adopt(int socket, std::string name);

    /// Stops accepting on this socket and removes it.
    void close(acceptor& one);
    /// Stops accepting on all sockets and removes them.
    void close();

    [[nodiscard]] std::list<acceptor> const& acceptors() const noexcept { return acceptors_; }
    [[nodiscard]] std::list<acceptor>& acceptors() noexcept { return acceptors_; }

private:
    acceptor& add(std::string name);
    acceptor& ready(acceptor& one);
    [[nodiscard]] bool is_full() const noexcept { return open_.load() >= most_; }
    void accept(acceptor& at);
    error_code let_in(acceptor& at);
    void take_in(stream_socket socket, acceptor const& by);
    void pause(acceptor& at);
    void forget(acceptor& one);
    void leave() noexcept;
    void complain(std::string what);

    asio::io_context& context_;
    std::list<acceptor> acceptors_;
    std::list<acceptor> closed_;  // with pending operations
    handlers handlers_;
    bool started_ = false;
    std::int64_t const most_;
    std::atomic<std::int64_t> open_ = 0;
    clock::time_point complained_ = clock::time_point::min();
};

}  // namespace net
