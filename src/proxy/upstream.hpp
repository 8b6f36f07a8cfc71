#pragma once

#include <weir/key_hash.hpp>

#include "admin/state.hpp"
#include "config/configuration.hpp"
#include "key.hpp"
#include "latency_counter.hpp"
#include "limit.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/watchdog.hpp"
#include "request_info.hpp"
#include "tls/client.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace proxy {

namespace asio = boost::asio;

/// The use of a new connection.
struct connection_use {
    tls::inner_protocol inner = tls::inner_protocol::http;
    std::string_view introduction = {};  // the first bytes, which are never encrypted
    std::function<bool()> is_over =
        {};  // whether the connection is not needed any more; may be empty
};

/// One server of an upstream, shared by all threads. The next configuration that names it reuses it, if it still
/// exists: plans and requests own it.
class upstream_server : public std::enable_shared_from_this<upstream_server> {
public:
    explicit upstream_server(config::server const& c, std::vector<net::endpoint> at);

    /// Allows at most `most` open connections, in use or kept, of all threads together. If each worker of the server
    /// serves one connection at a time, set `most` to the number of workers: then each open connection has a worker,
    /// for any number of threads.
    void configure(config::server const& c, std::int64_t most) noexcept {
        seats_ = c.seats.value_or(no_limit);
        most_ = most;
        leaves_ = false;
        serve_line();
    }

    [[nodiscard]] config::server_address const& address() const noexcept { return address_; }
    /// The address as configured. It is the Host of requests without one.
    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    [[nodiscard]] net::server_endpoints& endpoints() noexcept { return endpoints_; }

    /// Encrypts new connections by `how`; null: they are not encrypted. Connections of before are outdated, unless it is
    /// like the one of before.
    void encrypt_by(std::shared_ptr<tls::client const> how);
    /// The beginning of a connection for `use`, to whose texts the result refers.
    [[nodiscard]] net::opening opening_for(connection_use const& use) const;
    /// How often its endpoints or its encryption changed.
    [[nodiscard]] std::uint64_t version() const noexcept {
        return endpoints_.version() + encryption_version_.load();
    }

    /// Counts a response. `took` is the time from the request to the head of the response. Thread-safe.
    void note_answer(unsigned status, net::clock::duration took) noexcept {
        responses_.count(took);
        if (status >= 500)
            error_responses_.fetch_add(1, std::memory_order_relaxed);
    }
    /// Its state and its counters.
    [[nodiscard]] admin::server_state state() const;
    /// No configuration names the server any more: tunnels to it must end.
    void leave() noexcept { leaves_ = true; }
    [[nodiscard]] std::atomic<bool> const& leaves() const noexcept { return leaves_; }

private:
    friend class upstream;
    friend class upstream_pool;
    friend class place;
    friend class turn_for_a_place;

    struct waiter {
        explicit waiter(asio::io_context& context) : turn(context) {}
        net::timer turn;        // cancelled when the waiter gets a place, on its thread
        bool has_come = false;  // whether it has a place; protected by `line_mutex_`
    };

    static constexpr weir::amount no_limit = std::numeric_limits<weir::amount>::max();

    /// Counts a request at the server, if the server has a seat for it. Returns whether it has.
    [[nodiscard]] bool try_take() noexcept;

    // Counts one more connection, if the limit allows it. Returns whether it does.
    [[nodiscard]] bool try_open() noexcept;
    // Stops counting a connection.
    void close_one() noexcept;
    // Counts connections for the first requests in the queue, as far as the limit allows, and wakes these requests.
    void serve_line() noexcept;
    [[nodiscard]] bool is_awaited() const noexcept { return waiting_ != 0; }

    config::server_address const address_;
    std::string const name_;
    net::server_endpoints endpoints_;
    mutable std::mutex encryption_mutex_;
    std::shared_ptr<tls::client const> encryption_;  // protected by `encryption_mutex_`
    std::atomic<std::uint64_t> encryption_version_ = 0;
    std::atomic<weir::amount> seats_ = no_limit;
    std::atomic<weir::amount> busy_ = 0;
    std::atomic<std::int64_t> most_ = 0;
    std::atomic<std::int64_t> open_ = 0;
    std::mutex line_mutex_;
    std::list<std::shared_ptr<waiter>> line_;
    std::atomic<std::size_t> waiting_ = 0;     // in `line_`
    std::atomic<std::int64_t> failures_ = 0;   // in a row
    std::atomic<std::int64_t> successes_ = 0;  // of checks, in a row, while it is down
    std::atomic<bool> down_ = false;
    std::atomic<std::uint64_t> pause_ =
        0;  // the number of its pause after a failed connection; 0 without one
    std::atomic<std::uint64_t> connect_failures_ = 0;
    std::atomic<std::uint64_t> refused_certificates_ = 0;
    std::atomic<std::uint64_t> tls_failures_ = 0;  // others
    std::mutex trouble_mutex_;
    net::error_code
        trouble_;  // the last error of TLS that was reported; protected by `trouble_mutex_`
    net::clock::time_point trouble_said_;  // when; likewise
    latency_counter responses_;
    std::atomic<std::uint64_t> error_responses_ = 0;
    std::atomic<bool> leaves_ = false;
};

