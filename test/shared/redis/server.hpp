#pragma once

#include "shared/certificate.hpp"
#include "shared/server_process.hpp"
#include "support/reserved_port.hpp"
#include "support/temporary_folder.hpp"

#include <boost/test/tree/decorator.hpp>
#include <boost/test/tree/test_unit.hpp>
#include <boost/test/unit_test_suite.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace support {

/// A separate redis-server, in a temporary folder, which is deleted with it. It listens on a local socket, and on a
/// free port of 127.0.0.1. It saves nothing, unless an option enables it.
class redis_server {
public:
    explicit redis_server(std::vector<std::string> options = {});

    [[nodiscard]] static bool is_here();

    [[nodiscard]] std::string socket() const { return folder_ / "socket"; }
    [[nodiscard]] std::string url() const { return "unix:" + socket(); }
    [[nodiscard]] std::uint16_t port() const noexcept { return port_.number(); }

    /// Sends a signal: SIGKILL, SIGSTOP, SIGCONT.
    void send(int signal) const { process_.send(signal); }
    void wait_for_end() { process_.wait_for_end(); }
    /// After its end: starts it again, with more options, and waits until it is ready.
    void start(std::vector<std::string> const& more = {},
               std::string const& ready = "Ready to accept connections");
    void restart() {
        wait_for_end();
        start();
    }

private:
    temporary_folder folder_{"weir-redis-"};
    std::vector<std::string> options_;
    reserved_port port_;
    server_process process_;
};

/// A Sentinel, on a free port of 127.0.0.1. It replaces a primary that was silent for 500 ms, with the consent of one
/// more Sentinel.
class redis_sentinel {
public:
    /// Starts it, for a primary on a port of 127.0.0.1, under this name.
    redis_sentinel(std::string const& name, std::uint16_t primary);

    [[nodiscard]] std::string socket() const { return folder_ / "socket"; }
    [[nodiscard]] std::string place() const {
        return "127.0.0.1:" + std::to_string(port_.number());
    }
    void send(int signal) const { process_.send(signal); }
    void wait_for_end() { process_.wait_for_end(); }

private:
    temporary_folder folder_{"weir-sentinel-"};
    reserved_port port_;
    server_process process_;
};

/// A Redis Cluster of primaries, each with an equal share of the slots, and of their replicas. A primary that was silent
/// for 500 ms is replaced by its replica.
class redis_cluster {
public:
    /// Starts `primaries` servers, and one replica for each of the first `replicas` of them, and waits until all nodes
    /// agree. At least three primaries, because most of them must agree on a replacement.
    explicit redis_cluster(int primaries, int replicas = 0)
        : redis_cluster(primaries, replicas, nullptr) {}
    /// Starts nodes that also listen at a port with TLS, and redirect to such ports.
    redis_cluster(int primaries, int replicas, certificate const& of_nodes)
        : redis_cluster(primaries, replicas, &of_nodes) {}

    /// Returns a node: the primaries come first.
    [[nodiscard]] redis_server& node(std::size_t i) { return nodes_.at(i).server; }
    [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
    [[nodiscard]] std::string const& id(std::size_t i) const { return nodes_.at(i).id; }
    [[nodiscard]] std::uint16_t tls_port(std::size_t i) const { return nodes_.at(i).tls.number(); }
    /// Returns the number of the primary that had the slot of a key at first.
    [[nodiscard]] std::size_t owner_of(std::string const& key);
    /// Removes a primary from the cluster, without its keys. It runs on, alone.
    void remove(std::size_t i);
    /// Waits until each node reports a cluster of `nodes` nodes that works.
    void wait_until_ok(std::size_t nodes);

private:
    struct one_node {
        reserved_port bus;
        reserved_port tls;
        redis_server server;
        std::string id;
        explicit one_node(certificate const* own);
    };
    redis_cluster(int primaries, int replicas, certificate const* of_nodes);

    std::size_t primaries_;
    std::deque<one_node> nodes_;
    std::set<std::size_t> removed_;
};

/// A precondition for tests that need it.
[[nodiscard]] boost::test_tools::assertion_result if_redis_is_here(boost::unit_test::test_unit_id);

/// A precondition for tests that also need certificates for it.
[[nodiscard]] boost::test_tools::assertion_result if_redis_has_tls(boost::unit_test::test_unit_id);

/// Options of a server that also listens at a port with TLS. Clients need no certificate.
[[nodiscard]] std::vector<std::string> tls_options(certificate const& of_server,
                                                   std::uint16_t port);

/// An error reply of the server.
struct redis_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Waits until `met()`: for a minute at most, and then throws `redis_error`.
template <class Condition>
void wait_until(char const* what, Condition met) {
    auto const end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!met()) {
        if (std::chrono::steady_clock::now() >= end)
            throw redis_error(std::string("after a minute not yet: ") + what);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

/// A session at a server, for the commands of a test itself. It blocks until the reply.
class redis_session {
public:
    explicit redis_session(redis_server const& server) : redis_session(server.socket()) {}
    explicit redis_session(redis_sentinel const& sentinel) : redis_session(sentinel.socket()) {}
    redis_session(redis_session&&) noexcept;
    redis_session& operator=(redis_session&&) = delete;
    ~redis_session();

    /// Returns the reply: a text, or a number or a list of them as text, separated by spaces; nothing is `(nil)`.
    /// Throws `redis_error`.
    std::string say(std::vector<std::string> const& words);
    std::vector<std::int64_t> numbers(std::vector<std::string> const& words);

private:
    explicit redis_session(std::string const& socket);

    struct body;
    std::unique_ptr<body> body_;
};

}  // namespace support
