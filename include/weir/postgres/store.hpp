#pragma once

#include <weir/amount.hpp>
#include <weir/detail/context_of.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/postgres/error.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/seats.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <memory>
#include <string>

/// Limiters that processes share through a PostgreSQL server, PostgreSQL 12 or later. It is a separate library,
/// `weir::postgres`, and needs libpq.
namespace weir::inline v0_2::postgres {

namespace detail {
class database;
}

/// The address of the server, and the connections.
struct options {
    /// The server, the user and the database, as libpq takes them: a URI, such as
    /// `postgresql://user:password@host:5432/database?sslmode=verify-full`, or keywords and values, such as
    /// `host=db user=app dbname=shop`. Other parameters come from the environment of libpq, such as `PGHOST`,
    /// `PGPASSWORD` and `PGPASSFILE`. `service` is not supported.
    ///
    /// With several hosts, separated by commas, a connection uses the first one that accepts changes: the default of
    /// `target_session_attrs` is `read-write`. The addresses of all hosts share `connect_timeout`; that of libpq is
    /// ignored.
    ///
    /// TLS: for a host that is not local the default of `sslmode` is `verify-full`. Local are sockets, `localhost`,
    /// `127.0.0.0/8` and `::1`; there the default is `prefer`. Without `sslrootcert`, `verify-full` trusts the
    /// authorities of the system. A default of this store yields to the environment of libpq.
    std::string url = "postgresql://";

    /// The maximum number of connections, 1 to 10,000. Each limiter uses one at a time.
    amount max_connections = 8;
    /// The time limit for connecting, at least 1 ns.
    duration connect_timeout = std::chrono::seconds(5);

    /// The pause after a failed attempt to connect before the next one. The store does not try to connect without a
    /// question.
    backoff_options retry = {
        .initial = std::chrono::milliseconds(10), .max = std::chrono::milliseconds(500)};

    /// Whether the server saves the grants of rates, as it is configured, before it replies. Otherwise their
    /// transactions use `synchronous_commit = off`: a hot limiter is several times as fast, but a server that crashes
    /// grants the permits of its last moments again. They are at most the grants of three times its `wal_writer_delay`,
    /// 0.6 s by default. Seats are always saved first.
    bool durable = false;
};

/// A store on tables of a PostgreSQL database.
///
/// Each question is one statement, which is one transaction, and one round trip; the time is the server's clock, to the
/// microsecond. The statement locks the row of the limiter before it reads the clock, so no two questions get the same
/// permits. A question that the last saved row already denies locks and writes nothing. Statements are prepared, and
/// connections are opened on demand; nothing blocks the thread.
///
/// Tables: there are three tables, with a row per limiter, which the first question inserts. `install()` creates them,
/// or a user with the right to do so:
///
///     create table weir_bucket(k bytea primary key, at bigint not null, level bigint not null, permit bigint not null,
///                              granted bigint not null, wait bigint not null, asked bigint not null,
///                              is_new boolean not null) with (fillfactor = 50)
///     create table weir_log(k bytea primary key, at bigint not null, ahead bigint not null, grants bigint[] not null,
///                           granted bigint not null, wait bigint not null, asked bigint not null,
///                           is_new boolean not null) with (fillfactor = 50)
///     create table weir_seats(k bytea primary key, version bigint not null, state text not null)
///                             with (fillfactor = 50)
///
/// The database user needs select, insert and update on them. They are found by the `search_path` of the user. A row
/// may be deleted at any time if it is older than the bucket takes to drain, or than the window of the log: `at` is in
/// microseconds since 1970. A row of a log has 8 bytes per permit of the limit, and each grant writes it as a whole.
/// The last four columns are the last reply.
///
/// Seats: the row is read and then written, if no other process has written it meanwhile: two round trips, or one if
/// nothing changes. There is no lock between them, so a suspended process blocks no other. A process that waits polls:
/// as long as nothing changes, that only reads the row. If the row is lost, all leases end at once.
///
/// Timeouts: the server grants nothing after the timeout of the limiter, to the millisecond: it ends the statement
/// then, and the wait for a row lock.
///
/// Loss of data: after a failover to an asynchronous replica, the grants that it had not received are granted again; so
/// are, unless `options::durable` is set, the last grants before a crash. A limiter counts a row that was deleted too
/// early in `shared_stats::losses`.
///
/// Poolers: a pooler between the store and the server must keep a session for a connection; PgBouncer's mode
/// `transaction` does not.
///
/// Clock: if the clock of the server is set back, permits that are given back before it has reached its old time count
/// as used.
///
/// Lifetime: create it with `std::make_shared`. It may be destroyed before its limiters.
///
/// Threads: as `weir::store`.
class store final : public weir::store {
public:
    /// Makes a store. Throws `std::invalid_argument` if an option is invalid; its text names the option and the reason,
    /// and never contains a password.
    explicit store(boost::asio::any_io_executor ex, options const& options = {});
    /// Makes a store on the executor of `context`. Throws as the other constructor.
    template <weir::detail::context_of<boost::asio::any_io_executor> Context>
    explicit store(Context& context, postgres::options const& options = {})
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

    /// Checks, on a separate connection, that the server is supported, that the tables have their columns, that the
    /// user may read and write them, and that the row of the seats `name` holds seats. It changes nothing.
    ///
    /// Nothing requires this call; it serves programs that want to find errors at their start.
    ///
    /// @throws boost::system::system_error with the message of the server and with its address
    [[nodiscard]] boost::asio::awaitable<void> check(std::string name = {});

private:
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

}  // namespace weir::inline v0_2::postgres
