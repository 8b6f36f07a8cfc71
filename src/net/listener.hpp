#pragma once

#include "asio.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <utility>

namespace net {

/// Accepts connections at its doors, of which at most so many are open at a time: others wait in the backlogs of the
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

    /// Where connections come in. A socket of the file system goes with it.
    class door {
    public:
        [[nodiscard]] endpoint listens_at() const { return acceptor_.local_endpoint(); }
        /// What was said of it when it was opened.
        [[nodiscard]] std::string const& name() const noexcept { return name_; }
        /// Whether its connections begin with the PROXY protocol; at first they do not.
        [[nodiscard]] bool is_introduced() const noexcept { return introduced_; }
        void set_introduced(bool introduced) noexcept { introduced_ = introduced; }

    private:
        friend class listener;
        door(asio::io_context& context, std::string name)
            : acceptor_(context), pause_(context), name_(std::move(name)) {}

        stream_acceptor acceptor_;
        timer pause_;
        std::string name_;
        std::string path_;  // to be removed
        bool introduced_ = false;
        bool waits_ = false;  // for a connection to leave
        bool closed_ = false;
        int pending_ = 0;  // what refers to it
    };

    listener(asio::io_context& context, std::int64_t most);
    ~listener();

    /// What is done with a connection, which door it came by, and on which context it will live. `trouble` is told why
    /// nobody is let in for the moment, once a minute at most.
    struct handlers {
        std::function<asio::io_context&()> next_context;
        std::function<void(stream_socket, endpoint, admission, door const&)> accepted;
        std::function<void(std::string)> trouble;
    };
    void start(handlers h);

    /// Listens there, also while others are let in. Throws `boost::system::system_error` if it cannot. A socket of the
    /// file system is made anew, unless somebody listens at it.
    door& open(endpoint const& at, std::string name);
    /// The same at a socket that listens already, which it owns from now on.
    door& adopt(int socket, std::string name);

    /// Lets nobody in there from now on: the door is gone.
    void close(door& one);
    /// Nobody anywhere.
    void close();

    [[nodiscard]] std::list<door> const& doors() const noexcept { return doors_; }
    [[nodiscard]] std::list<door>& doors() noexcept { return doors_; }

private:
    door& add(std::string name);
    door& ready(door& one);
    [[nodiscard]] bool is_full() const noexcept { return open_.load() >= most_; }
    void accept(door& at);
    error_code let_in(door& at);
    void take_in(stream_socket socket, door const& by);
    void pause(door& at);
    void forget(door& one);
    void leave() noexcept;
    void complain(std::string what);

    asio::io_context& context_;
    std::list<door> doors_;
    std::list<door> closed_;  // but referred to
    handlers handlers_;
    bool started_ = false;
    std::int64_t const most_;
    std::atomic<std::int64_t> open_ = 0;
    clock::time_point complained_ = clock::time_point::min();
};

}  // namespace net
