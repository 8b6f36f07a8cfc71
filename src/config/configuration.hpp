#pragma once

#include <weir/agent/server_options.hpp>
#include <weir/amount.hpp>
#include <weir/policy/fed.hpp>
#include <weir/policy/limiter_config.hpp>
#include <weir/policy/tree/options.hpp>
#include <weir/queue_options.hpp>
#include <weir/time.hpp>

#include "bandwidth.hpp"
#include "listener.hpp"
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

/// The configuration of weir-proxy as values: `read` parses a file, and `write` formats one.
///
/// Members have the names and the defaults of the file.
namespace config {

// ---- Clients

/// The header field that names the client of a request from a trusted peer.
enum class forwarded_by : std::uint8_t { x_forwarded_for, forwarded };
/// `x-forwarded-for`, `forwarded`.
[[nodiscard]] std::string to_string(forwarded_by field);
[[nodiscard]] std::optional<forwarded_by> forwarded_by_of(std::string_view text);

struct clients_options {
    std::vector<tool::network> trusted;  // peers that may name the client
    config::forwarded_by forwarded_by = config::forwarded_by::x_forwarded_for;
    // At most, of all clients together; empty: from the open-file limit.
    std::optional<std::int64_t> max_connections;
    bool abort_on_hang_up = false;
    bool pass_underscores = false;
    std::int64_t min_body_rate = 500;           // of a request, in bytes per second; 0: any
    std::int64_t contended_body_rate = 10'000;  // the same, while others wait for its seats

    friend bool operator==(clients_options const&, clients_options const&) = default;
};

// ---- Keys

/// One part of the key that selects the limiter or the server of a request: a value of the request or, if it is
/// missing, the first value of `otherwise`. A value that is empty is missing.
struct key_part {
    enum class kind : std::uint8_t {
        client,  // the network of the client, which is never missing
        header,  // the value of the header field `name`
        cookie,  // the value of the cookie `name`
        query,   // the value of the parameter `name` in the query of the target
        claim,  // the claim `name` of the JSON Web Token in Authorization; its signature is not verified
        segment,             // segment number `number` of the path, from 1
        client_certificate,  // the subject of the client's verified certificate
        sni,     // the server name that the client asked for when it began the connection
        shared,  // last in `otherwise`: requests without a value share one key
        reject,  // last in `otherwise`: requests without a value are rejected
    };
    kind what = kind::client;
    std::string name = {};
    std::int64_t number = 0;
    std::vector<key_part> otherwise = {};

    friend bool operator==(key_part const&, key_part const&) = default;
};
/// `header X-Api-Key`, `cookie session or client`.
[[nodiscard]] std::string to_string(key_part const& part);
/// Whether the part or one of its alternatives is the client.
[[nodiscard]] bool has_client(key_part const& part);
/// Calls `f` with the part and each of its alternatives, in order.
template <class F>
void each_source(key_part const& part, F f) {
    f(part);
    for (auto const& other : part.otherwise)
        f(other);
}

// ---- Upstreams

struct server {
    server_address address = {};
    bool https = false;  // its connections are encrypted; not with a unix socket
    std::optional<weir::amount> seats = {};  // at most, concurrent requests
    // At most, active or idle; empty: from the open-file limit.
    std::optional<std::int64_t> max_connections = {};
    std::int64_t weight = 1;  // its part of the requests, compared with the other servers
    bool backup = false;      // gets requests only while all other servers are down

    friend bool operator==(server const&, server const&) = default;
};

/// `https://name:8443`, or the address of a server without https.
[[nodiscard]] std::string to_string(server const& s);
/// Parses `host:port`, `unix:PATH`, `https://host:port` or `https://host` (port 443). Empty if the text is invalid.
[[nodiscard]] std::optional<server> server_of(std::string_view text);

/// TLS towards the servers of an upstream. The files have the PEM format; a relative path starts at the folder of the
/// configuration file.
struct upstream_tls {
    std::string authorities = {};  // of trusted certificates; empty: the authorities of the system
    std::string server_name = {};  // in the certificates of all servers; empty: the host of each
    std::optional<config::certificate> certificate =
        {};                 // of the proxy, for servers that demand one
    bool insecure = false;  // any certificate of a server is accepted

