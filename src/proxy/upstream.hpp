#pragma once

#include "admin/state.hpp"
#include "config/configuration.hpp"
#include "latency_counter.hpp"
#include "limit.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/watchdog.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace proxy {

namespace asio = boost::asio;

/// One server of an upstream, as all threads see it. It lives on in the next configuration that names it, as long as
/// anybody uses it.
class upstream_server : public std::enable_shared_from_this<upstream_server> {
public:
    explicit upstream_server(config::server const& c, std::vector<net::endpoint> at);

    /// No more than `most` connections are open, whether they are used or kept. With as many as the server has
    /// workers, each of which looks after one connection, it serves all threads.
    void configure(config::server const& c, std::int64_t most) noexcept {
        seats_ = c.seats.value_or(no_limit);
        most_ = most;
        leaves_ = false;
        serve_line();
    }

    [[nodiscard]] config::server_address const& address() const noexcept { return address_; }
    /// As it was given: the Host of requests that have none.
    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    [[nodiscard]] net::server_endpoints& endpoints() noexcept { return endpoints_; }

    /// Any thread. So long after the request was sent the head of its answer was there.
    void note_answer(net::clock::duration took) noexcept { answers_.count(took); }
    /// What it does now and has done.
    [[nodiscard]] admin::server_state state() const;
    /// No configuration names it any more: connections that last are to end.
    void leave() noexcept { leaves_ = true; }
    [[nodiscard]] std::atomic<bool> const& leaves() const noexcept { return leaves_; }

private:
    friend class upstream;
    friend class upstream_pool;
    friend class place;
    friend class turn_for_a_place;

    struct waiter {
        explicit waiter(asio::io_context& context) : turn(context) {}
        net::timer turn;        // cancelled when it has come, on the thread of the waiter
        bool has_come = false;  // under `line_mutex_`: a connection is counted for it
    };

    static constexpr weir::amount no_limit = std::numeric_limits<weir::amount>::max();

    /// Counts a request there, if it has a seat for it.
    [[nodiscard]] bool try_take() noexcept;

    // Counts a connection, if one more may be open.
    [[nodiscard]] bool try_open() noexcept;
    // A connection that was counted is closed.
    void close_one() noexcept;
    // Gives places that are free to the first in line.
    void serve_line() noexcept;
    [[nodiscard]] bool is_awaited() const noexcept { return waiting_ != 0; }

    config::server_address const address_;
    std::string const name_;
    net::server_endpoints endpoints_;
    std::atomic<weir::amount> seats_ = no_limit;
    std::atomic<weir::amount> busy_ = 0;
    std::atomic<std::int64_t> most_ = 0;
    std::atomic<std::int64_t> open_ = 0;
    std::mutex line_mutex_;
    std::list<std::shared_ptr<waiter>> line_;
    std::atomic<std::size_t> waiting_ = 0;     // in `line_`
    std::atomic<std::int64_t> failures_ = 0;   // in a row
    std::atomic<std::int64_t> successes_ = 0;  // of checks, in a row, while it is out
    std::atomic<bool> out_ = false;
    std::atomic<std::uint64_t> unreachable_ = 0;
    latency_counter answers_;
    std::atomic<bool> leaves_ = false;
};

/// Several servers that do the same, in one configuration. Any thread may use it.
class upstream {
public:
    /// What a server is asked for: it counts as busy meanwhile.
    class visit {
    public:
        visit() = default;
        visit(visit&& other) noexcept
            : server_(std::exchange(other.server_, nullptr)), counted_(other.counted_) {}
        visit& operator=(visit other) noexcept {
            std::swap(server_, other.server_);
            std::swap(counted_, other.counted_);
            return *this;
        }
        ~visit() {
            if (server_ && counted_)
                server_->busy_.fetch_sub(1);
        }
        explicit operator bool() const noexcept { return server_ != nullptr; }
        [[nodiscard]] upstream_server& server() const noexcept { return *server_; }

    private:
        friend class upstream;
        visit(upstream_server& server, bool counted) noexcept
            : server_(&server), counted_(counted) {}
        upstream_server* server_ = nullptr;
        bool counted_ = false;
    };

    /// At least one server. What `before` knows of its seats goes on; their waiters are served on `ex`.
    upstream(net::executor const& ex, config::upstream c,
             std::vector<std::shared_ptr<upstream_server>> servers, upstream const* before);

    [[nodiscard]] config::upstream const& configuration() const noexcept { return configuration_; }
    [[nodiscard]] std::vector<std::shared_ptr<upstream_server>> const& servers() const noexcept {
        return servers_;
    }

