#pragma once

#include <weir/amount.hpp>
#include <weir/detail/context_of.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/seats.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

/// Limiters that processes share through a MySQL or MariaDB server: MariaDB 10.5 or later, MySQL 8.0 or later. It is a
/// separate library, `weir::mysql`, and needs OpenSSL.
namespace weir::inline v0_2::mysql {

namespace detail {
class database;
}
class strict_interval;

/// Whether connections use TLS.
enum class tls : std::uint8_t {
    never,  ///< connections are not encrypted
    if_offered,  ///< if the server offers it and is not at a local socket; the certificate is not checked
    required,  ///< always; the certificate is not checked
};

/// The address of the server, the user and the connections.
struct options {
    /// The name or the address of the server.
    std::string host = "127.0.0.1";
    /// The TCP port of the server.
    std::uint16_t port = 3306;
    /// The path of a local socket, instead of host and port.
    std::string socket = {};

    /// The name of the database user.
    std::string user = {};
    /// The password of the user; empty if the user needs none.
    std::string password = {};
    /// The database with the tables of the store.
    std::string database = {};

    /// Whether connections use TLS.
    mysql::tls tls = tls::if_offered;
    /// A file of certificate authorities. If it is set, TLS is required, also at a local socket, and the certificate of
    /// the server must be signed by one of them and valid for `host`.
    std::string authorities = {};

    /// The maximum number of connections, 1 to 10,000. Each limiter uses one at a time.
    amount max_connections = 8;
    /// The time limit for connecting, at least 1 ns. The addresses of a host share it.
    duration connect_timeout = std::chrono::seconds(5);

    /// The pause after a failed attempt to connect before the next one. The store does not try to connect without a
    /// question.
    backoff_options retry = {
        .initial = std::chrono::milliseconds(10), .max = std::chrono::milliseconds(500)};
};

/// A store on tables of a MySQL or MariaDB database.
///
/// Each question is one statement, which is one transaction, and one round trip, at any isolation level; the time is
/// the server's clock, to the microsecond. Statements are prepared, and connections are opened on demand.
///
/// Tables: there are three tables, with a row per limiter, which the first question inserts. `install()` creates them,
/// or a user with the right to do so:
///
///     create table weir_bucket(k varbinary(255) primary key, at bigint not null, level bigint not null,
///                              permit bigint not null) engine=innodb
///     create table weir_log(k varbinary(255) primary key, at bigint not null, ahead bigint not null,
///                           grants blob not null) engine=innodb
///     create table weir_seats(k varbinary(255) primary key, version bigint not null,
///                             state mediumblob not null) engine=innodb
///
/// The database user needs select, insert and update on them. A row may be deleted at any time if it is older than the
/// bucket takes to drain, or than the window of the log: `at` is in microseconds since 1970. A row of a log has 8 bytes
/// per permit of the limit, and each grant writes it as a whole.
///
/// Seats: the row is read and then written, if no other process has written it meanwhile: two round trips, or one if
/// nothing changes. There is no lock between them, so a suspended process blocks no other. The row has about 120
/// bytes of text per process that holds seats or waits for them. A process that waits polls: as long as nothing changes,
/// that only reads the row. If the row is lost, all leases end at once.
///
/// Timeouts: MariaDB grants nothing after the timeout of the limiter: it ends the statement then, and the wait for a
/// row lock. MySQL does not; there a later grant counts as used.
///
/// Server options: a server with `--sysdate-is-now` is rejected, because its clock shows only when a statement began.
/// Binary logs must be in row or mixed format.
///
/// Replication: after a failover to an asynchronous replica, the grants that it had not received are granted again.
///
/// Clock: if the clock of the server is set back by more than half an hour, permits of a log that are given back
/// afterwards count as used. A step by more than half an hour is counted, but perhaps in the wrong direction.
///
/// Lifetime: create it with `std::make_shared`. It may be destroyed before its limiters.
///
/// Threads: as `weir::store`.
class store final : public weir::store {
public:
    /// Makes a store. Throws `std::invalid_argument` if an option is invalid; its text names the option, its value and
    /// the bound. Throws `boost::system::system_error` if `authorities` cannot be read.
    explicit store(boost::asio::any_io_executor ex, options const& options = {});
    /// Makes a store on the executor of `context`. Throws as the other constructor.
    template <weir::detail::context_of<boost::asio::any_io_executor> Context>
    explicit store(Context& context, mysql::options const& options = {})
        : store(boost::asio::any_io_executor(context.get_executor()), options) {}
    ~store() override;

    /// Grants permits; see `weir::store::async_take`.
    void async_take(std::string const& name, question const& q, answer_handler handler) override;
    /// Takes back unused permits; see `weir::store::async_give_back`.
    void async_give_back(std::string const& name, give_back const& what) override;
    /// Accepts every bucket and log; see `weir::store::validate`.
    void validate(policy::shared_bucket const&) const override {}
    /// Sets the number of seats of a holder; see `weir::store::async_hold`.
    void async_hold(std::string const& name, seats_question const& q,
                    seats_handler handler) override;
    /// Returns true: the store supports seats.
    [[nodiscard]] bool keeps_seats() const noexcept override { return true; }

    /// Creates the missing tables, on a separate connection. If all exist, the user needs no right to create tables.
    /// Throws `boost::system::system_error` with the error of the server, also if a table lacks a column: then it was
    /// created by another version.
    [[nodiscard]] boost::asio::awaitable<void> install();

    /// Checks, on a separate connection, that the tables have their columns, that the user may read and write them, and
    /// that the row of the seats `name` holds seats. It changes nothing.
    ///
    /// Nothing requires this call; it serves programs that want to find errors at their start.
    ///
    /// @throws boost::system::system_error with the message of the server and with its address
    [[nodiscard]] boost::asio::awaitable<void> check(std::string name = {});

private:
    friend class strict_interval;

    std::shared_ptr<detail::database> database_;
};

/// At most one permit in any time interval of a given length, over all processes that use the name.
using interval = shared_interval;
/// A limit of the average rate, with bursts, over all processes that use the name.
using token_bucket = shared_token_bucket;
/// A limit of permits in any time interval of its period, over all processes that use the name.
using sliding_log = shared_sliding_log;
/// A limit of permits in use, over all processes that use the name.
using seats = shared_seats;

}  // namespace weir::inline v0_2::mysql