    friend bool operator==(upstream_tls const&, upstream_tls const&) = default;
};

/// A server is down after `fall` failures in a row, and up again after `rise` successes.
struct health_check {
    std::optional<std::string> path;  // requested with GET; empty: the check only connects
    weir::duration every = std::chrono::seconds(5);
    weir::duration timeout = std::chrono::seconds(1);
    std::int64_t fall = 3;
    std::int64_t rise = 2;

    friend bool operator==(health_check const&, health_check const&) = default;
};

struct upstream {
    std::string name;
    std::vector<server> servers;
    std::optional<health_check> health;
    weir::duration resolve =
        std::chrono::seconds(30);  // between lookups of the servers' names; 0: none
    // Requests with equal values have the same server; empty: each request has the least busy one.
    std::vector<key_part> hash = {};
    int proxy_protocol = 0;  // the version of the header that begins each connection; 0: none
    upstream_tls tls = {};   // has an effect if the servers have https, as all of them have or none

    friend bool operator==(upstream const&, upstream const&) = default;
};

// ---- Limits

/// A server that counts limits for several proxies, or the agent that asks one.
struct store {
    std::string name;
    std::string url;  // starts with one of `store_schemes`

    friend bool operator==(store const&, store const&) = default;
};
inline constexpr std::string_view store_schemes =
    "redis://, rediss://, redis+sentinel://, rediss+sentinel://, unix:, mysql://, "
    "postgresql:// and agent:";
[[nodiscard]] bool is_store_url(std::string_view text) noexcept;
/// The path in the URL of an agent; empty if it is the URL of a server.
[[nodiscard]] std::optional<std::string_view> path_of_agent(std::string_view url) noexcept;

/// An agent, which asks a store for the processes of this machine.
struct agent {
    weir::agent::server_options options;
    config::store store;

    friend bool operator==(agent const&, agent const&) = default;
};

/// The cost of a request in a limit: the number of permits that it takes.
struct cost {
    enum class kind : std::uint8_t {
        number,           // `number`
        header,           // the value of the header field `name`, if a trusted peer sent it
        bytes,            // of the body
        response_header,  // the value of the header field `name` of the upstream's response
        response_bytes,   // of the body of the response, as far as the client received it
    };
    static constexpr weir::amount most = weir::max_amount;

    kind what = kind::number;
    weir::amount number = 1;
    std::string name = {};
    weir::amount estimate = 1;  // until the cost is known, and if it never is

    friend bool operator==(cost const&, cost const&) = default;
};
/// `5`, `header X-Cost`, `response bytes`.
[[nodiscard]] std::string to_string(cost const& c);
/// Whether the cost is unknown until the response.
[[nodiscard]] bool is_of_response(cost const& c) noexcept;

/// Statuses of responses.
struct status_range {
    unsigned first = 0;
    unsigned last = 0;

    friend bool operator==(status_range const&, status_range const&) = default;
};
/// `401`, `4xx`.
[[nodiscard]] std::string to_string(status_range const& r);

using failure_mode = decltype(weir::shared_options::on_failure);
/// `closed`, `open`, `local 0.25`.
[[nodiscard]] std::string to_string(failure_mode const& mode);
[[nodiscard]] std::optional<failure_mode> failure_mode_of(std::string_view text);

/// The handling of a request with a new key while a limit has `max_keys` keys, or takes `max_memory`.
enum class full_of_keys : std::uint8_t {
    share,   // all such requests share one limiter
    reject,  // it is rejected
};
/// `share`, `reject`.
[[nodiscard]] std::string to_string(full_of_keys how);
[[nodiscard]] std::optional<full_of_keys> full_of_keys_of(std::string_view text);

/// The rule of some keys of a limit; empty: they are unlimited.
using override_rule = std::optional<weir::limiter_config>;
inline constexpr std::string_view unlimited = "unlimited";

struct limit {
    static constexpr std::chrono::seconds default_patience{1};
    static constexpr std::size_t longest_name = 64;  // of a node of `tree`

