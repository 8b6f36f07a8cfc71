#include "options.hpp"

#include "tool/arguments.hpp"
#include "tool/text.hpp"
#include "tool/version.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
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

// What becomes limits, an upstream and a listener once all of it is known.
struct options {
    config::configuration& all;

    std::string listen = "127.0.0.1:8080";
    std::string upstream;
    std::optional<weir::limiter_config> seats = {};
    std::optional<weir::limiter_config> rate = {};
    std::optional<weir::limiter_config> per_client_seats = {};
    std::optional<weir::limiter_config> per_client_rate = {};
    std::string store;
    config::limit shared = {};              // of --rate, if a store keeps it
    config::limit client = {};              // of all that are for each client
    std::vector<std::string> upgrade = {};  // one, or none
    weir::queue_options queue{.patience = config::limit::default_patience};
};

constexpr char const* about =
    R"(weir-proxy: an HTTP/1.1 reverse proxy that limits what reaches the service behind it.

  weir-proxy --upstream 127.0.0.1:9000 --seats 64 --rate 100/1s

Requests above the limits wait in a queue, first come, first served. A request that has waited in
vain, cannot be served in time or finds the queue full is answered 503 (seats), or 429 (rate, and
both limits of a client), with Retry-After. In brackets is what holds by default.

All of that, and more, can be said in a file:

  weir-proxy --config weir.toml

Several proxies keep one rate together, each with the same --rate, where a Redis or MariaDB server
counts:

  weir-proxy --upstream 127.0.0.1:9000 --rate 100/1s --store redis://10.0.0.5)";

constexpr char const* footer =
    R"(
--seats adaptive finds out how many the upstream can serve without a queue, from 1 to 1000;
--seats "adaptive 4..200" has other bounds.
--rate and --per-client-rate also take any other rule that weir::limiter_config knows, such as
"100/1s burst 20", "100/1s leaky" or "10/60s sliding".
--store may stand in the environment as WEIR_STORE, where a password is not seen. A URL is
redis://user:password@host:port/database, unix:/socket, mysql://user:password@host:port/database,
or mysql://user@/database?socket=/path; the last two may also say tls=required and
authorities=FILE. While the server does not answer, --on-failure closed answers 503, open lets
every request through, and `local 0.25` grants a quarter of the rate in this proxy by itself.
A TIME is a whole number of ns, us, ms, s, min or h. SIGINT and SIGTERM let what is being
served finish, print what was done, and exit with 0; SIGUSR1 prints it and goes on; SIGHUP
opens the access log anew, and applies what the file of --config says then, as --reload does.)";

// From which port on an address may name it: 0 is any that is free.
std::string address(std::string const& option, std::string_view value, std::int64_t least_port) {
    auto const found = tool::address_of(value);
    if (!found || tool::number_of(found->port) < least_port)
        reject(option, value,
               fmt::format(
                   "host:port, with a port from {} to 65535, like 127.0.0.1:8080 or [::1]:8080",
                   least_port));
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
               "an address of this machine alone, like 127.0.0.1:9090; in a file, `allow` of "
               "[admin] lets others in");
}

// What `of_text` makes of a value, which must be as is said.
template <class F>
auto named(std::string const& option, std::string_view value, F of_text, std::string_view must) {
    auto const found = of_text(value);
    if (!found)
        reject(option, value, must);
    return *found;
}

weir::limiter_config seats(std::string const& option, std::string_view value) {
    return named(
        option, value, config::seats_named,
        "a number from 1 to 1000000000, `adaptive`, or `adaptive 4..200` with such bounds");
}

// `100/1s`: the number of requests that any window of that length may see. Or any other rule that the
// library knows.
weir::limiter_config rate(std::string const& option, std::string_view value) {
    try {
        auto rule = config::rule_of(value);
        if (config::has_seats(rule))
            reject(option, value,
                   fmt::format("a rate, like 100/1s; for seats there is {}",
                               option == "--rate" ? "--seats" : "--per-client-seats"));
        return rule;
    } catch (std::invalid_argument const& wrong) {
        reject(option, value, fmt::format("a rate, like 100/1s: {}", wrong.what()));
    }
}

// --rate, as a store keeps it.
void check_shared_rate(config::limit const& l) {
    try {
        static_cast<void>(shared_rule_of(l));
    } catch (std::invalid_argument const& wrong) {
        reject(
            "--rate", to_string(l.rule),
            fmt::format("like 100/1s or 100/1s burst 20 where --store keeps it: {}", wrong.what()));
    }
}

// The options of the program. What stands in `c` and `o` when they are added is the default.
class command_line {
public:
    command_line(command& c, options& o);

    void parse(int argc, char const* const* argv) { app_.parse(argc, argv); }
    [[nodiscard]] std::string help() const { return app_.help(); }
    /// An option that was given, and that says nothing without --store; empty if there was none.
    [[nodiscard]] std::string const& of_store() const { return of_store_; }
    /// An option that was given and says something that stands in a file; empty if there was none.
    [[nodiscard]] std::string of_file() const;

