#pragma once

#include <weir/amount.hpp>
#include <weir/policy/fed.hpp>
#include <weir/policy/limiter_config.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include "tool/network.hpp"
#include "tool/trouble.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// What weir-proxy is told to do, as values. `read` makes them of a file, and `write` a file of them.
///
/// Members have the names that they have in the file, and the defaults that hold there.
namespace config {

// ---- Addresses

/// `127.0.0.1:8080`, `[::1]:8080`, `name:8080`.
struct tcp_address {
    std::string host;
    std::uint16_t port = 0;

    friend bool operator==(tcp_address const&, tcp_address const&) = default;
};
/// Of `host:port`.
[[nodiscard]] std::optional<tcp_address> tcp_address_of(std::string_view text);

/// `unix:/run/weir.sock`.
struct unix_address {
    std::string path;

    friend bool operator==(unix_address const&, unix_address const&) = default;
};

/// `systemd:NAME`: the sockets that the service manager has opened under that name.
struct inherited_sockets {
    std::string name;

    friend bool operator==(inherited_sockets const&, inherited_sockets const&) = default;
};

using listen_address = std::variant<tcp_address, unix_address, inherited_sockets>;
using server_address = std::variant<tcp_address, unix_address>;

[[nodiscard]] std::string to_string(listen_address const& a);
[[nodiscard]] std::string to_string(server_address const& a);

// ---- Where requests come from

struct listener {
    listen_address address;
    bool proxy_protocol = false;  // each connection begins with it, in version 1 or 2

    friend bool operator==(listener const&, listener const&) = default;
};

/// Which field of a request names its client, if the peer is trusted.
enum class forwarded_by : std::uint8_t { x_forwarded_for, forwarded };
/// `x-forwarded-for`, `forwarded`.
[[nodiscard]] std::string to_string(forwarded_by field);
[[nodiscard]] std::optional<forwarded_by> forwarded_by_of(std::string_view text);

struct clients_options {
    std::vector<tool::network> trusted;  // whose word on the client is believed
    config::forwarded_by forwarded_by = config::forwarded_by::x_forwarded_for;
    std::optional<std::int64_t> connections;  // of all of them; as many as there are files
    bool abort_on_hang_up = false;
    bool pass_underscores = false;

    friend bool operator==(clients_options const&, clients_options const&) = default;
};

// ---- Where requests go

struct server {
    server_address address;
    std::optional<weir::amount> seats;  // at most so many requests at a time
    // At most so many are open, used or kept; as many as there are files.
    std::optional<std::int64_t> connections;

    friend bool operator==(server const&, server const&) = default;
};

/// A server is out after `fall` failures in a row, and back after `rise` successes.
struct health_check {
    std::optional<std::string> path;  // asked with GET; otherwise a connection must be possible
    weir::duration every = std::chrono::seconds(5);
    weir::duration within = std::chrono::seconds(1);
    std::int64_t fall = 3;
    std::int64_t rise = 2;

    friend bool operator==(health_check const&, health_check const&) = default;
};

struct upstream {
    std::string name;
    std::vector<server> servers;
    std::optional<health_check> health;

    friend bool operator==(upstream const&, upstream const&) = default;
};

// ---- Limits

/// A server that keeps limits for several proxies.
struct store {
    std::string name;
    std::string url;  // it begins with one of `store_schemes`

    friend bool operator==(store const&, store const&) = default;
};
inline constexpr std::string_view store_schemes = "redis://, unix: and mysql://";
[[nodiscard]] bool is_store_url(std::string_view text) noexcept;

/// A part of what tells one request's limiter from another's.
struct key_part {
    enum class kind : std::uint8_t {
        client,   // the network that the client is in
        header,   // the value of the field `name`
        segment,  // segment number `number` of the path, from 1
    };
    kind what = kind::client;
    std::string name;
    std::int64_t number = 0;

