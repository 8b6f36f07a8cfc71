#include "options.hpp"

#include "tool/text.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

namespace proxy {
namespace {

using namespace std::chrono_literals;

constexpr char const* about =
    R"(weir-proxy: an HTTP/1.1 reverse proxy that limits what reaches the service behind it.

  weir-proxy --upstream 127.0.0.1:9000 --seats 64 --rate 100/1s

Requests above the limits wait in a queue, first come, first served. A request that has waited in
vain, cannot be served in time or finds the queue full is answered 503 (seats), or 429 (rate, and
both limits of a client), with Retry-After. In brackets is what holds by default.

Several proxies keep one rate together, each with the same --rate, where a Redis or MariaDB server
counts:

  weir-proxy --upstream 127.0.0.1:9000 --rate 100/1s --engine redis://10.0.0.5)";

constexpr char const* footer =
    R"(
--seats adaptive finds out how many the upstream can serve without a queue, from 1 to 1000;
--seats "adaptive 4..200" has other bounds.
--rate and --per-client-rate also take any other rule that weir::limiter_config knows, such as
"100/1s burst 20", "100/1s leaky" or "10/60s sliding".
--engine may stand in the environment as WEIR_ENGINE, where a password is not seen. A URL is
redis://user:password@host:port/database, unix:/socket, mysql://user:password@host:port/database,
or mysql://user@/database?socket=/path. While the server does not answer, --on-failure closed
answers 503, open lets every request through, and `local 0.25` grants a quarter of the rate in
this proxy by itself.
A TIME is a whole number of ns, us, ms, s, min or h. SIGINT and SIGTERM let what is being
served finish, print what was done, and exit with 0; SIGUSR1 prints it and goes on; SIGHUP
opens the access log anew.)";

[[noreturn]] void reject(std::string const& option, std::string_view value, std::string_view must) {
    throw usage_error(fmt::format("{} is `{}`, but must be {}", option, value, must));
}

std::int64_t integer(std::string const& option, std::string_view value, std::int64_t least,
                     std::int64_t most) {
    auto const n = tool::number_of(value);
    if (!n || *n < least || *n > most)
        reject(option, value, fmt::format("a number from {} to {}", least, most));
    return *n;
}

weir::duration duration(std::string const& option, std::string_view value, weir::duration least) {
    auto const d = tool::time_of(value);
    if (!d || *d < least || *d > 24h)
        reject(option, value,
               least > 0ns ? "a time from 1ms to 24h, like 500ms, 10s or 2min"
                           : "a time from 0s to 24h, like 500ms, 10s or 2min");
    return *d;
}

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

// `64`, `adaptive` or `adaptive 4..200`.
void set_seats(options& o, std::string const& option, std::string_view value) {
    constexpr std::string_view word = "adaptive";
    constexpr weir::amount most = 1'000'000'000;
    if (!value.starts_with(word)) {
        o.adaptive_seats.reset();
        o.seats = integer(option, value, 1, most);
        return;
    }
    // It forgives latencies that vary, as those of different requests do.
    weir::gradient2_options adaptive{.least = 1, .most = 1'000};
    if (auto const bounds = value.substr(word.size()); !bounds.empty()) {
        auto const dots = bounds.find("..");
        auto const least = dots == bounds.npos || bounds[0] != ' '
                               ? std::nullopt
                               : tool::number_of(bounds.substr(1, dots - 1));
        auto const greatest =
            dots == bounds.npos ? std::nullopt : tool::number_of(bounds.substr(dots + 2));
        if (!least || !greatest || *least < 1 || *greatest < *least || *greatest > most)
            reject(option, value,
                   "a number, `adaptive`, or `adaptive 4..200` with bounds from 1 to 1000000000");
        adaptive.least = *least;
        adaptive.most = *greatest;
    }
    adaptive.seats = std::clamp(adaptive.seats, adaptive.least, adaptive.most);
    o.seats = adaptive.most;
    o.adaptive_seats = adaptive;
}

bool has_seats(weir::limiter_config const& rule) {
    if (auto const* const all = std::get_if<weir::all_options>(&rule.options))
        return std::ranges::any_of(all->parts, has_seats);
    return std::holds_alternative<weir::seats_options>(rule.options) ||
           std::holds_alternative<weir::adaptive_options>(rule.options);
}

// `100/1s`: the number of requests that any window of that length may see. Or any other rule that the
// library knows.
weir::limiter_config rate(std::string const& option, std::string_view value) {
    try {
        auto const rule = weir::limiter_config::parse(value);
        if (has_seats(rule))
            reject(option, value,
                   fmt::format("a rate, like 100/1s; for seats there is {}",
                               option == "--rate" ? "--seats" : "--per-client-seats"));
        (void)weir::policy::any(rule);  // checks the values
        return rule;
    } catch (std::invalid_argument const& wrong) {
        reject(option, value, fmt::format("a rate, like 100/1s: {}", wrong.what()));
    }
}

// What becomes of requests while the engine cannot be asked.
decltype(weir::shared_options::on_failure) failure_mode(std::string const& option,
                                                        std::string_view value) {
    if (value == "closed")
        return weir::fail_closed();
    if (value == "open")
        return weir::fail_open();
    constexpr std::string_view local = "local ";
    auto const number = value.substr(std::min(value.size(), local.size()));
    double share = 0;
    auto const* const end = number.data() + number.size();
    auto const [stop, failed] = std::from_chars(number.data(), end, share);
    if (!value.starts_with(local) || failed != std::errc() || stop != end || !(share >= 1e-6) ||
        !(share <= 1))
        reject(option, value, "closed, open, or local and a share up to 1, like `local 0.25`");
    return weir::fail_local{share};
}

// The rule of --rate, as an engine keeps it.
void share_rate(options& o) {
    auto& shared = o.shared.options;
    auto const* const log = std::get_if<weir::sliding_log_options>(&o.rate->options);
    auto const* const bucket = std::get_if<weir::token_bucket_options>(&o.rate->options);
    auto const text = to_string(*o.rate);
    if (log) {
        shared.rate = {log->limit, log->window};
        o.shared.log = true;
    } else if (bucket) {
        shared.rate = bucket->rate;
        shared.burst = bucket->burst;
    }
    bool const is_plain =
        log || (bucket && !bucket->initial && bucket->refill == weir::refill::continuous);
    if (!is_plain)
        reject("--rate", text, "like 100/1s or 100/1s burst 20 where --engine keeps it");
    try {
        if (log)
            (void)weir::policy::fed_log(shared);
        else
            (void)weir::policy::fed(shared);
    } catch (std::invalid_argument const& wrong) {
        reject(
            "--rate", text,
            fmt::format("a rate that --engine can keep, like 100/1s burst 20: {}", wrong.what()));
    }
}

// The options of the program. What stands in `o` when they are added is the default.
class command_line {
public:
    explicit command_line(options& o);

    void parse(int argc, char const* const* argv) { app_.parse(argc, argv); }
    [[nodiscard]] std::string help() const { return app_.help(); }
    /// An option that was given, and that says nothing without --engine; empty if there was none.
    [[nodiscard]] std::string const& of_engine() const { return of_engine_; }

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
    std::string of_engine_;
};

command_line::command_line(options& o) {
    app_.set_help_flag("--help", "this text");
    app_.footer(footer);
    app_.get_formatter()->column_width(28);

    add("--upstream", "HOST:PORT", "the service that stands behind the proxy",
        [&o](auto& n, auto& v) { o.upstream = address(n, v, 1); });
    add_flag("--demo", o.demo, "put a small kitchen of its own behind it, to play with");
    add("--listen", "HOST:PORT", "where clients come in (127.0.0.1:8080)",
        [&o](auto& n, auto& v) { o.listen = address(n, v, 0); });
    add("--seats", "N", "at most N requests at the upstream at a time, or adaptive (no limit)",
        [&o](auto& n, auto& v) { set_seats(o, n, v); });
    add("--rate", "N/TIME",
        "at most N requests to the upstream in any TIME, like 100/1s (no limit)",
        [&o](auto& n, auto& v) { o.rate = rate(n, v); });
    add("--per-client-seats", "N", "at most N requests of each client at a time (no limit)",
        [&o](auto& n, auto& v) { o.per_client_seats = integer(n, v, 1, 1'000'000'000); });
    add("--per-client-rate", "N/TIME", "at most N requests of each client in any TIME (no limit)",
        [&o](auto& n, auto& v) { o.per_client_rate = rate(n, v); });
    add("--max-clients", "N", "so many have limits of their own; others share one (100000)",
        [&o](auto& n, auto& v) { o.max_clients = integer(n, v, 1, 1'000'000'000); });
    add("--client-prefix-v4", "BITS",
        "IPv4 clients with so many bits of the address in common are one (32)",
        [&o](auto& n, auto& v) { o.client_prefix.v4 = int(integer(n, v, 0, 32)); });
    add("--client-prefix-v6", "BITS", "the same for IPv6 (64)",
        [&o](auto& n, auto& v) { o.client_prefix.v6 = int(integer(n, v, 0, 64)); });
    add("--engine", "URL", "where --rate is counted for several proxies (in each by itself)",
        [&o](auto&, auto& v) { o.engine = v; })
        ->envname("WEIR_ENGINE");
    add("--name", "NAME", "of the rate that proxies share (weir-proxy)",
        [&o, this](auto& n, auto& v) {
            if (v.empty() || v.size() > 255)
                reject(n, v, "a name of 1 to 255 bytes");
            o.name = v;
            of_engine_ = n;
        });
    add("--on-failure", "MODE",
        "while --engine does not answer: closed, open or `local 0.25` (closed)",
        [&o, this](auto& n, auto& v) {
            o.shared.options.on_failure = failure_mode(n, v);
            of_engine_ = n;
        });
    add("--engine-deadline", "TIME", "how long an answer of --engine is waited for (50ms)",
        [&o, this](auto& n, auto& v) {
            o.shared.options.deadline = std::min<weir::duration>(duration(n, v, 1ms), 60s);
            of_engine_ = n;
        });
    add("--lease", "N", "up to N tokens are taken ahead, as many as are used up soon (0)",
        [&o, this](auto& n, auto& v) {
            o.shared.options.lease = integer(n, v, 0, 500'000'000);
            of_engine_ = n;
        });
    add("--queue", "N", "how many may wait for each limit (1024); 0: nobody waits",
        [&o](auto& n, auto& v) { o.queue = integer(n, v, 0, 1'000'000'000); });
    add("--patience", "TIME", "how long a request waits for its turn, all in all (1s)",
        [&o](auto& n, auto& v) { o.patience = duration(n, v, 0s); });
    add_flag("--abort-on-hang-up", o.abort_on_hang_up,
             "who hangs up frees the seat while the upstream still works");
    add("--connections", "N",
        "at most N clients at a time; others wait (as many as there are files)",
        [&o](auto& n, auto& v) { o.connections = integer(n, v, 1, 1'000'000'000); });
    add("--threads", "N", "threads that serve (one for each processor)",
        [&o](auto& n, auto& v) { o.threads = integer(n, v, 1, 256); });
    add("--drain", "TIME", "how long Ctrl-C waits for requests that are being served (10s)",
        [&o](auto& n, auto& v) { o.drain = duration(n, v, 0s); });
    add("--access-log", "FILE", "a line for each request; - is standard output (none)",
        [&o](auto&, auto& v) { o.access_log = v; });
    add_flag("--pass-underscores", o.pass_underscores,
             "forward fields with an underscore in their names, too");
    add("--header-timeout", "TIME", "for a client to send the header of a request (10s)",
        [&o](auto& n, auto& v) { o.limits.header = duration(n, v, 1ms); });
    add("--body-timeout", "TIME", "for a client to send or to take the next piece of a body (30s)",
        [&o](auto& n, auto& v) { o.limits.body = duration(n, v, 1ms); });
    add("--idle-timeout", "TIME", "for a client to begin another request (75s)",
        [&o](auto& n, auto& v) { o.limits.idle = duration(n, v, 1ms); });
    add("--upstream-timeout", "TIME", "for the upstream to connect, to answer or to go on (60s)",
        [&o](auto& n, auto& v) { o.limits.upstream = duration(n, v, 1ms); });
    add("--keep", "TIME", "how long a connection to the upstream is kept that is not used (5s)",
        [&o](auto& n, auto& v) { o.limits.keep = duration(n, v, 1ms); });
}

}  // namespace

options parse_options(int argc, char const* const* argv) {
    options o;
    command_line line(o);
    try {
        line.parse(argc, argv);
    } catch (CLI::CallForHelp const&) {
        o.help = line.help();
        return o;
    } catch (CLI::ParseError const& wrong) {
        throw usage_error(fmt::format("{}; see --help", wrong.what()));
    }
    if (o.demo == !o.upstream.empty())
        throw usage_error(o.demo ? "--demo and --upstream exclude each other"
                                 : "either --upstream HOST:PORT or --demo is needed; see --help");
    if (o.demo && !o.seats && !o.rate)
        o.seats = 3;
    if (o.engine.empty() && !line.of_engine().empty())
        throw usage_error(fmt::format("{} says nothing without --engine", line.of_engine()));
    if (!o.engine.empty()) {
        if (!o.rate)
            throw usage_error("--engine keeps the rate of several proxies, but there is no --rate");
        if (o.patience <= 0ns)
            throw usage_error(
                "--patience is 0s, but with --engine a request waits for its answer: it "
                "must be more than a round trip, like 50ms");
        share_rate(o);
    }
    if (o.threads == 0)
        o.threads = std::max(1u, std::thread::hardware_concurrency());
    return o;
}

}  // namespace proxy