    std::string name;
    weir::limiter_config rule;
    bool is_unlimited = false;  // only the keys of `overrides` are limited; `rule` has their kind
    // Replaces `rule`, which then is the bucket of its root. Each part of `key` is a level.
    std::optional<weir::rate_tree_options> tree;
    // Replaces `rule`: it limits bytes, not requests. See `configuration::bandwidths`.
    std::optional<config::bandwidth> bandwidth;

    std::vector<key_part> key;  // empty: one limiter for all requests
    int v4_prefix = 32;         // clients that share this many leading address bits share a key
    int v6_prefix = 64;
    std::int64_t max_keys = 100'000;
    std::int64_t max_memory = 1024 * 1024 * 1024;  // of all keys, in bytes
    weir::duration
        evict_within{};  // a further key takes the place of one that is like new within it
    full_of_keys when_full = full_of_keys::share;  // for further keys, if no key makes place
    std::vector<std::pair<std::string, override_rule>>
        overrides;  // by key, or by network of clients
    std::vector<std::pair<std::string, config::bandwidth>>
        byte_overrides;  // the same of a limit with `bandwidth`, with all directions

    weir::queue_options queue{.patience = default_patience};
    std::optional<std::string> priority;  // the header field that holds the class of a request
    std::vector<std::pair<std::string, int>>
        weights;           // by network of clients, for the order `fair`
    bool dry_run = false;  // decides and counts, but never delays or rejects

    config::cost cost;
    // Only requests with such a response count; empty: all. With a penalty these responses are the offences.
    std::vector<status_range> count;

    std::string store;      // by name; empty: this process counts the limit
    std::string shared_as;  // the name in the store; empty: `name`
    weir::amount prefetch = 0;
    std::optional<weir::duration> timeout;  // for a reply from the store
    failure_mode on_failure = weir::fail_closed();
};

/// The handling of further keys by the limit. A tree has no such option: it rejects them.
[[nodiscard]] inline full_of_keys when_full_of(limit const& l) {
    return l.tree ? full_of_keys::reject : l.when_full;
}

/// The largest number of bytes that the keys of the limit take without `max_memory`: an estimate.
[[nodiscard]] double most_memory(limit const& l);

/// The most permits that each rule of the limit can grant to one request.
[[nodiscard]] weir::amount capacity_of(limit const& l);
/// Reports a cost, or an estimate, that is above the capacity of the limit. Empty if there is none.
[[nodiscard]] std::string fault_of_cost(limit const& l);

/// The status of the response to a request that the limit rejects.
[[nodiscard]] unsigned status_of_rejection(limit const& l);

/// The rule of the limit as the file has it, such as `100/1s` or `unlimited`.
[[nodiscard]] std::string rule_text(limit const& l);

/// The clients of an override.
struct named_clients {
    tool::network network;  // no narrower than a key
    bool is_one_key;        // the network is exactly one key
};
/// The clients that a text names: an address, which stands for its whole key by client, or a network. Empty if the text
/// is neither, or is a network narrower than a key.
[[nodiscard]] std::optional<named_clients> clients_in(std::string_view text, limit const& l);
/// The clients that an override of the limit names: an address, which stands for its whole key, or a network. Empty if
/// the limit has no key by client, or if the text is neither, or is a network narrower than a key.
[[nodiscard]] std::optional<named_clients> clients_named(std::string_view text, limit const& l);

/// Parses a rule such as `100/1s`. Throws `std::invalid_argument` if no limiter can have it, or if it combines a penalty
/// with other limits.
[[nodiscard]] weir::limiter_config rule_of(std::string_view text);

/// Parses queue options such as `max_waiting 100 patience 2s`. A text without a patience gets `unless_said`. Throws
/// `std::invalid_argument` if the text is invalid or the proxy does not support the options.
[[nodiscard]] weir::queue_options queue_of(std::string_view text, weir::patience unless_said);
/// The queue of a penalty, in which no request waits. It sets no patience, so that the other limits of a route keep
/// theirs.
[[nodiscard]] weir::queue_options queue_of_penalty();
/// Formats options as a text from which `queue_of` parses the same options, for any `unless_said`.
[[nodiscard]] std::string text_of(weir::queue_options const& queue);

/// Parses `64` (fixed seats), `adaptive` (from 1 to 1,000 seats, adjusted at run time) or `adaptive 4..200`. Empty if
/// the text is invalid.
[[nodiscard]] std::optional<weir::limiter_config> seats_named(std::string_view text);
/// The largest number of seats that such a rule can reach.
[[nodiscard]] weir::amount most_seats(weir::limiter_config const& rule);

/// Whether the rule, or a part of it, limits concurrent requests.
[[nodiscard]] bool has_seats(weir::limiter_config const& rule);
/// Whether the rule, or a part of it, adjusts its number of seats at run time.
[[nodiscard]] bool is_adaptive(weir::limiter_config const& rule);
/// Whether the rule is a penalty: it counts offences, not requests.
[[nodiscard]] bool is_penalty(weir::limiter_config const& rule);
/// Whether the rule gives back a permit exactly, whenever that is. A bucket does not: it may have been refilled
/// meanwhile, so that a permit that comes back would be a second one.
[[nodiscard]] bool has_window(weir::limiter_config const& rule);
/// Whether a limiter by key of this rule has its own kind, with a small state for each key.
[[nodiscard]] bool has_small_state(weir::limiter_config const& rule);
/// Whether a limiter with the rule `a` can be reconfigured to the rule `b`.
[[nodiscard]] bool are_of_one_kind(weir::limiter_config const& a, weir::limiter_config const& b);

/// The limit with the sum of the seats of its servers, without the backups; empty unless all servers have seats. Each
/// route to the upstream has this limit in addition to its own.
[[nodiscard]] std::optional<limit> seats_of(upstream const& u);

/// A rule as a store counts it.
struct shared_rule {
    weir::shared_options options;
    bool log = false;  // a sliding log instead of a bucket
};
/// Converts the rule of `l`. Throws `std::invalid_argument` if stores do not support it.
[[nodiscard]] shared_rule shared_rule_of(limit const& l);

// ---- Routes

struct field {
    std::string name;
    std::string value;  // with variables, such as {client}

