#pragma once

#include "net/clock.hpp"
#include "net/listener.hpp"
#include "proxy/health.hpp"
#include "proxy/plan.hpp"
#include "proxy/worker.hpp"
#include "support/temporary_folder.hpp"
#include "tool/log_file.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// weir-proxy in one thread: its clients and upstreams are functions of the test, and time is virtual. All sockets are
/// Unix sockets, where one side can read at once the bytes that the other side sent. So no test depends on the load of
/// the machine, and a minute takes no time.
namespace support {

/// The virtual time of a program that links this library.
struct virtual_time {
    static void advance_to(net::clock::time_point t) noexcept;

    /// The earliest time at which a timer expires, of the timers that were checked since `forget_due`.
    [[nodiscard]] static net::clock::time_point next_due() noexcept;
    static void forget_due() noexcept;
};

/// The test's end of a connection.
class wire {
public:
    explicit wire(int socket) noexcept : socket_(socket) {}
    wire(wire&& other) noexcept;
    wire& operator=(wire&&) = delete;
    ~wire() { close(); }

    void send(std::string_view text);
    /// Receives, and returns all bytes that were not taken. `ended` is up to date afterwards.
    std::string& look();
    /// Receives, and takes all bytes.
    [[nodiscard]] std::string take();
    /// Whether the other side closed its sending side.
    [[nodiscard]] bool ended();

    /// Closes the sending side; the test may still read.
    void end() noexcept;
    void close() noexcept;

private:
    friend wire connect_to(std::string const& path);

    int socket_;
    std::string unread_;
    bool ended_ = false;
};

/// A connection to the Unix socket of that name.
[[nodiscard]] wire connect_to(std::string const& path);

/// Advances virtual time by `d`, step by step. `settle` handles all events that are due, and fails if there is no end
/// of them.
void pass(net::clock::duration d, std::function<void()> const& settle);

/// The response of an upstream.
struct reply {
    std::string text;
    bool closes = false;
};
/// A response with status 200 and that body.
[[nodiscard]] reply ok(std::string_view body = "", std::string_view fields = "");

/// A server that responds to each request immediately with the result of `answer`. It closes the connections that the
/// proxy ended.
class local_upstream {
public:
    /// Listens on a Unix socket of that name.
    explicit local_upstream(std::string path);
    local_upstream(local_upstream const&) = delete;
    ~local_upstream();

    /// The address, as the configuration spells it.
    [[nodiscard]] std::string address() const { return "unix:" + path_; }

    /// Makes the response. If it returns nothing, the test responds on `connections`.
    std::function<std::optional<reply>(std::string const& request)> answer =
        [](std::string const&) { return ok(); };

    std::vector<std::string> requests;  // complete ones, in the order of their arrival
    std::list<wire> connections;        // in the order of their arrival; some may have ended
    /// The number of accepted connections that the proxy has not closed.
    [[nodiscard]] std::size_t open();

    /// Rejects connections from now on.
    void stop() noexcept;

    /// Accepts connections, reads requests and responds, as far as possible now. Returns whether there was work.
    bool serve();

private:
    std::string path_;
    int listener_;
};

class local_proxy {
public:
    /// Starts a proxy with a configuration, in which UPSTREAM and OTHER are replaced by the addresses of the two
    /// servers. `log`, the access log, may be null and must outlive the proxy.
    explicit local_proxy(std::string const& configuration, tool::log_file* log = nullptr);
    ~local_proxy();

private:
    temporary_folder folder_{"weir-local-proxy-"};

public:
    local_upstream upstream{folder_ / "upstream"};
    local_upstream other{folder_ / "other"};

    /// Whether the next connections begin with the PROXY protocol.
    bool is_introduced = false;
    /// The number of the listener of the next connections.
    std::size_t listener = 0;

    /// Opens a new connection of that client, of the first listener with `tcp` if there is one.
    [[nodiscard]] wire connect(std::string const& address = "10.0.0.1");

    /// Runs all handlers that are ready. Fails if that never ends, because something polls instead of waiting.
    void settle();
    /// Advances virtual time by `d`, and handles all events until then.
    void pass(net::clock::duration d);

    /// Sends a text and does all that can be done now. Returns the status of the response, or 0 if there is none yet.
    unsigned ask(wire& client, std::string_view request);
    /// Sends `GET /` on a new connection and returns the status.
    unsigned ask(std::string const& client = "10.0.0.1");

    /// Applies another configuration.
    void reload(std::string const& configuration);
    /// Starts the health checks.
    void check_health();

    [[nodiscard]] proxy::plan const& plan() const noexcept { return *plan_; }
    [[nodiscard]] proxy::worker& worker() noexcept { return worker_; }

private:
    [[nodiscard]] bool comes_to_rest();
    [[nodiscard]] std::shared_ptr<proxy::plan const> make(
        std::string configuration, std::shared_ptr<proxy::plan const> before) const;

    boost::asio::io_context context_{1};
    net::executor executor_ = context_.get_executor();
    std::shared_ptr<proxy::plan const> plan_;
    proxy::upstream_pool::all pools_;
    net::watchdog dog_{context_};
    net::listener listener_{context_, 1'000'000};
    proxy::worker worker_;
    std::optional<proxy::health_checks> health_;
    boost::asio::ip::address client_;
};

/// The status of a response; 0 if the text is not a response.
[[nodiscard]] unsigned status_of(std::string_view answer);
/// The value of the first header field with exactly that name; empty if there is none.
[[nodiscard]] std::string field_of(std::string_view head, std::string_view name);

/// A configuration that forwards all requests.
inline std::string const forwards = R"(
[[upstream]]
name = "a"
servers = ["UPSTREAM"]

[[route]]
upstream = "a"
)";
inline constexpr std::string_view get = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";

}  // namespace support
