#pragma once

#include <weir/amount.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/seats.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/execution_context.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>

/// Limiters that processes share by a MySQL or MariaDB server: MariaDB from 10.5 on, MySQL from 8.0 on. It is a library
/// of its own, `weir::mysql`, and needs OpenSSL.
namespace weir::mysql {

namespace detail {
class database;
}
class strict_interval;

enum class tls : std::uint8_t {
    never,
    if_offered,  ///< if the server offers it and is not at a local socket; nothing is asked of its certificate
    required,  ///< nothing is asked of its certificate, either
};

/// Where the server is, and who asks.
struct options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 3306;
    /// The path of a local socket, instead of host and port.
    std::string socket = {};

    std::string user = {};
    std::string password = {};
    std::string database = {};

    mysql::tls tls = tls::if_offered;
    /// If it is given, TLS is required, at a local socket as well, and the certificate of the server must be of one of
    /// the authorities in this file, and for `host`.
    std::string authorities = {};

    /// The most connections at a time, 1 to 10,000. A limiter uses one at a time.
    amount connections = 8;
    /// How long it may take to make one, at least 1 ns. The addresses of a host share the time.
    duration connect_within = std::chrono::seconds(5);
};

/// A store on a table of a database. A question is one statement, which is one transaction, and one round trip, with
/// any isolation level; the time is that of the server, to the microsecond. Statements are
/// prepared, and connections are made when they are needed.
///
/// There are three tables, with a row for each limiter, which is made when it is first asked for: `install()`
/// makes them, or whoever may:
///
///     create table weir_bucket(k varbinary(255) primary key, at bigint not null, level bigint not null,
///                              permit bigint not null) engine=innodb
///     create table weir_log(k varbinary(255) primary key, at bigint not null, ahead bigint not null,
///                           grants blob not null) engine=innodb
///     create table weir_seats(k varbinary(255) primary key, version bigint not null,
///                             state mediumblob not null) engine=innodb
///
/// The user of the database needs to select, insert and update there. A row that is older than the bucket takes to
/// drain, or than the window of the log, may be deleted at any time: `at` is in microseconds since 1970. A row of a log
/// has 8 bytes for each permit of the limit, and is written whole by each grant.
///
/// Seats are read and, if nobody has written them meanwhile, written: two round trips, one where nothing changes, and
/// no lock between them, so that a process that stands still bars nobody. The row has some 90 bytes of text for each process
/// that holds seats. Its loss lets all leases end at once.
///
/// What the server cannot grant within the timeout of the limiter is not granted at all: MariaDB ends the
/// statement then, and the wait for a row lock. MySQL does not; there what is granted later counts as used.
///
/// A server that runs with `--sysdate-is-now` is rejected, since it knows only when a statement began.
///
/// Binary logs must be of rows, or mixed. What an asynchronous replica has not received is granted again if it becomes
/// the master.
///
/// Permits of a log that are given back after the clock of the server was set back by more than half an hour count as
/// used. A step of the clock by more than half an hour is counted, but perhaps as one in the other direction.
///
/// Make it with `std::make_shared`. It may be destroyed before its limiters. Threads: as `weir::store`.
class store final : public weir::store {
public:
    /// Throws `std::invalid_argument` that names the option, its value and the bound, if one is nonsense, and
    /// `boost::system::system_error` if `authorities` cannot be read.
    explicit store(boost::asio::any_io_executor ex, options const& options = {});
    template <class Context>
        requires std::convertible_to<Context&, boost::asio::execution_context&>
    explicit store(Context& context, mysql::options const& options = {})
        : store(boost::asio::any_io_executor(context.get_executor()), options) {}
    ~store() override;

    void async_take(std::string const& name, question const& q, answer_handler handler) override;
    void async_give_back(std::string const& name, give_back const& what) override;
    void validate(policy::shared_bucket const&) const override {}
    void async_hold(std::string const& name, seats_question const& q,
                    seats_handler handler) override;
    [[nodiscard]] bool keeps_seats() const noexcept override { return true; }

    /// Makes the tables that there are not, on a connection of its own; if there are all, the user need not be allowed
    /// to make them. Throws `boost::system::system_error`, with what the server says.
    [[nodiscard]] boost::asio::awaitable<void> install();

private:
    friend class strict_interval;

    std::shared_ptr<detail::database> database_;
};

/// At most one in any stretch of time so long, and a rate with bursts, over all processes that use the name.
using interval = shared_interval;
using token_bucket = shared_token_bucket;
/// At most so many in any stretch of a time.
using sliding_log = shared_sliding_log;
/// At most so many at a time.
using seats = shared_seats;

}  // namespace weir::mysql