    friend bool operator==(field const&, field const&) = default;
};

/// Changes to the header of a forwarded message. An added field replaces all fields of the same name.
struct field_changes {
    std::vector<field> add;
    std::vector<std::string> remove;

    friend bool operator==(field_changes const&, field_changes const&) = default;
};

/// Time limits of connections and messages.
struct timeouts {
    weir::duration header = std::chrono::seconds(10);     // of a request, from its first byte
    weir::duration handshake = std::chrono::seconds(10);  // of TLS, from its first byte
    weir::duration body = std::chrono::seconds(30);  // the next part of a body, to or from a client
    std::optional<weir::duration> whole_body;  // of a request: the sum of the waits for its parts
    weir::duration idle = std::chrono::seconds(75);      // until a client starts another request
    weir::duration upstream = std::chrono::seconds(60);  // to connect, respond or continue
    weir::duration upstream_idle = std::chrono::seconds(5);  // of an idle upstream connection

    friend bool operator==(timeouts const&, timeouts const&) = default;
};

/// How long an upgraded request holds its seats.
enum class seats_of_upgrade : std::uint8_t { connection, handshake };
/// `connection`, `handshake`.
[[nodiscard]] std::string to_string(seats_of_upgrade until);
[[nodiscard]] std::optional<seats_of_upgrade> seats_of_upgrade_of(std::string_view text);

/// The protocols to which a request may upgrade.
struct upgrade {
    std::vector<std::string> to;  // empty: the proxy does not forward Upgrade
    seats_of_upgrade seats = seats_of_upgrade::connection;
    weir::duration idle = std::chrono::minutes(5);  // without data, until the connection ends

    friend bool operator==(upgrade const&, upgrade const&) = default;
};
/// Whether `protocol` is the name of a protocol that may be allowed. HTTP is not: its requests would bypass the limits.
[[nodiscard]] bool is_upgrade(std::string_view protocol);

/// A header field of a request, and the values of which it must have one.
struct header_condition {
    std::string name;
    std::vector<std::string> values;

    friend bool operator==(header_condition const&, header_condition const&) = default;
};

/// The body of the proxy's own responses with these statuses, instead of a line of text.
struct body {
    static constexpr std::size_t most_bytes = 1024 * 1024;

    std::vector<unsigned> status;
    std::string file;  // relative to the configuration file
    std::string type;  // a media type
    std::string text;  // the content of the file

