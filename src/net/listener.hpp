#pragma once

#include "asio.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace net {

struct arrival;

/// Accepts connections on several listening sockets. At most `most` connections are open at a time; further ones wait
/// in the backlogs of the kernel. One thread opens and closes the sockets; one thread, which may be another, accepts.
/// It must outlive its admissions and its pending operations.
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
        acceptor(asio::io_context& context, std::string name, std::size_t number)
            : acceptor_(context), pause_(context), name_(std::move(name)), number_(number) {}

        void move_to(asio::io_context& context);
        void send_without_delay();
        void note_end_of_backlog() noexcept;
        void note_full_round() noexcept;

        stream_acceptor acceptor_;
        timer pause_;
        std::string const name_;
        std::size_t const number_;
        std::string path_;    // the file to remove
        bool waits_ = false;  // until a connection closes
        bool closed_ = false;
        int round_ = 1;        // connections to accept at most when the socket is readable
        int full_rounds_ = 0;  // successive ones
    };
    using acceptors_list = std::list<std::shared_ptr<acceptor>>;

    listener(asio::io_context& context, std::int64_t most);
    ~listener();

    /// `accepts` is the context of the thread that accepts; it calls the functions. `next_context` selects the context
    /// of the next connection. `accepted` receives the connection. `trouble` receives the reason why connections cannot
    /// be accepted now, at most once a minute; it may be called within `start`, and must not use the listener.
    struct handlers {
        asio::io_context& accepts;
        std::function<asio::io_context&()> next_context;
        std::function<void(arrival)> accepted;
        std::function<void(std::string)> trouble;
    };
    /// Accepts on the sockets that are open.
    void start(handlers h);
    /// Accepts on a socket that was opened after that. Has no effect before.
    void start(acceptor& one);

    /// Listens on `at`. Its connections wait until `start`. Throws `boost::system::system_error` if it cannot.
    /// Replaces the file of a unix socket unless a program listens on it. The file has `mode` before a program can connect.
    /// The connections of the socket have `number`.
    acceptor& open(endpoint const& at, std::string name, std::optional<unsigned> mode = {},
                   std::size_t number = 0);
    /// Takes ownership of a socket that is already listening.
    acceptor& adopt(int socket, std::string name, std::size_t number = 0);

    /// Stops accepting on this socket and removes it.
    void close(acceptor& one);
    /// Stops accepting on all sockets and removes them.
    void close();

    [[nodiscard]] acceptors_list const& acceptors() const noexcept { return acceptors_; }

private:
    using owned = std::shared_ptr<acceptor>;

    acceptor& add(std::string name, std::size_t number);
    void begin(owned const& one);
    [[nodiscard]] bool is_full() const noexcept { return open_.load() >= most_; }
    void accept(owned const& at);
    error_code let_in(acceptor& at);
    [[nodiscard]] std::optional<arrival> next(acceptor& at, error_code& ec);
    void pause(owned const& at);
    void leave() noexcept;
    void complain(std::string what);

    std::mutex mutex_;           // protects the sockets, and the members below
    asio::io_context* context_;  // of the sockets
    acceptors_list acceptors_;   // changes on one thread, which may read it without the mutex
    std::optional<handlers> handlers_;
    clock::time_point complained_ = clock::time_point::min();

    std::int64_t const most_;
    std::atomic<std::int64_t> open_ = 0;
};

/// An accepted connection.
struct arrival {
    listener::admission admitted;  // until the socket is closed
    stream_socket socket;
    endpoint from;
    std::size_t by;  // the number of its listening socket
};

}  // namespace net
