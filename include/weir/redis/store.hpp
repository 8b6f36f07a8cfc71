#pragma once

#include <weir/detail/context_of.hpp>
#include <weir/policy/backoff.hpp>
#include <weir/redis/error.hpp>
#include <weir/shared/limiter.hpp>
#include <weir/shared/seats.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <memory>
#include <string>

/// Limiters that processes share through a Redis server, Redis 7.0 or later. It is a separate library, `weir::redis`,
/// and needs OpenSSL.
namespace weir::inline v0_2::redis {

namespace detail {
class cluster;
class subscription;
}  // namespace detail

/// The address of the server, and time limits.
struct options {
    /// The URL of the server: `redis://user:password@host:port/database`, where all but the host is optional; or a
    /// local socket: `unix:/path`, or `unix://user:password@/path?db=database`. The default port is 6379, the default
    /// database 0. Special characters in a URL are percent-encoded, such as %40 for @.
    ///
    /// Several servers, such as a primary and its replicas, are divided by commas: `redis://user:password@a,b:6380/1`.
    /// They share the login and the database. The store uses one of them at a time, and tries the next one if it cannot
    /// connect, if the server is a replica, or if it is silent for `silent_for`.
    ///
    /// `rediss://` encrypts all connections with TLS 1.2 or later. The certificate of the server must be for the host of
    /// the URL, and from an authority of the system. Parameters after `?`, joined by `&`, change that.
    /// - `authorities=FILE`: a PEM file of authorities, which replace the authorities of the system.
    /// - `certificate=FILE&key=FILE`: the certificate of this client and its key without a password, in PEM files.
    /// - `insecure`: does not check the certificate, so an attacker can read and change everything.
    ///
    /// The constructor of the store reads these files.
    ///
    /// `redis+sentinel://user:password@a,b:26380/name/database` names Sentinels, by default at port 26379, and the name
    /// under which they know the primary. Before each connection the store asks one of them for its address, and the next
    /// one if that fails. The login and the database apply to the primary. The Sentinels get no login, unless the
    /// parameters `sentinel_password=TEXT` and `sentinel_user=TEXT` name one. `rediss+sentinel://` encrypts the
    /// connections to the Sentinels and to the primary, with the same parameters. The certificate of the primary must be
    /// for the host that the Sentinels report.
    std::string url = "redis://127.0.0.1";

    /// The time limit for connecting to a server and logging in, at least 1 ns. The addresses of a host share it, and so
    /// do a Sentinel and the primary that it reports.
    duration connect_timeout = std::chrono::seconds(1);
    /// The time without a due reply after which the store closes the connection and opens a new one; at least 1 ns.
    /// Much earlier, as soon as the timeout of a question has passed, the store sends no more questions to the server.
    duration silent_for = std::chrono::seconds(3);