    /// The least busy server that is not out and has a seat, but none of those that were `tried`. If all are out, as if
    /// none was. Empty if there is none.
    [[nodiscard]] visit choose(std::span<upstream_server const* const> tried = {});
    [[nodiscard]] bool has_choice() const noexcept { return servers_.size() > 1; }

    /// What its servers do now and have done.
    [[nodiscard]] admin::upstream_state state() const;

    /// The seats of its servers together, if all of them have seats: a limit like any other. Otherwise null.
    [[nodiscard]] std::shared_ptr<limit> seats() const {
        return seats_ ? seats_->limiter : nullptr;
    }

    /// Whether a request has reached the server, or no connection could be made. Of account where there are health checks.
    void note(upstream_server& server, bool reached);
    /// What a check has found.
    void note_check(upstream_server& server, bool good);

private:
    struct common_seats {
        std::mutex changes;
        std::shared_ptr<limit> limiter;
    };

    void fail(upstream_server& server);
    void is_out(upstream_server& server, bool out);
    void count_seats();

    config::upstream const configuration_;
    std::vector<std::shared_ptr<upstream_server>> const servers_;
    bool has_seats_;  // each of them
    bool counts_;     // its requests
    std::shared_ptr<common_seats> seats_;
    std::atomic<std::size_t> next_ = 0;  // of those that are equally busy
};

/// The right to have a connection to a server.
class place {
public:
    place() = default;
    /// There may be none any more, or others wait for one; see `operator bool`.
    explicit place(upstream_server& s) noexcept;
    place(place&& other) noexcept = default;
    place& operator=(place other) noexcept {
        std::swap(of_, other.of_);
        return *this;
    }
    ~place();

    explicit operator bool() const noexcept { return of_ != nullptr; }
    [[nodiscard]] upstream_server* of() const noexcept { return of_.get(); }

private:
    friend class turn_for_a_place;
    std::shared_ptr<upstream_server> of_;
};

/// A place in the line of those that wait for the right to have a connection to a server: first come, first served. On the
/// thread of `context`.
class turn_for_a_place {
public:
    turn_for_a_place(upstream_server& s, asio::io_context& context);
    turn_for_a_place(turn_for_a_place const&) = delete;
    ~turn_for_a_place() { static_cast<void>(take()); }

    /// Completes when the turn has come, or at `end`.
    [[nodiscard]] net::task<> wait_until(net::clock::time_point end);
    /// Leaves the line, with the right if the turn has come.
    [[nodiscard]] place take() noexcept;

private:
    upstream_server& server_;
    std::shared_ptr<upstream_server::waiter> const mine_;
};

/// A connection to a server. It is closed before its place is free.
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
    /// It counts no more among those that may be open.
    void free_place() noexcept { place_ = {}; }

private:
    friend class upstream_pool;
    place place_;
    std::unique_ptr<net::connection> connection_;
};

/// The connections to servers that one thread keeps for its next requests. One that its server ends is closed.
class upstream_pool final : private net::watched {
public:
    /// Those of all threads, which are complete before the threads start.
    using all = std::vector<upstream_pool*>;

    upstream_pool(asio::io_context& context, net::watchdog& dog, all& pools);

    /// One that has been used before, the last that came back; if no other may be opened, it may be one
    /// that another thread has kept. Empty if there is none. What a server has sent on it unasked
    /// would be taken for the answer: such a one is never used again.
    [[nodiscard]] upstream_connection reuse(upstream_server& server);

    /// A new one; empty if the server cannot be reached within `limit`, with the reason in `ec`.
    [[nodiscard]] net::task<upstream_connection> open(
        upstream_server& server, net::clock::duration limit, net::error_code& ec);

    /// Keeps one for so long.
    void keep(upstream_connection one, net::clock::duration how_long);

    /// Keeps none from now on. On its thread.
    void close() noexcept;

private:
    struct kept {
        upstream_connection one;
        net::clock::time_point until;
        std::uint64_t number;  // no other is kept under it
        bool seen = false;     // by the watchdog
        bool awaits_end = false;
    };

    [[nodiscard]] net::clock::time_point look(net::clock::time_point now) override;
    void stop_if_idle() override {}
    void abort() override {}

    void await_end(kept& k);
    void drop(std::uint64_t number);
    [[nodiscard]] upstream_connection take_for(upstream_pool& user, upstream_server& server);
    [[nodiscard]] upstream_connection take_from_another(upstream_server& server);

    static constexpr std::size_t most = 1024;

    asio::io_context& context_;
    net::watchdog& dog_;
    all& pools_;

    // Another thread may take one out.
    std::mutex mutex_;
    std::vector<kept> kept_;
    std::uint64_t last_ = 0;
    bool closed_ = false;
};

}  // namespace proxy