    friend bool operator==(key_part const&, key_part const&) = default;
};
[[nodiscard]] std::string to_string(key_part const& part);

using failure_mode = decltype(weir::shared_options::on_failure);
/// `closed`, `open`, `local 0.25`.
[[nodiscard]] std::string to_string(failure_mode const& mode);
[[nodiscard]] std::optional<failure_mode> failure_mode_of(std::string_view text);

struct limit {
    static constexpr std::chrono::seconds default_patience{1};

    std::string name;
    weir::limiter_config rule;

    std::vector<key_part> key;  // none: one limiter for all
    int v4_prefix = 32;         // clients with so many bits of the address in common are one
    int v6_prefix = 64;
    std::int64_t max_keys = 100'000;  // those that come later share one limiter
    std::vector<std::pair<std::string, weir::limiter_config>> overrides;  // by key

    weir::queue_options queue{.patience = default_patience};
    std::optional<std::string> priority;  // the field that names the class of a request
    bool dry_run = false;                 // it decides and counts, and holds nobody up

    std::string store;      // by name; empty: this process counts by itself
    std::string shared_as;  // its name at the store; empty: its own
    weir::amount prefetch = 0;
    weir::duration timeout = std::chrono::milliseconds(50);  // for an answer of the store
    failure_mode on_failure = weir::fail_closed();
};

/// Of text such as `100/1s`. Throws `std::invalid_argument` if no limiter can keep it.
[[nodiscard]] weir::limiter_config rule_of(std::string_view text);

/// Of text such as `max_waiting 100 patience 2s`; its patience is `unless_said` where the text says none. Throws
/// `std::invalid_argument` if it is no queue of a proxy.
[[nodiscard]] weir::queue_options queue_of(std::string_view text, weir::patience unless_said);
/// The text of which `queue_of` makes the same, whatever holds unless a patience is said.
[[nodiscard]] std::string text_of(weir::queue_options const& queue);

/// `64` seats; `adaptive`, from 1 to 1,000 seats, as many as turn out to be right; `adaptive 4..200`. Nothing if it is
/// something else.
[[nodiscard]] std::optional<weir::limiter_config> seats_named(std::string_view text);
/// The most seats that such a rule may come to have.
[[nodiscard]] weir::amount most_seats(weir::limiter_config const& rule);

/// Whether the rule is about how many at a time, at least in part.
[[nodiscard]] bool has_seats(weir::limiter_config const& rule);
/// Whether these seats find out by themselves how many they should be.
[[nodiscard]] bool is_adaptive(weir::limiter_config const& rule);
/// Whether a limiter of `a` can be configured to keep `b`.
[[nodiscard]] bool are_of_one_kind(weir::limiter_config const& a, weir::limiter_config const& b);

/// The seats of its servers together, if all of them have seats: one more limit of each route that leads there.
[[nodiscard]] std::optional<limit> seats_of(upstream const& u);

/// How a store keeps a rule.
struct shared_rule {
    weir::shared_options options;
    bool log = false;  // a log, and not a bucket
};
/// Throws `std::invalid_argument` if no store can keep it.
[[nodiscard]] shared_rule shared_rule_of(limit const& l);

// ---- Routes

struct field {
    std::string name;
    std::string value;

    friend bool operator==(field const&, field const&) = default;
};

/// What is changed in a head that goes through. What is added takes the place of fields of the same name.
struct field_changes {
    std::vector<field> add;
    std::vector<std::string> remove;

    friend bool operator==(field_changes const&, field_changes const&) = default;
};

/// How long each may take.
struct timeouts {
    weir::duration header = std::chrono::seconds(10);  // of a request, from its first byte
    weir::duration body =
        std::chrono::seconds(30);  // the next piece of a body, to or from a client
    weir::duration idle = std::chrono::seconds(75);      // until a client begins another request
    weir::duration upstream = std::chrono::seconds(60);  // to connect, to answer, to go on
    weir::duration keep = std::chrono::seconds(5);       // a connection to it that is not used

