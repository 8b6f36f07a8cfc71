#pragma once

#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/watchdog.hpp"
#include "options.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace proxy {

namespace asio = boost::asio;

class upstream_pool;

/// The upstream, as all threads see it.
class upstream {
public:
    /// No more than `most` connections are open, whether they are used or kept. With as many as there
    /// are seats, an upstream that has so many workers, each of which looks after one connection, serves
    /// all threads.
    upstream(std::vector<net::tcp::endpoint> at, std::string name, timeouts const& limits,
             std::int64_t most);

    [[nodiscard]] std::vector<net::tcp::endpoint> const& endpoints() const noexcept {
        return endpoints_.all();
    }
    /// As it was given: the Host of requests that have none.
    [[nodiscard]] std::string const& name() const noexcept { return name_; }

private:
    friend class upstream_pool;
    friend class place;

    net::server_endpoints endpoints_;
    std::string name_;
    net::clock::duration timeout_;
    net::clock::duration keep_;
    std::int64_t most_;
    std::atomic<std::int64_t> open_ = 0;
    std::vector<upstream_pool*> pools_;  // complete before the threads start
};

/// The right to have a connection to the upstream.
class place {
public:
    place() = default;
    /// There may be none any more; see `operator bool`.
    explicit place(upstream& u) noexcept;
    place(place&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    place& operator=(place other) noexcept {
        std::swap(of_, other.of_);
        return *this;
    }
    ~place();

    explicit operator bool() const noexcept { return of_ != nullptr; }

private:
    upstream* of_ = nullptr;
};

/// A connection to the upstream. It is closed before its place is free.
class upstream_connection {
public:
    upstream_connection() = default;
    upstream_connection(place p, std::unique_ptr<net::connection> c) noexcept
        : place_(std::move(p)), connection_(std::move(c)) {}
    upstream_connection(upstream_connection&&) noexcept = default;
    upstream_connection& operator=(upstream_connection&& other) noexcept {
        close();
        place_ = std::move(other.place_);
        connection_ = std::move(other.connection_);
        return *this;
    }

    explicit operator bool() const noexcept { return connection_ != nullptr; }
    net::connection& operator*() const noexcept { return *connection_; }
    net::connection* operator->() const noexcept { return connection_.get(); }

    void close() noexcept {
        connection_.reset();
        place_ = {};
    }

private:
    friend class upstream_pool;
    place place_;
    std::unique_ptr<net::connection> connection_;
};

/// The connections to the upstream that one thread keeps for its next requests.
class upstream_pool final : public net::watched {
public:
    upstream_pool(asio::io_context& context, net::watchdog& dog, upstream& u);

    /// One that has been used before, the last that came back; if no other may be opened, it may be one
    /// that another thread has kept. Empty if there is none. What an upstream has sent on it unasked
    /// would be taken for the answer: such a one is never used again.
    [[nodiscard]] upstream_connection reuse();

    /// A new one; empty if the upstream cannot be reached, with the reason in `ec`.
    [[nodiscard]] net::task<upstream_connection> open(net::error_code& ec);

    /// Keeps one for a while.
    void keep(upstream_connection one);

    /// Keeps none from now on.
    void close() noexcept;

    [[nodiscard]] std::string const& name() const noexcept { return upstream_.name(); }

    void look(net::clock::time_point now) override;
    void stop_if_idle() override { close(); }
    void abort() override { close(); }

private:
    struct kept {
        place holds;  // until the socket has been closed
        net::tcp_socket socket;
        net::clock::time_point until;
    };

    [[nodiscard]] upstream_connection take_for(upstream_pool& user);
    [[nodiscard]] upstream_connection take_from_another();

    static constexpr std::size_t most = 1024;

    asio::io_context& context_;
    net::watchdog& dog_;
    upstream& upstream_;

    // Another thread may take one out.
    std::mutex mutex_;
    std::vector<kept> kept_;
    bool closed_ = false;
};

}  // namespace proxy
