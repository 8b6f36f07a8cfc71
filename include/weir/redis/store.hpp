#pragma once

#include <weir/policy/backoff.hpp>
#include <weir/redis/error.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/seats.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/execution_context.hpp>

#include <chrono>
#include <concepts>
#include <memory>
#include <string>

/// Limiters that processes share by a Redis server: Redis from 7.0 on. It is a library of its own, `weir::redis`, and
/// needs hiredis.
namespace weir::redis {

namespace detail {
class client;
}

/// Where the server is, and how long it is waited for.
struct options {
    /// `redis://user:password@host:port/database`, of which all but the host may be left out; or a local socket:
    /// `unix:/path`, or `unix://user:password@/path?db=database`. The port is 6379 and the database 0. What is special in
    /// a URL is written with %, such as %40 for @.
    std::string url = "redis://127.0.0.1";

    /// How long it may take to connect and to log in, at least 1 ns. The addresses of a host share the time.
    duration connect_within = std::chrono::seconds(1);
    /// A server that owes an answer for so long is given up, and connected to anew; at least 1 ns. Long before, as soon
    /// as the timeout of a question has passed, no more questions are sent to it.
    duration silent_for = std::chrono::seconds(3);

    /// How long to wait after a failed attempt to connect before the next one. Nothing is tried while nobody asks. An
    /// attempt has failed, too, if the server is a replica, or the connection ends before the first answer to a question.
    backoff_options retry = {
        .initial = std::chrono::milliseconds(10), .max = std::chrono::seconds(1)};
};

/// A store on a Redis server. A question is one script and one round trip; the time is that of the server, to the
/// microsecond. All questions share one connection, which is made when it is needed, and those that come together leave
/// in one write. Scripts are loaded as it is made, and sent again to a server that has forgotten them.
///
/// A limiter `name` is one key, `{weir:name}`, which expires when it can no longer matter. A sliding log is
/// `{weir:name}:log`: it has 8 bytes for each permit of its limit, and is written whole by each grant.
/// Seats are the key `{weir:name}:seats`, of some 90 bytes of text for each process that holds seats, which is there for a
/// day and a lease after the last question.
///
/// The user of the server needs the keys `{weir:*` and the commands `eval`, `time`, `get` and `set`; `select`, if the URL
/// names another database than 0; and `evalsha` with `script|load`. Without these two each question carries its script:
///
///     ACL SETUSER app on >password ~{weir:* -@all +eval +evalsha +script|load +time +get +set
///
/// What is sent may be granted after its timeout, by a server that was stopped: then it is given back, if its answer
/// comes before the server is given up. What had not been sent by its timeout is not sent any more.
///
/// Numbers of a script are exact up to 2^52. With the rate of a bucket in lowest terms as p permits in P microseconds,
/// `burst * P` must not be more than half of that: a limiter that is beyond it cannot be made. A million per second, or
/// a thousand per day with a burst of 20,000, is far below.
///
/// What the server loses is granted again: when it is restarted without its data, evicts keys (so let
/// `maxmemory-policy` be `noeviction`), or is replaced by a replica that had not received everything.
///
/// It talks to one server, and not to a cluster: what a server of one says of a key that another one has is
/// `errc::moved`, and `check` says which other one.
///
/// Make it with `std::make_shared`. It may be destroyed before its limiters; what is under way is finished. Threads: as
/// `weir::store`.
class store final : public weir::store {
public:
    /// Throws `std::invalid_argument` if the URL, or another option, is nonsense.
    explicit store(boost::asio::any_io_executor ex, options const& options = {});
    template <class Context>
        requires std::convertible_to<Context&, boost::asio::execution_context&>
    explicit store(Context& context, redis::options const& options = {})
        : store(boost::asio::any_io_executor(context.get_executor()), options) {}
    ~store() override;

    void async_take(std::string const& name, question const& q, answer_handler handler) override;
    void async_give_back(std::string const& name, give_back const& what) override;
    void validate(policy::shared_bucket const& b) const override;
    void async_hold(std::string const& name, seats_question const& q,
                    seats_handler handler) override;
    [[nodiscard]] bool keeps_seats() const noexcept override { return true; }

    /// Connects, unless it is connected, and has an empty script run for the limiter `name`. A replica and a server
    /// without memory reject that, and so does one of a cluster, of which another one has the key, and one whose user may
    /// not use it. Throws `boost::system::system_error`, with what the server says, if it cannot be asked; only what it
    /// says to a wrong password is left out. Nothing depends on it: it is there for a program that wants to know when it
    /// starts.
    [[nodiscard]] boost::asio::awaitable<void> check(std::string name = {});

private:
    std::shared_ptr<detail::client> client_;
};

/// At most one in any stretch of time so long, and a rate with bursts, over all processes that use the name.
using interval = shared_interval;
using token_bucket = shared_token_bucket;
/// At most so many in any stretch of a time.
using sliding_log = shared_sliding_log;
/// At most so many at a time.
using seats = shared_seats;

}  // namespace weir::redis