/// The equivalent servers of one upstream, in one configuration. Any thread may use it.
///
/// While a server other than the backups is up, the backups get no requests, and their seats do not count.
///
/// A server to which a connection failed gets no requests for `pause`, and its seats do not count, if there are other
/// servers.
class upstream : public std::enable_shared_from_this<upstream> {
public:
    /// A request at a server. While this object lives, the server counts the request as active.
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

    /// Takes over the limiter of the seats of `before`, which may be null; `ex` serves the requests that wait for
    /// seats. Precondition: at least one server.
    upstream(net::executor const& ex, config::upstream c,
             std::vector<std::shared_ptr<upstream_server>> servers, upstream const* before);

    [[nodiscard]] config::upstream const& configuration() const noexcept { return configuration_; }
    [[nodiscard]] std::vector<std::shared_ptr<upstream_server>> const& servers() const noexcept {
        return servers_;
    }

    static constexpr std::chrono::seconds pause{1};

    /// The key of a request by which it has its server; empty if the upstream has no `hash`, or if the request has no
    /// value of it.
    [[nodiscard]] std::optional<std::uint64_t> key_of(request_info const& who) const;

    /// Chooses a server that is up, has a free seat, and is not in `tried`. If all servers are down, it treats them as
    /// up. Returns an empty visit if no server remains.
    ///
    /// - A request with a key has the server with the highest rank for the key. So a key moves only from a server that
    ///   leaves, is down or is full, and to a server that is new or returns.
    /// - Any other request has the server with the smallest (active requests + 1) / weight. If all servers are idle,
    ///   they take turns, by their weights.
    [[nodiscard]] visit choose(std::span<upstream_server const* const> tried = {},
                               std::optional<std::uint64_t> key = {});
    /// Whether a server that is up, and is not in `tried`, has seats: then a request that found none free may wait for one.
    [[nodiscard]] bool may_have_seats_later(
        std::span<upstream_server const* const> tried) const noexcept;
    [[nodiscard]] bool has_choice() const noexcept { return servers_.size() > 1; }

    /// The state and the counters of its servers.
    [[nodiscard]] admin::upstream_state state() const;

    /// The limit of the sum of its servers' seats, if all servers have seats. Otherwise null.
    [[nodiscard]] std::shared_ptr<limit> seats() const {
        return seats_ ? seats_->limiter : nullptr;
    }

    /// Records whether a connection for a request reached the server. A failure begins a pause. With health checks, it
    /// affects the server's health.
    void note(upstream_server& server, bool reached);
    /// Records the result of a health check.
    void note_check(upstream_server& server, bool good);
    /// Counts an error of TLS at a server, and reports it. A repeated error is reported once per minute, and any error once
    /// per second. Other errors have no effect.
    void report(upstream_server& server, net::error_code const& ec) const;

private:
    struct common_seats {
        std::mutex changes;
        std::shared_ptr<limit> limiter;
    };

    // The servers of a tier get requests while the earlier tiers have no server.
    enum class tier : std::uint8_t { up, backup_up, down, backup_down };
    static constexpr std::size_t tiers = 4;

    // The settings of a server in this configuration, and the seed of its ranks for keys.
    struct role {
        std::int64_t weight;
        bool is_backup;
        weir::hash_seed seed;
    };

    [[nodiscard]] static bool is_out(upstream_server const& server) noexcept {
        return server.down_ || server.pause_ != 0;
    }
    [[nodiscard]] static std::vector<role> roles_of(config::upstream const& c);
    [[nodiscard]] static double rank_of(role const& r, std::uint64_t key) noexcept;
    [[nodiscard]] tier tier_of(std::size_t server) const noexcept;
    [[nodiscard]] upstream_server* idle_in_turn(tier from,
                                                std::span<upstream_server const* const> tried,
                                                std::size_t turn, std::int64_t weights) const;
    void begin_pause(upstream_server& server);
    void end_pause(upstream_server& server, std::uint64_t number);
    void fail(upstream_server& server);
    void note_change(upstream_server& server, bool down);
    void count_seats();

    config::upstream const configuration_;
    std::vector<std::shared_ptr<upstream_server>> const servers_;
    net::executor executor_;
    std::vector<role> const roles_;  // in the order of `servers_`
    std::optional<keys_of_requests> const keys_;
    bool has_seats_;  // each server has seats
    bool counts_;     // counts active requests for each server
    std::shared_ptr<common_seats> seats_;
    std::atomic<std::size_t> next_ = 0;  // rotates among equally busy servers
};

