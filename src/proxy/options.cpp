#include "options.hpp"

#include <weir/version.hpp>

#include "tls/context.hpp"
#include "tool/arguments.hpp"
#include "tool/command_line.hpp"
#include "tool/completion.hpp"
#include "tool/text.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <chrono>  // NOLINT(misc-include-cleaner): literals
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {
namespace {

using namespace std::chrono_literals;
using tool::duration;
using tool::integer;
using tool::reject;

// The values of the options from which `complete` makes limits, an upstream and a listener.
struct options {
    config::configuration& all;

    std::string listen = "127.0.0.1:8080";
    std::string upstream;
    std::optional<weir::limiter_config> seats = {};
    std::optional<weir::limiter_config> rate = {};
    std::optional<weir::limiter_config> per_client_seats = {};
    std::optional<weir::limiter_config> per_client_rate = {};
    std::string store;
    config::limit shared = {};              // settings of --rate if a store counts it
    config::limit client = {};              // common settings of the limits per client
    std::vector<std::string> upgrade = {};  // at most one protocol
    weir::queue_options queue{.patience = config::limit::default_patience};
};

constexpr char const* about =
    R"(weir-proxy: an HTTP/1.1 reverse proxy that limits the requests to the service behind it.

  weir-proxy --upstream 127.0.0.1:9000 --seats 64 --rate 100/1s

A request above a limit waits in a queue, first come, first served. If its patience ends, its wait
would be too long, or the queue is full, the proxy rejects it with Retry-After and 503 (seats) or
429 (rate, limits per client). Defaults are in parentheses.

A configuration file can set all options and more:

  weir-proxy --config weir.toml

Several proxies, each with the same --rate, can share it through a store: a Redis, MySQL,
MariaDB or PostgreSQL server, or an agent that asks one for all processes of a machine:

  weir-proxy --upstream 127.0.0.1:9000 --rate 100/1s --store redis://10.0.0.5)";

constexpr char const* footer =
    R"(
--seats adaptive finds the number of concurrent requests that the upstream serves without a queue,
from 1 to 1000; --seats "adaptive 4..200" sets other bounds.
--rate and --per-client-rate also take other rules of weir::limiter_config: "100/1s burst 20",
"100/1s leaky", "10/60s sliding", "1000/day zone Europe/Berlin".
Pass a --store URL with a password in the environment variable WEIR_STORE: command lines are
visible to other users. URLs: redis://user:password@host:port/database, rediss:// with TLS,
redis+sentinel://host,host/name with Sentinels, rediss+sentinel:// with both, unix:/socket,
mysql://user:password@host:port/database, mysql://user@/database?socket=/path,
postgresql://user:password@host:port/database as libpq takes it, and agent:/socket of a
weir-proxy whose configuration has an [agent]. The mysql URLs also take
tls=required and authorities=FILE, and the URLs with TLS authorities=FILE, certificate=FILE with
key=FILE, and insecure. While the store is unavailable, --on-failure closed rejects
requests with 503, open applies no limit, and `local 0.25` grants a quarter of the rate in this
proxy.
TIME is a whole number and a unit: ns, us, ms, s, min or h.
Signals: SIGINT and SIGTERM finish active requests, print a report and exit with 0; SIGUSR1 prints
the report; SIGHUP reopens the access log and reloads the file of --config, as --reload does.)";

// Checks an address whose port is at least `least_port`; port 0 is any free port.
std::string address(std::string const& option, std::string_view value, std::int64_t least_port) {
    auto const found = tool::address_of(value);
    if (!found || tool::number_of(found->port) < least_port)
        reject(option, value,
               fmt::format(
                   "host:port, with a port from {} to 65535, such as 127.0.0.1:8080 or [::1]:8080",
                   least_port));
    return std::string(value);
}

std::string server(std::string const& option, std::string_view value) {
    auto const https = value.starts_with("https://");
    if (!https)
        return address(option, value, 1);
    if (!config::server_of(value))
        reject(option, value, "https:// and host:port, such as https://api.internal:8443");
    return std::string(value);
}

void set_admin(config::admin_options& a, std::string const& option, std::string_view value) {
    a.is_named = true;
    a.address.reset();
    if (value == "none")
        return;
    a.address = *config::tcp_address_of(address(option, value, 0));
    if (!is_private(*a.address))
        reject(option, value,
               "a local address such as 127.0.0.1:9090 (to open it to others, set `allow` in "
               "[admin] of a configuration file)");
}

// The value that `of_text` parses; `must` describes the valid values.
template <class F>
auto named(std::string const& option, std::string_view value, F of_text, std::string_view must) {
    auto const found = of_text(value);
    if (!found)
        reject(option, value, must);
    return *found;
}

weir::limiter_config seats(std::string const& option, std::string_view value) {
    return named(option, value, config::seats_named,
                 "a number from 1 to 1000000000, `adaptive` or `adaptive MIN..MAX` with MIN <= "
                 "MAX in that range");
}

// `100/1s`, for at most 100 requests in any second, or another rule of `weir::limiter_config`, except seats.
weir::limiter_config rate(std::string const& option, std::string_view value) {
    try {
        auto rule = config::rule_of(value);
        if (config::has_seats(rule))
            reject(option, value,
                   fmt::format("a rate such as 100/1s; for seats use {}",
                               option == "--rate" ? "--seats" : "--per-client-seats"));
        if (config::is_penalty(rule))
            reject(option, value,
                   "a rate such as 100/1s; a penalty requires `count` in a [[limit]]");
        return rule;
    } catch (std::invalid_argument const& wrong) {
        reject(option, value, fmt::format("a rate such as 100/1s: {}", wrong.what()));
    }
}

// Throws `usage_error` if a store does not support the rule of --rate.
void check_shared_rate(config::limit const& l) {
    try {
        static_cast<void>(shared_rule_of(l));
    } catch (std::invalid_argument const& wrong) {
        reject(
            "--rate", to_string(l.rule),
            fmt::format("a rule such as 100/1s or 100/1s burst 20 with --store: {}", wrong.what()));
    }
}

// The options of the program. The values of `c` and `o` at construction are the defaults.
class command_line {
public:
    command_line(command& c, options& o);

    void parse(int argc, char const* const* argv) { app_.parse(argc, argv); }
    [[nodiscard]] std::string help() const { return app_.help(); }
    [[noreturn]] void fail(CLI::ParseError const& wrong) const { tool::reject(app_, wrong); }
    /// The last given option that requires a limit per client; empty if none was given.
    [[nodiscard]] std::string const& of_client() const { return of_client_; }
    /// The last given option that requires --store; empty if none was given.
    [[nodiscard]] std::string const& of_store() const { return of_store_; }
    /// A given option that --config excludes; empty if none was given.
    [[nodiscard]] std::string of_file() const;

    bool check = false;
    bool print = false;
    bool reload = false;

private:
    // Adds an option whose value `set` stores or rejects.
    template <class Set>
    CLI::Option* add(std::string const& name, char const* type, char const* help, Set set) {
        auto* const option = app_.add_option_function<std::string>(
            name, [name, set](std::string const& value) { set(name, value); }, help);
        return option->type_name(type);
    }
    void add_flag(char const* name, bool& flag, char const* help) {
        app_.add_flag(name, flag, help)
            ->disable_flag_override()
            ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
    }

    CLI::App app_{about, "weir-proxy"};
    std::string of_client_;
    std::string of_store_;
};

command_line::command_line(command& c, options& o) {
    app_.set_help_flag("--help", "print this help and exit");
    app_.set_version_flag("--version",
                          fmt::format("weir-proxy " WEIR_VERSION_STRING "{}\n",
                                      tls::is_built_in() ? "" : " without TLS"),
                          "print the version and exit");
    tool::add_completion(app_);
    app_.footer(footer);
    app_.get_formatter()->column_width(28);

    add("--config", "FILE", "read all settings from FILE instead of the options below",
        [&c](auto&, auto& v) { c.file = v; });
    add_flag("--check", check, "check the configuration, print all errors and warnings and exit");
    add_flag("--strict", c.strict, "with --check: exit with 1 if a setting has no effect");
    add_flag("--reload", reload, "make the running proxy reload FILE and exit (requires --config)");
    add_flag("--print-config", print, "print the options as a configuration file and exit");
    add("--upstream", "HOST:PORT", "the service to protect; https://HOST:PORT encrypts",
        [&o](auto& n, auto& v) { o.upstream = server(n, v); });
    add_flag("--demo", c.demo, "start a built-in demo backend");
    add_flag("--tls", c.tls, "with --demo: serve https, with a certificate made for this run");
    add("--listen", "HOST:PORT", "address to accept clients on (127.0.0.1:8080)",
        [&o](auto& n, auto& v) { o.listen = address(n, v, 0); });
    add("--admin", "HOST:PORT", "status page and metrics, or none (127.0.0.1:9090, or a free port)",
        [&o](auto& n, auto& v) { set_admin(o.all.admin, n, v); });
    add("--seats", "N", "at most N concurrent requests to the upstream, or adaptive (no limit)",
        [&o](auto& n, auto& v) { o.seats = seats(n, v); });
    add("--rate", "N/TIME", "at most N upstream requests in any TIME, such as 100/1s (no limit)",
        [&o](auto& n, auto& v) { o.rate = rate(n, v); });
    add("--per-client-seats", "N", "at most N concurrent requests per client (no limit)",
        [&o](auto& n, auto& v) {
            o.per_client_seats = weir::seats_options{integer(n, v, 1, 1'000'000'000)};
        });
    add("--per-client-rate", "N/TIME", "at most N requests per client in any TIME (no limit)",
        [&o](auto& n, auto& v) { o.per_client_rate = rate(n, v); });
    add("--max-keys", "N", "track at most N clients; further clients share one limit (100000)",
        [&o, this](auto& n, auto& v) {
            o.client.max_keys = integer(n, v, 1, 1'000'000'000);
            of_client_ = n;
        });
    add("--max-memory", "BYTES", "track no new clients from BYTES of memory on (1073741824)",
        [&o, this](auto& n, auto& v) {
            o.client.max_memory = integer(n, v, 1'000'000, 1'000'000'000'000);
            of_client_ = n;
        });
    add("--client-prefix-v4", "BITS",
        "group IPv4 clients by the first BITS bits of the address (32)",
        [&o, this](auto& n, auto& v) {
            o.client.v4_prefix = int(integer(n, v, 0, 32));
            of_client_ = n;
        });
    add("--client-prefix-v6", "BITS",
        "group IPv6 clients by the first BITS bits of the address (64)",
        [&o, this](auto& n, auto& v) {
            o.client.v6_prefix = int(integer(n, v, 0, 64));
            of_client_ = n;
        });
    add("--store", "URL", "server that counts --rate for several proxies (each counts its own)",
        [&o](auto&, auto& v) { o.store = v; })
        ->envname("WEIR_STORE");
    add("--shared-as", "NAME", "name of the shared rate in the store (weir-proxy)",
        [&o, this](auto& n, auto& v) {
            if (v.empty() || v.size() > 255)
                reject(n, v, "a name of 1 to 255 bytes");
            o.shared.shared_as = v;
            of_store_ = n;
        });
    add("--on-failure", "MODE",
        "while the store is unavailable: closed, open or `local 0.25` (closed)",
        [&o, this](auto& n, auto& v) {
            o.shared.on_failure =
                named(n, v, config::failure_mode_of,
                      "closed, open, or local and a share up to 1, such as `local 0.25`");
            of_store_ = n;
        });
    add("--store-timeout", "TIME",
        "time limit for a reply from the store (three round trips, 50ms to 500ms)",
        [&o, this](auto& n, auto& v) {
            o.shared.timeout = duration(n, v, 1ms, 60s);
            of_store_ = n;
        });
    add("--prefetch", "N", "fetch up to N tokens ahead, according to recent use (0)",
        [&o, this](auto& n, auto& v) {
            o.shared.prefetch = integer(n, v, 0, 500'000'000);
            of_store_ = n;
        });
    add("--queue", "N", "at most N requests wait per limit or client; 0 disables waiting (1024)",
        [&o](auto& n, auto& v) { o.queue.max_waiting = integer(n, v, 0, 1'000'000'000); });
    add("--patience", "TIME", "longest total wait of a request (1s)",
        [&o](auto& n, auto& v) { o.queue.patience = duration(n, v); });
    add("--upgrade", "PROTOCOL", "allow upgrades to PROTOCOL, such as websocket (none)",
        [&o](auto& n, auto& v) {
            if (!config::is_upgrade(v))
                reject(n, v,
                       "a protocol such as websocket, other than HTTP, whose requests would "
                       "bypass the limits");
            o.upgrade = {v};
        });
    add_flag("--abort-on-hang-up", o.all.clients.abort_on_hang_up,
             "when a client disconnects, release its seat before the upstream finishes");
    add("--max-connections", "N",
        "at most N client connections; others wait (from the open-file limit)",
        [&o](auto& n, auto& v) {
            o.all.clients.max_connections = integer(n, v, 1, 1'000'000'000);
        });
    add("--threads", "N", "number of worker threads (one per CPU)",
        [&o](auto& n, auto& v) { o.all.threads = integer(n, v, 1, 256); });
    add("--drain", "TIME", "time to finish active requests after SIGINT or SIGTERM (10s)",
        [&o](auto& n, auto& v) { o.all.drain = duration(n, v); });
    add("--access-log", "FILE", "write a line per request to FILE; - is standard output (none)",
        [&o](auto&, auto& v) { o.all.access_log = v; });
    add("--ratelimit-headers", "KIND",
        "rate-limit headers in responses: ietf, legacy, both or none (ietf)",
        [&o](auto& n, auto& v) {
            o.all.ratelimit_headers =
                named(n, v, config::limit_headers_of, "ietf, legacy, both or none");
        });
    add("--access-log-format", "FORMAT", "access log format: text or json (text)",
        [&o](auto& n, auto& v) {
            o.all.access_log_format = named(n, v, config::log_format_of, "text or json");
        });
    add("--log-level", "LEVEL",
        "lowest level logged to standard error: error, warning or info (info)",
        [&o](auto& n, auto& v) {
            o.all.log_level = named(n, v, tool::level_of, "error, warning or info");
        });
    add_flag("--pass-underscores", o.all.clients.pass_underscores,
             "forward header fields with underscores in their names");
    add("--header-timeout", "TIME", "time for a client to send a request header (10s)",
        [&o](auto& n, auto& v) { o.all.timeouts.header = duration(n, v, 1ms); });
    add("--body-timeout", "TIME",
        "time for a client to send or receive the next part of a body (30s)",
        [&o](auto& n, auto& v) { o.all.timeouts.body = duration(n, v, 1ms); });
    add("--idle-timeout", "TIME", "time for a client to start another request (75s)",
        [&o](auto& n, auto& v) { o.all.timeouts.idle = duration(n, v, 1ms); });
    add("--upstream-timeout", "TIME",
        "time for the upstream to connect, to respond or to continue (60s)",
        [&o](auto& n, auto& v) { o.all.timeouts.upstream = duration(n, v, 1ms); });
    add("--upstream-idle-timeout", "TIME", "time to keep an idle upstream connection (5s)",
        [&o](auto& n, auto& v) { o.all.timeouts.upstream_idle = duration(n, v, 1ms); });
}

std::string command_line::of_file() const {
    char const* const store = std::getenv("WEIR_STORE");  // CLI11 counts it as an option
    for (auto const* const option : app_.get_options())
        if (option->count() > 0 && option->get_name() != "--config" &&
            option->get_name() != "--check" && option->get_name() != "--strict" &&
            option->get_name() != "--print-config" && option->get_name() != "--reload" &&
            !(store && option->get_name() == "--store"))
            return option->get_name();
    return {};
}

// Makes the configuration that the options describe.
void complete(command& c, options const& o) {
    auto& all = c.configuration;
    all.listeners.push_back({*config::tcp_address_of(o.listen)});
    config::upstream to{.name = c.demo ? "demo" : "upstream", .servers = {{}}, .health = {}};
    if (!c.demo)
        to.servers[0] = *config::server_of(o.upstream);
    // At most one connection per seat, of all threads together. So an upstream suffices that has one worker per seat
    // and serves one connection per worker: no connection waits for a worker that has an idle one.
    if (o.seats)
        to.servers[0].max_connections = config::most_seats(*o.seats);
    config::route route;
    route.upstream = to.name;
    route.upgrade.to = o.upgrade;
    all.upstreams.push_back(std::move(to));

    auto const add = [&](char const* name, std::optional<weir::limiter_config> const& rule,
                         config::limit limit) {
        if (!rule)
            return;
        limit.name = name;
        limit.rule = *rule;
        limit.queue = o.queue;
        route.limits.emplace_back(name);
        all.limits.push_back(std::move(limit));
    };
    auto client = o.client;
    client.key.emplace_back();
    add("per-client seats", o.per_client_seats, client);
    add("per-client rate", o.per_client_rate, client);
    add("seats", o.seats, {});
    add("rate", o.rate, o.store.empty() ? config::limit() : o.shared);
    if (!o.store.empty()) {
        all.stores.push_back({"store", o.store});
        check_shared_rate(all.limits.back());
    }
    all.routes.push_back(std::move(route));
}

}  // namespace

command parse_options(int argc, char const* const* argv) {
    command c;
    options o{.all = c.configuration, .upstream = {}, .store = {}};
    o.shared.shared_as = "weir-proxy";
    o.shared.store = "store";
    command_line line(c, o);
    try {
        line.parse(argc, argv);
    } catch (CLI::CallForHelp const&) {
        c.what = command::action::help;
        c.help = line.help();
        return c;
    } catch (CLI::CallForVersion const& called) {
        c.what = command::action::help;
        c.help = called.what();
        return c;
    } catch (CLI::ParseError const& wrong) {
        line.fail(wrong);
    }
    if (line.check + line.print + line.reload > 1)
        throw tool::usage_error("--check, --print-config and --reload exclude each other");
    if (c.strict && !line.check)
        throw tool::usage_error("--strict requires --check");
    if (line.reload && c.file.empty())
        throw tool::usage_error("--reload requires --config");
    if (line.reload)
        c.what = command::action::reload;
    if (line.check)
        c.what = command::action::check;
    if (line.print)
        c.what = command::action::print;
    if (!c.file.empty()) {
        if (auto const other = line.of_file(); !other.empty())
            throw tool::usage_error(
                fmt::format("{} and --config exclude each other; set it in the file", other));
        return c;
    }
    if (c.demo == !o.upstream.empty())
        throw tool::usage_error(
            c.demo ? "--demo and --upstream exclude each other"
                   : "missing --upstream HOST:PORT, --demo or --config FILE; see --help");
    if (c.tls && !c.demo)
        throw tool::usage_error(
            "--tls requires --demo; for your own certificates set `tls` in a configuration file");
    if (c.demo && line.print)
        throw tool::usage_error("--print-config and --demo exclude each other");
    if (c.demo && !o.seats && !o.rate)
        o.seats = seats("--seats", "3");
    if (!o.per_client_seats && !o.per_client_rate && !line.of_client().empty())
        throw tool::usage_error(
            fmt::format("{} requires --per-client-seats or --per-client-rate", line.of_client()));
    if (o.store.empty() && !line.of_store().empty())
        throw tool::usage_error(fmt::format("{} requires --store", line.of_store()));
    if (!o.store.empty()) {
        if (!config::is_store_url(o.store))
            throw tool::usage_error(
                fmt::format("--store must start with one of {}", config::store_schemes));
        if (!o.rate)
            throw tool::usage_error("--store requires --rate");
        if (o.queue.patience.length_or(weir::forever) <= 0ns)
            throw tool::usage_error(
                "--patience is 0s; with --store it must exceed a round trip, for example 50ms");
    }
    complete(c, o);
    return c;
}

}  // namespace proxy
