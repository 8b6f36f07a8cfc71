#pragma once

#include <weir/detail/context_of.hpp>
#include <weir/mysql/store.hpp>
#include <weir/queue_options.hpp>
#include <weir/seats.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace weir::inline v0_2::mysql {

/// The value of a question mark in a statement.
using value = std::variant<std::nullptr_t, std::int64_t, double, std::string>;

/// A strict interval between inserted rows: at most one row in any time interval of length `every`.
///
///     weir::mysql::strict_interval rows{ctx, store, "events", 3s};
///     std::vector<weir::mysql::value> const what{"hello"};
///     co_await rows.insert_at_most("insert into events(at, what) values(sysdate(6), ?)", what, 1s);
///
/// The bound holds over all processes that use the name, and for the times in the table itself, even if anything is
/// delayed, lost or killed.
///
/// A permit of an `interval` may be used late, so two rows inserted under permits can be closer together than the
/// permits were. Here the row and the grant are one transaction: it locks the row of the limiter, executes the
/// statement, and then records the limiter's time. So any time that the statement takes from the server, by `now(6)`,
/// `sysdate(6)` or a default, lies between the lock and the recorded time, and two such times are at least `every`
/// apart. A process that dies before the commit leaves nothing in the table.
///
/// Turns: a request first books a turn, in a bucket with the name of the limiter and `:turns`, and begins its
/// transaction when the turn comes. So waiting processes do not compete for the row. The turns are `every` and 2 ms
/// apart. They only decide when a process begins. A process that dies before its commit loses its turn, which delays
/// the next row by at most the same time.
///
/// Cost: six to eight statements per row, for any number of processes. The transaction takes five round trips, during
/// which no other process can insert. So the rate is also bounded by the duration of a transaction. A process that is
/// stopped during a transaction blocks all others until the server ends the transaction: MariaDB after 5 s, MySQL after
/// its `wait_timeout`.
///
/// Failures: whatever fails before the commit, other than the statement itself, is tried again in another turn while
/// the patience lasts, because nothing was inserted. A misconfigured store is an error at once.
///
/// Setup: the table is the table of the store. No other kind of limiter may use the name, and all processes must use
/// the same `every`. Any isolation level works. If the clock of the server is set back, no request waits longer than
/// `every`.
///
/// Session: the time zone is UTC: `now()` or a default stores UTC in a `datetime`, whatever the zone of the server.
/// `sql_mode` is the server's, but without ORACLE and EMPTY_STRING_IS_NULL.
///
/// Threads and lifetime: as `basic_limiter`; it must exist until its operations have ended.
class strict_interval {
public:
    /// Makes an interval of one row per `every`, 1 us to ten years. Throws `std::invalid_argument` if `every` or the
    /// name, 1 to 249 bytes, is invalid.
    strict_interval(boost::asio::any_io_executor ex, std::shared_ptr<store> e, std::string name,
                    duration every, queue_options const& queueing = {});
    /// Makes an interval on the executor of `context`. Throws as the other constructor.
    template <weir::detail::context_of<boost::asio::any_io_executor> Context>
    strict_interval(Context& context, std::shared_ptr<store> e, std::string name, duration every,
                    queue_options const& queueing = {})
        : strict_interval(boost::asio::any_io_executor(context.get_executor()), std::move(e),
                          std::move(name), every, queueing) {}

    /// Waits until it may insert, and executes `sql` in the transaction of the grant. Within this process requests are
    /// served in arrival order.
    ///
    /// `sql` must be one statement, and must not end the transaction; each question mark stands for one of `values`.
    ///
    /// Throws `rejection`, as `basic_limiter::enter` does, if the grant time would come too late or came too late, or
    /// if the patience ends during the transaction: then nothing was inserted. Throws `boost::system::system_error`
    /// with the error of the server if `sql` fails, which then delays no other request, and if the server is
    /// unavailable.
    ///
    /// The row may have been inserted nevertheless if the patience ends or the connection breaks during the commit,
    /// which the text of the error states, and if the operation is cancelled (`terminal`), which ends it at once.
    [[nodiscard]] boost::asio::awaitable<void> insert_at_most(
        std::string sql, std::vector<value> values, patience wait = {});
    /// Waits until it may insert, and executes `sql`, a statement without question marks, in the transaction of the grant.
    [[nodiscard]] boost::asio::awaitable<void> insert_at_most(std::string sql, patience wait = {}) {
        return insert_at_most(std::move(sql), {}, wait);
    }

    /// Returns the counts of the requests in this process: a permit is one transaction.
    [[nodiscard]] limiter_stats stats() const { return line_.stats(); }
    /// Returns `stats()` and the wait times since construction, both of the same instant.
    [[nodiscard]] weir::snapshot<limiter_stats> snapshot() const { return line_.snapshot(); }

private:
    std::shared_ptr<detail::database> database_;
    std::string name_;
    duration every_;
    weir::seats line_;  // one transaction at a time
};

}  // namespace weir::inline v0_2::mysql
