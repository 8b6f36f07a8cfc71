#pragma once

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

namespace weir::mysql {

/// What a question mark of a statement stands for.
using value = std::variant<std::nullptr_t, std::int64_t, double, std::string>;

/// At most one row in any stretch of time so long, strictly: over all processes that use the name, as the table itself
/// shows it, whatever is delayed, lost or killed.
///
///     weir::mysql::strict_interval rows{ctx, store, "events", 3s};
///     std::vector<weir::mysql::value> const what{"hello"};
///     co_await rows.insert_at_most("insert into events(at, what) values(sysdate(6), ?)", what, 1s);
///
/// A permit of an `interval` may be used late, so that two rows that were inserted under permits can be closer to each
/// other than the permits were. Here the row and the grant are one transaction: the row of the limiter is locked, the
/// statement is executed, and the limiter's time is stamped after it. So whatever time the statement takes from the
/// server, by `now(6)`, `sysdate(6)` or a default, lies between the lock and the stamp, and two such times are at
/// least `every` apart. A process that dies before the commit leaves nothing behind.
///
/// It costs five round trips, and while it lasts nobody else gets in: so the rate is also bounded by how long a
/// transaction takes. A process that is stopped in the middle of one holds up all others until the server ends
/// its transaction: MariaDB after 5 s, MySQL after its `wait_timeout`.
///
/// The table is that of the store; a name that is used here must not be used by another kind of limiter, and all who
/// use it must state the same time. Any isolation level will do. If the clock of the server is set back, nobody waits
/// for longer than `every`.
///
/// The time zone of the session is UTC: what `now()` or a default puts into a `datetime` is that, whatever zone the server
/// has. `sql_mode` is that of the server, but without ORACLE and EMPTY_STRING_IS_NULL.
///
/// Threads and lifetime: as `basic_limiter`; it must exist until what it has started is over.
class strict_interval {
public:
    /// One per `every`, 1 us to ten years. Throws `std::invalid_argument` if that, or the name, is nonsense.
    strict_interval(boost::asio::any_io_executor ex, std::shared_ptr<store> e, std::string name,
                    duration every, queue_options const& queueing = {});
    template <class Context>
        requires std::convertible_to<Context&, boost::asio::execution_context&>
    strict_interval(Context& context, std::shared_ptr<store> e, std::string name, duration every,
                    queue_options const& queueing = {})
        : strict_interval(boost::asio::any_io_executor(context.get_executor()), std::move(e),
                          std::move(name), every, queueing) {}

    /// Waits for its turn, first come, first served within this process, and executes `sql` in the same
    /// transaction. It must be one statement, and must not end the transaction; each question mark stands for one of
    /// `values`.
    ///
    /// Throws `rejection`, as `basic_limiter::enter` does, if its turn would come or has come too late, or the patience ends
    /// in the middle of it: then nothing was inserted. Throws `boost::system::system_error` with what the server says if
    /// `sql` fails, and then nobody has to wait on account of it; and if the server cannot be asked. If the patience ends
    /// or the connection breaks during the commit, which the text of the error says, the row may have been inserted all
    /// the same. So it is if it is cancelled (`terminal`), which ends it at once.
    [[nodiscard]] boost::asio::awaitable<void> insert_at_most(
        std::string sql, std::vector<value> values, patience wait = {});
    [[nodiscard]] boost::asio::awaitable<void> insert_at_most(std::string sql, patience wait = {}) {
        return insert_at_most(std::move(sql), {}, wait);
    }

    /// What becomes of the requests here: a permit is a turn.
    [[nodiscard]] limiter_stats stats() const { return line_.stats(); }
    [[nodiscard]] weir::snapshot<limiter_stats> snapshot() const { return line_.snapshot(); }

private:
    std::shared_ptr<detail::database> database_;
    std::string name_;
    duration every_;
    weir::seats line_;  // one transaction at a time
};

}  // namespace weir::mysql