    bool check = false;
    bool print = false;
    bool reload = false;

private:
    // A value that `set` takes, or rejects.
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
    std::string of_store_;
};

command_line::command_line(command& c, options& o) {
    app_.set_help_flag("--help", "this text");
    app_.set_version_flag("--version", fmt::format("weir-proxy {}\n", tool::version),
                          "which version this is");
    app_.footer(footer);
    app_.get_formatter()->column_width(28);

    add("--config", "FILE", "what stands in a file, instead of the options below",
        [&c](auto&, auto& v) { c.file = v; });
    add_flag("--check", check, "say what is wrong with the configuration, and end");
    add_flag("--reload", reload,
             "have the proxy that runs from the file go on with what it says now");
    add_flag("--print-config", print, "print the options as a configuration, and end");
    add("--upstream", "HOST:PORT", "the service that stands behind the proxy",
        [&o](auto& n, auto& v) { o.upstream = address(n, v, 1); });
    add_flag("--demo", c.demo, "put a small kitchen of its own behind it, to play with");
    add("--listen", "HOST:PORT", "where clients come in (127.0.0.1:8080)",
        [&o](auto& n, auto& v) { o.listen = address(n, v, 0); });
    add("--admin", "HOST:PORT",
        "where it shows what it does, or none (127.0.0.1:9090, or a free port)",
        [&o](auto& n, auto& v) { set_admin(o.all.admin, n, v); });
    add("--seats", "N", "at most N requests at the upstream at a time, or adaptive (no limit)",
        [&o](auto& n, auto& v) { o.seats = seats(n, v); });
    add("--rate", "N/TIME",
        "at most N requests to the upstream in any TIME, like 100/1s (no limit)",
        [&o](auto& n, auto& v) { o.rate = rate(n, v); });
    add("--per-client-seats", "N", "at most N requests of each client at a time (no limit)",
        [&o](auto& n, auto& v) {
            o.per_client_seats = weir::seats_options{integer(n, v, 1, 1'000'000'000)};
        });
    add("--per-client-rate", "N/TIME", "at most N requests of each client in any TIME (no limit)",
        [&o](auto& n, auto& v) { o.per_client_rate = rate(n, v); });
    add("--max-keys", "N", "so many have limits of their own; others share one (100000)",
        [&o](auto& n, auto& v) { o.client.max_keys = integer(n, v, 1, 1'000'000'000); });
    add("--client-prefix-v4", "BITS",
        "IPv4 clients with so many bits of the address in common are one (32)",
        [&o](auto& n, auto& v) { o.client.v4_prefix = int(integer(n, v, 0, 32)); });
    add("--client-prefix-v6", "BITS", "the same for IPv6 (64)",
        [&o](auto& n, auto& v) { o.client.v6_prefix = int(integer(n, v, 0, 64)); });
    add("--store", "URL", "where --rate is counted for several proxies (in each by itself)",
        [&o](auto&, auto& v) { o.store = v; })
        ->envname("WEIR_STORE");
    add("--shared-as", "NAME", "of the rate that proxies share (weir-proxy)",
        [&o, this](auto& n, auto& v) {
            if (v.empty() || v.size() > 255)
                reject(n, v, "a name of 1 to 255 bytes");
            o.shared.shared_as = v;
            of_store_ = n;
        });
    add("--on-failure", "MODE",
        "while --store does not answer: closed, open or `local 0.25` (closed)",
        [&o, this](auto& n, auto& v) {
            o.shared.on_failure =
                named(n, v, config::failure_mode_of,
                      "closed, open, or local and a share up to 1, like `local 0.25`");
            of_store_ = n;
        });
    add("--store-timeout", "TIME", "how long an answer of --store is waited for (50ms)",
        [&o, this](auto& n, auto& v) {
            o.shared.timeout = duration(n, v, 1ms, 60s);
            of_store_ = n;
        });
    add("--prefetch", "N", "up to N tokens are taken ahead, as many as are used up soon (0)",
        [&o, this](auto& n, auto& v) {
            o.shared.prefetch = integer(n, v, 0, 500'000'000);
            of_store_ = n;
        });
    add("--queue", "N", "how many may wait for each limit (1024); 0: nobody waits",
        [&o](auto& n, auto& v) { o.queue.max_waiting = integer(n, v, 0, 1'000'000'000); });
    add("--patience", "TIME", "how long a request waits for its turn, all in all (1s)",
        [&o](auto& n, auto& v) { o.queue.patience = duration(n, v); });
    add("--upgrade", "PROTOCOL", "clients may go over to it, like websocket (to none)",
        [&o](auto& n, auto& v) {
            if (!config::is_upgrade(v))
                reject(n, v,
                       "a protocol like websocket, but not HTTP itself, whose requests would "
                       "pass no limit");
            o.upgrade = {v};
        });
    add_flag("--abort-on-hang-up", o.all.clients.abort_on_hang_up,
             "who hangs up frees the seat while the upstream still works");
    add("--max-connections", "N",
        "at most N clients at a time; others wait (as many as there are files)",
        [&o](auto& n, auto& v) { o.all.clients.connections = integer(n, v, 1, 1'000'000'000); });
    add("--threads", "N", "threads that serve (one for each processor)",
        [&o](auto& n, auto& v) { o.all.threads = integer(n, v, 1, 256); });
    add("--drain", "TIME", "how long Ctrl-C waits for requests that are being served (10s)",
        [&o](auto& n, auto& v) { o.all.drain = duration(n, v); });
    add("--access-log", "FILE", "a line for each request; - is standard output (none)",
        [&o](auto&, auto& v) { o.all.access_log = v; });
    add("--ratelimit-headers", "KIND",
        "what answers say of the limits: ietf, legacy, both or none (ietf)",
        [&o](auto& n, auto& v) {
            o.all.ratelimit_headers =
                named(n, v, config::limit_headers_of, "ietf, legacy, both or none");
        });
    add("--access-log-format", "FORMAT", "how that line is written: text or json (text)",
        [&o](auto& n, auto& v) {
            o.all.access_log_format = named(n, v, config::log_format_of, "text or json");
        });
    add("--log-level", "LEVEL", "what standard error is told: error, warning or info (info)",
        [&o](auto& n, auto& v) {
            o.all.log_level = named(n, v, tool::level_of, "error, warning or info");
        });
    add_flag("--pass-underscores", o.all.clients.pass_underscores,
             "forward fields with an underscore in their names, too");
    add("--header-timeout", "TIME", "for a client to send the header of a request (10s)",
        [&o](auto& n, auto& v) { o.all.timeouts.header = duration(n, v, 1ms); });
    add("--body-timeout", "TIME", "for a client to send or to take the next piece of a body (30s)",
        [&o](auto& n, auto& v) { o.all.timeouts.body = duration(n, v, 1ms); });
    add("--idle-timeout", "TIME", "for a client to begin another request (75s)",
        [&o](auto& n, auto& v) { o.all.timeouts.idle = duration(n, v, 1ms); });
    add("--upstream-timeout", "TIME", "for the upstream to connect, to answer or to go on (60s)",
        [&o](auto& n, auto& v) { o.all.timeouts.upstream = duration(n, v, 1ms); });
    add("--upstream-idle-timeout", "TIME",
        "how long a connection to the upstream is kept that is not used (5s)",
        [&o](auto& n, auto& v) { o.all.timeouts.keep = duration(n, v, 1ms); });
}

std::string command_line::of_file() const {
    for (auto const* const option : app_.get_options())
        if (option->count() > 0 && option->get_name() != "--config" &&
            option->get_name() != "--check" && option->get_name() != "--print-config" &&
            option->get_name() != "--reload" && option->get_name() != "--store")
            return option->get_name();
    return {};
}

// What the options amount to.
void complete(command& c, options const& o) {
    auto& all = c.configuration;
    all.listeners.push_back({*config::tcp_address_of(o.listen)});
    config::upstream to{.name = c.demo ? "demo" : "upstream", .servers = {{}}, .health = {}};
    if (!c.demo)
        to.servers[0].address = *config::tcp_address_of(o.upstream);
    // With as many connections as there are seats, an upstream that has so many workers, each of which looks after one
    // connection, serves all threads.
    if (o.seats)
        to.servers[0].connections = config::most_seats(*o.seats);
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
        throw tool::usage_error(fmt::format("{}; see --help", wrong.what()));
    }
    if (line.check + line.print + line.reload > 1)
        throw tool::usage_error("--check, --print-config and --reload exclude each other");
    if (line.reload && c.file.empty())
        throw tool::usage_error("--reload says nothing without --config");
    if (line.reload)
        c.what = command::action::reload;
    if (line.check)
        c.what = command::action::check;
    if (line.print)
        c.what = command::action::print;
    if (!c.file.empty()) {
        if (auto const other = line.of_file(); !other.empty())
            throw tool::usage_error(
                fmt::format("{} says nothing with --config: the file says it", other));
        return c;
    }
    if (c.demo == !o.upstream.empty())
        throw tool::usage_error(
            c.demo ? "--demo and --upstream exclude each other"
                   : "either --upstream HOST:PORT or --demo is needed, or --config FILE; see "
                     "--help");
    if (c.demo && line.print)
        throw tool::usage_error(
            "--print-config says nothing with --demo, whose address nobody knows yet");
    if (c.demo && !o.seats && !o.rate)
        o.seats = seats("--seats", "3");
    if (o.store.empty() && !line.of_store().empty())
        throw tool::usage_error(fmt::format("{} says nothing without --store", line.of_store()));
    if (!o.store.empty()) {
        if (!config::is_store_url(o.store))
            throw tool::usage_error(
                fmt::format("--store begins with none of {}", config::store_schemes));
        if (!o.rate)
            throw tool::usage_error(
                "--store keeps the rate of several proxies, but there is no --rate");
        if (o.queue.patience.length_or(weir::forever) <= 0ns)
            throw tool::usage_error(
                "--patience is 0s, but with --store a request waits for its answer: it "
                "must be more than a round trip, like 50ms");
    }
    complete(c, o);
    return c;
}

}  // namespace proxy
