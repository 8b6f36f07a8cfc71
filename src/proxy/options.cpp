#include "options.hpp"

#include "tool/command_line.hpp"
#include "tool/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

namespace proxy {
namespace {

using namespace std::chrono_literals;

std::int64_t integer(std::string_view option, std::string_view value, std::int64_t least,
                     std::int64_t most) {
    auto const n = tool::number_of(value);
    if (!n || *n < least || *n > most)
        tool::reject(option, value, fmt::format("a number from {} to {}", least, most));
    return *n;
}

weir::duration duration(std::string_view option, std::string_view value, weir::duration least) {
    auto const d = tool::time_of(value);
    if (!d || *d < least || *d > 24h)
        tool::reject(option, value,
                     least > 0ns ? "a time from 1ms to 24h, like 500ms, 10s or 2min"
                                 : "a time from 0s to 24h, like 500ms, 10s or 2min");
    return *d;
}

// From which port on an address may name it: 0 is any that is free.
std::string address(std::string_view option, std::string_view value, std::int64_t least_port) {
    auto const found = tool::address_of(value);
    if (!found || tool::number_of(found->port) < least_port)
        tool::reject(
            option, value,
            fmt::format(
                "host:port, with a port from {} to 65535, like 127.0.0.1:8080 or [::1]:8080",
                least_port));
    return std::string(value);
}

bool has_seats(weir::limiter_config const& rule) {
    if (auto const* const all = std::get_if<weir::all_options>(&rule.options))
        return std::ranges::any_of(all->parts, has_seats);
    return std::holds_alternative<weir::seats_options>(rule.options);
}

// `100/1s`: the number of requests that any window of that length may see. Or any other rule that the
// library knows.
weir::limiter_config rate(std::string_view option, std::string_view value) {
    try {
        auto const rule = weir::limiter_config::parse(value);
        if (has_seats(rule))
            tool::reject(option, value, "a rate, like 100/1s; for seats there is --seats");
        (void)weir::policy::any(rule);  // checks the values
        return rule;
    } catch (std::invalid_argument const& wrong) {
        tool::reject(option, value, fmt::format("a rate, like 100/1s: {}", wrong.what()));
    }
}

// What the command line may say, and where that goes.
std::vector<tool::option> table(options& o) {
    return {
        {"--upstream", "HOST:PORT", "the service that stands behind the proxy",
         [&o](auto n, auto v) { o.upstream = address(n, v, 1); }},
        {"--demo", "", "put a small kitchen of its own behind it, to play with",
         [&o](auto, auto) { o.demo = true; }},
        {"--listen", "HOST:PORT", "where clients come in (127.0.0.1:8080)",
         [&o](auto n, auto v) { o.listen = address(n, v, 0); }},
        {"--seats", "N", "at most N requests at the upstream at a time (no limit)",
         [&o](auto n, auto v) { o.seats = integer(n, v, 1, 1'000'000'000); }},
        {"--rate", "N/TIME",
         "at most N requests to the upstream in any TIME, like 100/1s (no limit)",
         [&o](auto n, auto v) { o.rate = rate(n, v); }},
        {"--queue", "N", "how many may wait for each of the two limits (1024); 0: nobody waits",
         [&o](auto n, auto v) { o.queue = integer(n, v, 0, 1'000'000'000); }},
        {"--patience", "TIME", "how long a request waits for its turn, all in all (1s)",
         [&o](auto n, auto v) { o.patience = duration(n, v, 0s); }},
        {"--abort-on-hang-up", "", "who hangs up frees the seat while the upstream still works",
         [&o](auto, auto) { o.abort_on_hang_up = true; }},
        {"--connections", "N",
         "at most N clients at a time; others wait (as many as there are files)",
         [&o](auto n, auto v) { o.connections = integer(n, v, 1, 1'000'000'000); }},
        {"--threads", "N", "threads that serve (one for each processor)",
         [&o](auto n, auto v) { o.threads = integer(n, v, 1, 256); }},
        {"--drain", "TIME", "how long Ctrl-C waits for requests that are being served (10s)",
         [&o](auto n, auto v) { o.drain = duration(n, v, 0s); }},
        {"--access-log", "FILE", "a line for each request; - is standard output (none)",
         [&o](auto, auto v) { o.access_log = v; }},
        {"--header-timeout", "TIME", "for a client to send the header of a request (10s)",
         [&o](auto n, auto v) { o.limits.header = duration(n, v, 1ms); }},
        {"--body-timeout", "TIME", "for a client to send or to take the next piece of a body (30s)",
         [&o](auto n, auto v) { o.limits.body = duration(n, v, 1ms); }},
        {"--idle-timeout", "TIME", "for a client to begin another request (75s)",
         [&o](auto n, auto v) { o.limits.idle = duration(n, v, 1ms); }},
        {"--upstream-timeout", "TIME", "for the upstream to connect, to answer or to go on (60s)",
         [&o](auto n, auto v) { o.limits.upstream = duration(n, v, 1ms); }},
        {"--keep", "TIME", "how long a connection to the upstream is kept that is not used (5s)",
         [&o](auto n, auto v) { o.limits.keep = duration(n, v, 1ms); }},
        {"--help", "", "this text", [&o](auto, auto) { o.help = true; }},
    };
}

}  // namespace

options parse_options(int argc, char const* const* argv) {
    options result;
    tool::parse({argv + 1, static_cast<std::size_t>(argc - 1)}, table(result));
    if (result.help)
        return result;
    if (result.demo == !result.upstream.empty())
        throw tool::usage_error(
            result.demo ? "--demo and --upstream exclude each other"
                        : "either --upstream HOST:PORT or --demo is needed; see --help");
    if (result.demo && !result.seats && !result.rate)
        result.seats = 3;
    if (result.threads == 0)
        result.threads = std::max(1u, std::thread::hardware_concurrency());
    return result;
}

std::string help() {
    std::string text =
        R"(weir-proxy: an HTTP/1.1 reverse proxy that limits what reaches the service behind it.

  weir-proxy --upstream 127.0.0.1:9000 --seats 64 --rate 100/1s

Requests above the limits wait in a queue, first come, first served. Who has lost patience,
could not be served in time or finds the queue full is answered 429 (rate) or 503 (seats)
with Retry-After; who hangs up leaves the queue. In brackets is what holds by default.

)";
    options unused;
    text += tool::describe(table(unused));
    text += R"(
--rate also takes any other rule that weir::limiter_config knows, such as "100/1s burst 20",
"100/1s leaky" or "10/60s sliding".
A TIME is a whole number of ns, us, ms, s, min or h. SIGINT and SIGTERM let what is being
served finish, print what was done, and exit with 0; SIGUSR1 prints it and goes on.
)";
    return text;
}

}  // namespace proxy