    /// The pause after a failed attempt to connect before the next one. The store does not try to connect without a
    /// question. An attempt also counts as failed if the server is a replica, or if the connection ends before the
    /// first reply to a question. Each of several servers is tried once before a pause, and so are the learned nodes of
    /// a cluster.
    backoff_options retry = {
        .initial = std::chrono::milliseconds(10), .max = std::chrono::milliseconds(500)};
};

/// A store on a Redis server.
///
/// Each question is one script and one round trip; the time is the server's clock, to the microsecond. All questions
/// share one connection, which is opened on demand, and questions that come together are sent in one write. Scripts are
/// loaded when the connection is opened, and sent again to a server that has lost them.
///
/// Keys: a limiter `name` is one key, `{weir:name}`, which expires when it can no longer matter. A sliding log is
/// `{weir:name}:log`: it has 8 bytes per permit of its limit, and each grant writes it as a whole. Seats are the key
/// `{weir:name}:seats`, of about 120 bytes of text per process that holds seats or waits for them; it expires a day and
/// a lease after the last question.
///
/// Messages: while the server keeps seats, or a place in the line, for a process, its store has a second connection,
/// which is subscribed to the channel `weir:` and 16 hexadecimal digits. The script publishes there to the next process
/// in the line. If the server has sent nothing for `silent_for`, the store subscribes again, so it notices a connection
/// that is dead without a word. Without this connection the processes poll.
///
/// Permissions: the user needs the keys `{weir:*` and the commands `eval`, `time`, `get` and `set`; `select`, if the
/// URL names another database than 0; `evalsha` with `script|load`, without which each question carries its script; and
/// `publish` and `subscribe` with the channels `weir:*`, without which the processes that share seats poll:
///
///     ACL SETUSER app on >password ~{weir:* &weir:* -@all +eval +evalsha +script|load +time +get +set +publish
///         +subscribe
///
/// With Sentinels also `role`, without which a replica that accepts changes (`replica-read-only no`) is not detected.
///
/// Timeouts: a server that was stopped may grant a question after its timeout. The permits are then given back, if the
/// reply comes before the store closes the connection. The store does not send a question after its timeout.
///
/// Bounds: numbers of a script are exact up to 2^52. For the rate of a bucket in lowest terms, p permits in P
/// microseconds, `burst * P` must be at most half of that; otherwise the constructor of the limiter throws. A million
/// per second, or a thousand per day with a burst of 20,000, is far below.
///
/// Data loss: if the server loses data, it grants the permits again: after a restart without its data, after an
/// eviction of keys (set `maxmemory-policy` to `noeviction`), or after a failover to a replica that had not received
/// everything. Another program, such as Sentinel, makes a replica the primary; the store only finds it.
/// `shared_stats::losses` counts the losses of a key that a limiter still needed. If the replica had an older state of
/// the key, the grants that it lacks are granted again, and nothing counts them. After a failover the former primary may
/// run on behind a broken network, and grant to the processes there. The options `min-replicas-to-write` and
/// `min-replicas-max-lag` of Redis end that after the lag.
///
/// Cluster: the servers of the URL may be any nodes of a Redis Cluster. The store learns from their redirections which
/// node has which keys, and has a connection to each node that it needs. A redirection costs a question one more round
/// trip. If a node fails or leaves the cluster, the store asks another one, of the URL or of the 16 that it learned
/// last. All nodes have the login and the TLS options of the URL; the certificate of a node must be for the host by
/// which the others redirect to it. The user also needs the command `asking`. The database is 0. A limiter has one key,
/// so one node has all its load; a `shared_keyed` is spread over all nodes. After a failover, or when a slot moves, the
/// clock of another node applies, so the clocks of the nodes should be synchronised.
///
/// Lifetime: create it with `std::make_shared`. It may be destroyed before its limiters; operations in progress are
/// finished.
///
/// Threads: as `weir::store`. The store calls `execute` of its executor under its lock, by the rules of `basic_limiter`.
class store final : public weir::store {
public:
    /// Makes a store. Throws `std::invalid_argument` if the URL or another option is invalid, or if a file that the URL
    /// names cannot be read.
    explicit store(boost::asio::any_io_executor ex, options const& options = {});
    /// Makes a store on the executor of `context`. Throws as the other constructor.
    template <weir::detail::context_of<boost::asio::any_io_executor> Context>
    explicit store(Context& context, redis::options const& options = {})
        : store(boost::asio::any_io_executor(context.get_executor()), options) {}
    ~store() override;

    /// Grants permits; see `weir::store::async_take`.
    void async_take(std::string const& name, question const& q, answer_handler handler) override;
    /// Takes back unused permits; see `weir::store::async_give_back`.
    void async_give_back(std::string const& name, give_back const& what) override;
    /// Checks that the numbers of a script can represent the bucket; see `weir::store::validate`.
    void validate(policy::shared_bucket const& b) const override;
    /// Sets the number of seats of a holder; see `weir::store::async_hold`.
    void async_hold(std::string const& name, seats_question const& q,
                    seats_handler handler) override;
    /// Passes the messages for a holder to `to`; see `weir::store::listen`.
    void listen(policy::fed_seats::holder_id const& holder,
                std::weak_ptr<seats_listener> to) override;
    /// Returns true: the store supports seats.
    [[nodiscard]] bool keeps_seats() const noexcept override { return true; }

    /// Connects, unless connected, and runs a script for the limiter `name` that changes nothing.
    ///
    /// In a cluster it runs at the node of this name. The script fails on a replica, on a server without memory, for a
    /// user without permission for the key, and if one of the three keys of the name holds something else, which it
    /// cannot see while the slot of the name moves. It also fails, with `errc::evicts`, if the server has a `maxmemory`
    /// and a `maxmemory-policy` other than `noeviction`, and the user has permission for `info`. Nothing requires this
    /// call; it serves programs that want to find errors at their start.
    ///
    /// @throws boost::system::system_error if the server is unavailable; the text is the server's own, except for a
    /// wrong password
    [[nodiscard]] boost::asio::awaitable<void> check(std::string name = {});

private:
    std::shared_ptr<detail::cluster> nodes_;
    std::shared_ptr<detail::subscription> subscription_;
};

/// At most one permit in any time interval of a given length, over all processes that use the name.
using interval = shared_interval;
/// A limit of the average rate, with bursts, over all processes that use the name.
using token_bucket = shared_token_bucket;
/// A limit of permits in any time interval of its period, over all processes that use the name.
using sliding_log = shared_sliding_log;
/// A limit of permits in use, over all processes that use the name.
using seats = shared_seats;

}  // namespace weir::inline v0_2::redis
