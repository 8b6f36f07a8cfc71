#pragma once

#include "shared/certificate.hpp"
#include "shared/server_process.hpp"
#include "support/reserved_port.hpp"
#include "support/temporary_folder.hpp"

#include <boost/test/tree/decorator.hpp>
#include <boost/test/tree/test_unit.hpp>
#include <boost/test/unit_test_suite.hpp>

#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace support {

/// A separate PostgreSQL server, in a temporary folder, which is deleted with it. It listens on a local socket, and on
/// a free port of 127.0.0.1. The superuser is `postgres`, and the database `weir` is empty. Only the role `guest` needs
/// a password, at the port. The server refuses to run as root: then it runs as the system's user `postgres`.
class postgres_server {
public:
    explicit postgres_server(std::vector<std::string> options = {});
    ~postgres_server();

    [[nodiscard]] static bool is_here();

    /// Returns the path of the local socket.
    [[nodiscard]] std::string socket() const {
        return folder_ / (".s.PGSQL." + std::to_string(port())).c_str();
    }
    [[nodiscard]] std::uint16_t port() const noexcept { return port_.number(); }
    /// Returns a URL of the database `weir` at the local socket.
    [[nodiscard]] std::string url(std::string const& user) const;
    /// Returns a URL of the database `weir` at the port.
    [[nodiscard]] std::string url_over_tcp(std::string const& user,
                                           std::string const& more = {}) const;

    /// Sends a signal to all processes of the server: SIGSTOP or SIGCONT. SIGKILL becomes an immediate shutdown, which
    /// writes nothing either, but leaves no process of the server behind; it returns after the end.
    void send(int signal) const;
    /// After SIGKILL: waits for its end, and starts it again with its old data.
    void restart();

private:
    void start();
    // Returns a command line of the server, as the user who may run it.
    [[nodiscard]] static std::vector<std::string> command(char const* program);

    temporary_folder folder_{"weir-postgres-"};
    std::vector<std::string> options_;
    reserved_port port_;
    server_process process_;
};

/// A precondition for tests that need it.
[[nodiscard]] boost::test_tools::assertion_result if_postgres_is_here(
    boost::unit_test::test_unit_id);

/// Returns options of a server with this certificate.
[[nodiscard]] std::vector<std::string> postgres_tls_options(certificate const& of_server);

/// Returns the URL of the database `weir` at a local socket with any name.
[[nodiscard]] std::string postgres_url_of(std::string const& socket, std::string const& user);

/// An error reply of the server, with its SQLSTATE.
class postgres_error : public std::runtime_error {
public:
    postgres_error(std::string state, std::string const& text)
        : std::runtime_error(text), state_(std::move(state)) {}
    [[nodiscard]] std::string const& state() const noexcept { return state_; }

private:
    std::string state_;
};

/// A session at a server, for the statements of a test itself. It blocks until the reply.
class postgres_session {
public:
    using row = std::vector<std::string>;
    using value = std::variant<std::int64_t, std::string>;

    explicit postgres_session(postgres_server const& server, std::string const& user = "postgres",
                              std::string const& database = "weir");
    postgres_session(postgres_session&&) noexcept;
    postgres_session& operator=(postgres_session&&) = delete;
    ~postgres_session();

    /// Returns the rows; a null is `NULL`. Throws `postgres_error`.
    std::vector<row> query(std::string const& text);
    /// Executes one statement with `$1`, `$2`..., of the types bigint and bytea.
    std::vector<row> query(std::string const& text, std::vector<value> const& values);
    /// Returns the only value of the result.
    std::string value_of(std::string const& text);
    std::int64_t number(std::string const& text);

    /// Executes a statement on another thread, because it will have to wait for another session.
    [[nodiscard]] std::future<std::vector<row>> start(std::string text);

private:
    struct body;
    std::unique_ptr<body> body_;
};

/// Waits until that many sessions wait for a lock, as `s` sees it.
void wait_for_lock_waits(postgres_session& s, int how_many);

/// Ends all connections of a user.
void end_connections(postgres_session& s, std::string const& user);

/// Returns bytes as a literal of the type bytea.
[[nodiscard]] std::string bytea_of(std::string const& bytes);

}  // namespace support