    friend bool operator==(timeouts const&, timeouts const&) = default;
};

/// For how long a request that has become something else by an upgrade holds its seats.
enum class seats_of_upgrade : std::uint8_t { connection, handshake };
/// `connection`, `handshake`.
[[nodiscard]] std::string to_string(seats_of_upgrade until);
[[nodiscard]] std::optional<seats_of_upgrade> seats_of_upgrade_of(std::string_view text);

/// To which protocols a request may ask to go over.
struct upgrade {
    std::vector<std::string> to;  // none: Upgrade goes no further
    seats_of_upgrade seats = seats_of_upgrade::connection;
    weir::duration idle = std::chrono::minutes(5);  // it ends when nothing has moved for so long

    friend bool operator==(upgrade const&, upgrade const&) = default;
};
/// Whether that is the name of a protocol that may be gone over to: not HTTP itself, whose requests would pass no limit.
[[nodiscard]] bool is_upgrade(std::string_view protocol);

/// The first route that fits a request is its route.
struct route {
    // One that needs them with the limits of its upstream's servers has this many at most.
    static constexpr std::size_t most_limits = 15;

    std::string host;                  // empty: any; `*.example.org` is any below that
    std::string path = "/";            // what the path begins with, by segments
    std::vector<std::string> methods;  // none: any

    std::string upstream;             // by name; or
    std::optional<unsigned> respond;  // a status
    std::vector<std::string> limits;  // by name, all or nothing
    std::optional<weir::duration> upstream_timeout;
    config::upgrade upgrade;
    field_changes request_headers;
    field_changes response_headers;

    friend bool operator==(route const&, route const&) = default;
};

// ---- Answers

/// Which fields tell of the limits that a request has met: RateLimit and RateLimit-Policy, X-RateLimit-..., all of these
/// or none.
enum class limit_headers : std::uint8_t { ietf, legacy, both, none };
[[nodiscard]] std::string to_string(limit_headers which);
[[nodiscard]] std::optional<limit_headers> limit_headers_of(std::string_view text);

// ---- What an operator sees

/// Where the proxy tells what it does.
struct admin_options {
    // None: nowhere. A port that nobody has named, and that another program has, is replaced by a free one.
    std::optional<server_address> address = tcp_address{"127.0.0.1", 9090};
    bool is_named = false;             // the address was given
    std::vector<tool::network> allow;  // who may ask, beside this machine itself
    bool write = false;                // limits may be changed there

    friend bool operator==(admin_options const&, admin_options const&) = default;
};

/// Whether only this machine itself can come there.
[[nodiscard]] bool is_private(server_address const& at);

/// What the proxy answers by itself with such a status, instead of a line of text.
struct body {
    static constexpr std::size_t most_bytes = 1024 * 1024;

    std::vector<unsigned> status;
    std::string file;  // relative to that of the configuration
    std::string type;  // a media type
    std::string text;  // what has been read from the file

    friend bool operator==(body const&, body const&) = default;
};

// ---- The rest

/// How lines of the access log are written.
enum class log_format : std::uint8_t { text, json };
[[nodiscard]] std::string to_string(log_format f);
[[nodiscard]] std::optional<log_format> log_format_of(std::string_view text);

struct configuration {
    std::int64_t threads = 0;                         // 0: one for each processor
    weir::duration drain = std::chrono::seconds(10);  // how long the end waits for requests
    std::string pid_file;    // where `weir-proxy --reload` finds the process; empty: nowhere
    std::string access_log;  // a file, `-` for standard output; empty: none
    log_format access_log_format = log_format::text;
    tool::level log_level = tool::level::info;  // on standard error

    limit_headers ratelimit_headers = limit_headers::ietf;

    config::timeouts timeouts;
    clients_options clients;
    admin_options admin;

    std::vector<listener> listeners;
    std::vector<upstream> upstreams;
    std::vector<store> stores;
    std::vector<limit> limits;
    std::vector<route> routes;
    std::vector<body> bodies;
};

}  // namespace config
