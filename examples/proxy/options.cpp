#include "options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

namespace proxy {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void fail(std::string_view option, std::string_view value, std::string_view must) {
    throw usage_error(fmt::format("{} is `{}`, but must be {}", option, value, must));
}

// What is neither a number nor a time is this.
constexpr std::int64_t nonsense = -1;

// A whole number, not below 0.
std::int64_t number(std::string_view text) {
    std::int64_t n = 0;
    auto const* const last = text.data() + text.size();
    auto const [end, ec] = std::from_chars(text.data(), last, n);
    return ec == std::errc() && end == last && n >= 0 ? n : nonsense;
}

std::int64_t integer(std::string_view option, std::string_view value, std::int64_t least,
                     std::int64_t most) {
    auto const n = number(value);
    if (n < least || n > most)
        fail(option, value, fmt::format("a number from {} to {}", least, most));
    return n;
}

// `10s`, `500ms`, `2min`, `1h`.
weir::duration time_of(std::string_view text) {
    constexpr std::array<std::pair<std::string_view, weir::duration>, 6> units{
        {{"ns", 1ns}, {"us", 1us}, {"ms", 1ms}, {"s", 1s}, {"min", 1min}, {"h", 1h}}};
    for (auto const& [unit, length] : units)
        if (text.ends_with(unit))
            if (auto const n = number(text.substr(0, text.size() - unit.size())); n != nonsense)
                return weir::times(length, n);
    return weir::duration(nonsense);
}

weir::duration duration(std::string_view option, std::string_view value, weir::duration least) {
    auto const d = time_of(value);
    if (d < least || d > 24h)
        fail(option, value,
             least > 0ns ? "a time from 1ms to 24h, like 500ms, 10s or 2min"
                         : "a time from 0s to 24h, like 500ms, 10s or 2min");
    return d;
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
            fail(option, value, "a rate, like 100/1s; for seats there is --seats");
        (void)weir::policy::any(rule);  // checks the values
        return rule;
    } catch (std::invalid_argument const& wrong) {
        fail(option, value, fmt::format("a rate, like 100/1s: {}", wrong.what()));
    }
}

struct option {
    std::string_view name;
    std::string_view argument;  // empty: takes none
    std::string_view help;
    void (*set)(options&, std::string_view name, std::string_view value);
};

constexpr option all[] = {
    {"--upstream", "HOST:PORT", "the service that stands behind the proxy",
     [](options& o, auto, auto v) { o.upstream = v; }},
    {"--demo", "", "put a small kitchen of its own behind it, to play with",
     [](options& o, auto, auto) { o.demo = true; }},
    {"--listen", "HOST:PORT", "where clients come in (127.0.0.1:8080)",
     [](options& o, auto, auto v) { o.listen = v; }},
    {"--seats", "N", "at most N requests at the upstream at a time (no limit)",
     [](options& o, auto n, auto v) { o.seats = integer(n, v, 1, 1'000'000'000); }},
    {"--rate", "N/TIME", "at most N requests to the upstream in any TIME, like 100/1s (no limit)",
     [](options& o, auto n, auto v) { o.rate = rate(n, v); }},
    {"--queue", "N", "how many may wait for each of the two limits (1024); 0: nobody waits",
     [](options& o, auto n, auto v) { o.queue = integer(n, v, 0, 1'000'000'000); }},
    {"--patience", "TIME", "how long a request waits for its turn, all in all (1s)",
     [](options& o, auto n, auto v) { o.patience = duration(n, v, 0s); }},
    {"--threads", "N", "threads that serve (one for each processor)",
     [](options& o, auto n, auto v) { o.threads = integer(n, v, 1, 256); }},
    {"--drain", "TIME", "how long Ctrl-C waits for requests that are being served (10s)",
     [](options& o, auto n, auto v) { o.drain = duration(n, v, 0s); }},
    {"--access-log", "FILE", "a line for each request; - is standard output (none)",
     [](options& o, auto, auto v) { o.access_log = v; }},
    {"--header-timeout", "TIME", "for a client to send the header of a request (10s)",
     [](options& o, auto n, auto v) { o.header_timeout = duration(n, v, 1ms); }},
    {"--body-timeout", "TIME", "for a client to send or to take the next piece of a body (30s)",
     [](options& o, auto n, auto v) { o.body_timeout = duration(n, v, 1ms); }},
    {"--idle-timeout", "TIME", "for a client to begin another request (75s)",
     [](options& o, auto n, auto v) { o.idle_timeout = duration(n, v, 1ms); }},
    {"--upstream-timeout", "TIME", "for the upstream to connect, to answer or to go on (60s)",
     [](options& o, auto n, auto v) { o.upstream_timeout = duration(n, v, 1ms); }},
    {"--help", "", "this text", [](options& o, auto, auto) { o.help = true; }},
};

}  // namespace

host_and_port split_address(std::string const& option, std::string const& text) {
    auto const colon = text.rfind(':');
    auto const port = colon == text.npos ? nonsense : number(text.substr(colon + 1));
    auto host = text.substr(0, colon == text.npos ? 0 : colon);
    if (host.starts_with('[') && host.ends_with(']'))
        host = host.substr(1, host.size() - 2);
    else if (host.find(':') != host.npos)
        host.clear();
    if (host.empty() || port < 0 || port > 65535)
        fail(option, text, "host:port, like 127.0.0.1:8080 or [::1]:8080");
    return {host, text.substr(colon + 1)};
}

options parse_options(int argc, char const* const* argv) {
    options result;
    std::span const words(argv + 1, static_cast<std::size_t>(argc - 1));
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string_view word = words[i];
        auto const equals = word.starts_with("--") ? word.find('=') : word.npos;
        auto const name = word.substr(0, equals);
        auto const* const known =
            std::find_if(std::begin(all), std::end(all), [&](auto& o) { return o.name == name; });
        if (known == std::end(all))
            throw usage_error(fmt::format("there is no option `{}`; see --help", name));
        std::string_view value;
        if (known->argument.empty()) {
            if (equals != word.npos)
                throw usage_error(fmt::format("{} takes no value", name));
        } else if (equals != word.npos) {
            value = word.substr(equals + 1);
        } else if (i + 1 < words.size()) {
            value = words[++i];
        } else {
            throw usage_error(fmt::format(
                "{} is the last word, but must be followed by {}", name, known->argument));
        }
        known->set(result, name, value);
    }
    if (result.help)
        return result;
    if (result.demo == !result.upstream.empty())
        throw usage_error(result.demo
                              ? "--demo and --upstream exclude each other"
                              : "either --upstream HOST:PORT or --demo is needed; see --help");
    if (!result.demo)
        (void)split_address("--upstream", result.upstream);
    (void)split_address("--listen", result.listen);
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
    for (auto const& o : all)
        text += fmt::format("  {:<28}{}\n", fmt::format("{} {}", o.name, o.argument), o.help);
    text += R"(
--rate also takes any other rule that weir::limiter_config knows, such as "100/1s burst 20",
"100/1s leaky" or "10/60s sliding".
A TIME is a whole number of ns, us, ms, s, min or h. SIGINT and SIGTERM let what is being
served finish, print what was done, and exit with 0; SIGUSR1 prints it and goes on.
)";
    return text;
}

}  // namespace proxy