    friend bool operator==(body const&, body const&) = default;
};

/// A request uses the first route that matches it.
struct route {
    // One less than a chain can have: the seats of the upstream's servers are one more limit.
    static constexpr std::size_t most_limits = 15;
    static constexpr std::int64_t most_body_buffer = 1024 * 1024;

    std::string host;                    // empty: any; `*.example.org`: any host below example.org
    std::string path = "/";              // a prefix of whole segments
    std::vector<std::string> methods;    // empty: any
    std::vector<tool::network> clients;  // empty: any
    std::vector<header_condition> headers;  // all of them

    std::string upstream;                      // by name; empty if `respond` is set
    std::optional<std::string> upstream_path;  // replaces `path` in requests to the upstream
    std::optional<unsigned> respond;           // the status of a response by the proxy itself
    bool check = false;                        // it matches only checks, and responds 204
    std::optional<config::body> body;  // of this response; empty: one of `bodies`, or a line
    std::vector<std::string> limits;   // by name; a request gets permits from all or none
    // By name; bytes of requests, responses and upgraded connections get permits from all.
    std::vector<std::string> bandwidths;
    std::vector<std::pair<std::string, weir::amount>> costs;  // by limit; replaces its `cost`
    std::optional<weir::duration> upstream_timeout;
    // The bytes of a body that the proxy reads before it asks for a seat.
    std::int64_t body_buffer = 64 * 1024;
    std::optional<std::int64_t> body_limit;  // the longest body, in bytes; empty: any
    config::upgrade upgrade;
    field_changes request_headers;
    field_changes response_headers;

    friend bool operator==(route const&, route const&) = default;
};

// ---- Responses

/// The response header fields that describe the limits of a request: RateLimit and RateLimit-Policy, X-RateLimit-...,
/// all of these or none.
enum class limit_headers : std::uint8_t { ietf, legacy, both, none };
[[nodiscard]] std::string to_string(limit_headers which);
[[nodiscard]] std::optional<limit_headers> limit_headers_of(std::string_view text);

// ---- Administration

/// The address of the status page and the metrics.
struct admin_options {
    // Empty: no admin server. If another program uses the port of the default address, a free port replaces it.
    std::optional<server_address> address = tcp_address{"127.0.0.1", 9090};
    bool is_named = false;             // the configuration sets the address
    std::vector<tool::network> allow;  // clients, besides this machine itself
    bool write = false;                // requests may change limits

    friend bool operator==(admin_options const&, admin_options const&) = default;
};

/// The file with the state of limits, from which the next process continues.
struct state_options {
    std::string file;  // empty: none
    weir::duration every = std::chrono::minutes(1);

    friend bool operator==(state_options const&, state_options const&) = default;
};

/// Whether only this machine itself can reach the address.
[[nodiscard]] bool is_private(server_address const& at);

// ---- The rest

/// The format of access log lines.
enum class log_format : std::uint8_t { text, json };
[[nodiscard]] std::string to_string(log_format f);
[[nodiscard]] std::optional<log_format> log_format_of(std::string_view text);

struct configuration {
    std::int64_t threads = 0;                         // 0: one for each processor
    weir::duration drain = std::chrono::seconds(10);  // to finish active requests at shutdown
    std::string pid_file;    // `weir-proxy --reload` reads the process id from it; empty: none
    std::string access_log;  // a file, `-` for standard output; empty: none
    log_format access_log_format = log_format::text;
    tool::level log_level = tool::level::info;  // the lowest level on standard error

    limit_headers ratelimit_headers = limit_headers::ietf;

    config::timeouts timeouts;
    clients_options clients;
    admin_options admin;
    state_options state;

    std::vector<listener> listeners;
    std::vector<upstream> upstreams;
    std::vector<store> stores;
    std::optional<config::agent> agent;
    std::vector<limit> limits;
    std::vector<limit> bandwidths;  // the limits with `bandwidth`; their other rules do not matter
    std::vector<route> routes;
    std::vector<body> bodies;

    // Settings of the file without effect, one line each: `FILE:LINE:COLUMN: the setting and the reason`.
    std::vector<std::string> warnings;
};

}  // namespace config