/// The right to open one connection to a server: the server counts it as open while this object lives.
class place {
public:
    place() = default;
    /// Takes a place at the server. The place is empty if none is free or if other requests wait for one.
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

/// A position in the queue of requests that wait for a place at a server. The server gives places in arrival order. Use
/// it on the thread of `context`.
class turn_for_a_place {
public:
    turn_for_a_place(upstream_server& s, asio::io_context& context);
    turn_for_a_place(turn_for_a_place const&) = delete;
    ~turn_for_a_place() { static_cast<void>(take()); }

    /// Waits until the request has a place, until `end`, or until soon after `is_over()` is true.
    [[nodiscard]] net::task<> wait_until(net::clock::time_point end,
                                         std::function<bool()> const& is_over);
    /// Leaves the queue. Returns the place; it is empty if the request has none yet.
    [[nodiscard]] place take() noexcept;

private:
    [[nodiscard]] bool has_come() const;

    upstream_server& server_;
    std::shared_ptr<upstream_server::waiter> const mine_;
};

/// A connection to a server. It closes the connection before it frees its place.
class upstream_connection {
public:
    upstream_connection() = default;
    /// `version` is the version of the server before the connection was opened.
    upstream_connection(place p, std::unique_ptr<net::connection> c, std::uint64_t version) noexcept
        : place_(std::move(p)), connection_(std::move(c)), version_(version) {}
    upstream_connection(upstream_connection&&) noexcept = default;
    upstream_connection& operator=(upstream_connection&& other) noexcept {
        close();
        place_ = std::move(other.place_);
        connection_ = std::move(other.connection_);
        version_ = other.version_;
        return *this;
    }

    explicit operator bool() const noexcept { return connection_ != nullptr; }
    net::connection& operator*() const noexcept { return *connection_; }
    net::connection* operator->() const noexcept { return connection_.get(); }

    void close() noexcept {
        connection_.reset();
        place_ = {};
    }
    /// Frees the place: the connection no longer counts towards the largest number of open connections.
    void free_place() noexcept { place_ = {}; }

private:
    friend class upstream_pool;
    // Whether the server's endpoints or its encryption are others than when the connection was opened.
    [[nodiscard]] bool is_outdated() const noexcept { return place_.of()->version() != version_; }

    place place_;
    std::unique_ptr<net::connection> connection_;
    std::uint64_t version_ = 0;
};

/// The connections to servers that one thread keeps for its next requests. It closes a connection that the server ends.
class upstream_pool final : private net::watched {
public:
    /// The pools of all threads. The list is complete before the threads start.
    using all = std::vector<upstream_pool*>;

    upstream_pool(asio::io_context& context, net::watchdog& dog, all& pools);

    /// Returns the kept connection that was used last. If no further connection may be opened, it may come from another
    /// thread's pool. Returns an empty one if there is none. A connection on which the server sent bytes without a
    /// request is never reused: they would be read as the response.
    [[nodiscard]] upstream_connection reuse(upstream_server& server);

    /// Opens a new connection. If it cannot within `limit`, it returns an empty one, with the reason in `ec`; likewise
    /// soon after `use.is_over()` is true.
    [[nodiscard]] net::task<upstream_connection> open(
        upstream_server& server, connection_use const& use, net::clock::duration limit,
        net::error_code& ec);

    /// Keeps a connection for `how_long`. Closes it instead if the pool is full or closed, if a request waits for a place
    /// at the server, or if the server has other addresses or another encryption now.
    void keep(upstream_connection one, net::clock::duration how_long);

    /// Closes all kept connections, and keeps none from now on. Call it on its thread.
    void close() noexcept;

private:
    struct kept {
        upstream_connection one;
        net::clock::time_point until;
        std::uint64_t number;  // unique in the pool
        bool seen = false;     // by the watchdog
        bool awaits_end = false;
    };

    [[nodiscard]] net::clock::time_point look(net::clock::time_point now) override;
    void stop_if_idle() override {}

    void await_end(kept& k);
    void note_input(std::uint64_t number);
    [[nodiscard]] upstream_connection take_for(upstream_pool& user, upstream_server& server);
    [[nodiscard]] upstream_connection take_from_another(upstream_server& server);

    static constexpr std::size_t most = 1024;

    asio::io_context& context_;
    net::watchdog& dog_;
    all& pools_;

    // Protects the following members: another thread may take a connection.
    std::mutex mutex_;
    std::vector<kept> kept_;
    std::uint64_t last_ = 0;
    bool closed_ = false;
};

}  // namespace proxy
