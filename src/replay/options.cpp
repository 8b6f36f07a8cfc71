#include "options.hpp"

#include <weir/version.hpp>

#include "config/configuration.hpp"
#include "tool/arguments.hpp"
#include "tool/command_line.hpp"
#include "tool/completion.hpp"
#include "tool/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace replay {
namespace {

using namespace std::chrono_literals;
using tool::duration;
using tool::integer;
using tool::reject;

constexpr char const* about =
    R"(weir-replay: applies limits to the requests of an access log.

  weir-replay access.log --limit 100/1s --limit "20/1s burst 50 per client"
  weir-replay access.log --limit 100/1s --versus 200/1s --versus "patience 3s"
  weir-replay access.log --find 100/1s --max-rejected 0.1%
  weir-replay access.log --config weir.toml --versus "everybody: 32 seats" --versus other.toml

It replays the requests through the limiters of weir-proxy, on the log's own time, and reports which
requests would have been granted immediately, delayed or rejected. Defaults are in parentheses.)";

constexpr char const* footer =
    R"(
RULE is a rule of weir::limiter_config: 100/1s, "100/1s burst 20", "10/60s sliding", "32 seats",
"1000/day zone Europe/Berlin"; or a rate of bytes, to clients or from them: "10MB/s down",
"500kB/s burst 1MB up". Append "per client", "per path", "per path N" (segment N),
"per header NAME" or "per field NAME" to give each value its own limit. A request passes all limits
or takes nothing from any, as in weir-proxy.
ALTERNATIVE is a comma-separated list. A RULE replaces the rules of its kind, which are the seats or
the rates with the same key and direction; "patience TIME" and "queue N" replace these values. With
--config, "NAME: RULE" replaces the rule of one limit, "patience TIME" and "queue N" apply to all
limits, and a name that ends in .toml is another configuration. --find takes "NAME: RULE", too.
The report states what the log lacks, such as the host or a header, and its assumptions.
FORMAT is common, combined, haproxy, weir-proxy, an nginx log_format, or json with member names:
"json time=ts client=ip took=ms:ms" (time, client, request, target, method, host, status, took,
sent, received; nested: request.uri). Times without a zone are UTC. Files may be gzip-compressed.
--spread places the requests of a log with whole seconds: even distributes them evenly within their
second, random at random, burst all at once. By default the report uses even and also gives the
rejections of the others.
TIME is a whole number and a unit: ns, us, ms, s, min or h. Ctrl-C prints a partial report.

The log of 1 August 1995, from the Kennedy Space Center:

  weir-replay nasa-1995-08-01.log.gz --limit "5/1s" --limit "1/1s burst 10 per client"
  weir-replay nasa-1995-08-01.log.gz --find "5/1s" --max-rejected 1%)";

// Parses a share: `0.1%` or `0.001`.
double part(std::string const& option, std::string_view value) {
    bool const is_percent = value.ends_with('%');
    auto const n = tool::decimal_of(value.substr(0, value.size() - (is_percent ? 1 : 0)));
    auto const found = is_percent && n ? *n / 100 : n;
    if (!found || !(*found >= 0) || !(*found <= 1))
        reject(option, value, "a share such as 0.1% or 0.001");
    return *found;
}

// Parses the value of --seats as weir-proxy does.
rule seats(std::string const& option, std::string_view value) {
    auto found = config::seats_named(value);
    if (!found)
        reject(option, value,
               "a number from 1 to 1000000000, `adaptive` or `adaptive MIN..MAX` with MIN <= "
               "MAX in that range");
    return {std::move(*found), {}};
}

// The plan of `FILE.toml`, or `p` with the changes that `text` lists.
plan alternative(plan p, std::string_view text) {
    if (text.ends_with(".toml"))
        return plan_of_file(std::string(text));
    p.name = text;
    while (!text.empty()) {
        auto one = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), one.size() + 1));
        one.remove_prefix(std::min(one.size(), one.find_first_not_of(' ')));
        p.change("--versus", one);
    }
    return p;
}

std::string rules_of(plan const& p) {
    std::vector<std::string> texts;
    for (auto const& r : p.rules)
        texts.push_back(to_string(r));
    for (auto const& r : p.byte_rules)
        texts.push_back(to_string(r));
    return fmt::format("{}", fmt::join(texts, ", "));
}

// Quotes a word for a shell, if necessary.
std::string quoted(std::string_view word) {
    auto const is_plain = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) ||
               std::string_view("_-./:=%,@").find(c) != std::string_view::npos;
    };
    if (!word.empty() && std::ranges::all_of(word, is_plain))
        return std::string(word);
    std::string out = "'";
    for (char const c : word)
        out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

// --queue and --patience may both set the patience, to the same value. `of_queue` is not set if --queue does not.
weir::patience patience_of(weir::patience of_queue, std::optional<weir::duration> of_option) {
    if (!of_queue.is_set())
        return of_option.value_or(config::limit::default_patience);
    if (of_option && *of_option != of_queue.length_or(weir::forever))
        throw tool::usage_error(
            fmt::format("--patience {} contradicts `{}` in --queue", tool::to_text(*of_option),
                        config::text_of({.patience = of_queue})));
    return of_queue;
}

class command_line {
public:
    explicit command_line(options& o);

    void parse(int argc, char const* const* argv) { app_.parse(argc, argv); }
    [[nodiscard]] std::string help() const { return app_.help(); }
    [[noreturn]] void fail(CLI::ParseError const& wrong) const { tool::reject(app_, wrong); }
    /// A given option that --config excludes; empty if none was given.
    [[nodiscard]] std::string of_file() const {
        for (char const* const name :
             {"--limit", "--seats", "--rate", "--per-client-seats", "--per-client-rate",
              "--max-keys", "--client-prefix-v4", "--client-prefix-v6", "--queue", "--patience"})
            if (app_.get_option(name)->count() > 0)
                return name;
        return {};
    }

    plan base;
    std::optional<weir::duration> patience;
    std::string file;
    std::vector<std::string> versus;
    bool has_max_keys = false;
    bool has_max_rejected = false;
    bool has_max_slowed = false;

private:
    template <class Set>
    CLI::Option* add(std::string const& name, char const* type, char const* help, Set set) {
        auto* const option = app_.add_option_function<std::string>(
            name, [name, set](std::string const& value) { set(name, value); }, help);
        return option->type_name(type);
    }
    // Adds an option that may be given several times.
    template <class Set>
    void add_each(std::string const& name, char const* type, char const* help, Set set) {
        auto* const option = app_.add_option_function<std::vector<std::string>>(
            name,
            [name, set](std::vector<std::string> const& values) {
                for (auto const& value : values)
                    set(name, value);
            },
            help);
        option->type_name(type)->expected(1)->allow_extra_args(false)->take_all();
    }

    CLI::App app_{about, "weir-replay"};
};

command_line::command_line(options& o) {
    base.queue.patience = {};
    app_.set_help_flag("--help", "print this help and exit");
    app_.set_version_flag("--version", "weir-replay " WEIR_VERSION_STRING "\n",
                          "print the version and exit");
    tool::add_completion(app_);
    app_.footer(footer);
    app_.get_formatter()->column_width(28);

    app_.add_option("LOG", o.logs.files, "access logs, merged by time; - is standard input")
        ->type_name("")
        ->required();
    add("--config", "FILE", "take limits and routes from a weir-proxy configuration",
        [this](auto&, auto& v) { file = v; });
    add("--host", "NAME", "with --config: host of the requests for which the log has none",
        [&o](auto&, auto& v) { o.how.host = v; });
    add_each("--limit", "RULE", "a limit for all requests, or per client or other key",
             [this](auto& n, auto& v) { base.add(n, v); });
    add("--seats", "N", "at most N concurrent requests, or adaptive (as in weir-proxy)",
        [this](auto& n, auto& v) { base.rules.push_back(seats(n, v)); });
    add("--rate", "N/TIME", "at most N requests in any TIME (as in weir-proxy)",
        [this](auto& n, auto& v) { base.rules.push_back(rule_of(n, v)); });
    add("--per-client-seats", "N", "at most N concurrent requests per client",
        [this](auto& n, auto& v) {
            (void)integer(n, v, 1, 1'000'000'000);
            base.rules.push_back(rule_of(n, v + " seats per client"));
        });
    add("--per-client-rate", "N/TIME", "at most N requests per client in any TIME",
        [this](auto& n, auto& v) { base.rules.push_back(rule_of(n, v + " per client")); });
    add("--max-keys", "N", "track at most N keys; further keys share one limit (100000)",
        [this](auto& n, auto& v) {
            base.max_keys = static_cast<std::uint64_t>(integer(n, v, 1, 1'000'000'000));
            has_max_keys = true;
        });
    add("--client-prefix-v4", "BITS",
        "group IPv4 clients by the first BITS bits of the address (32)",
        [&o, this](auto& n, auto& v) {
            o.how.v4_prefix = base.v4_prefix = int(integer(n, v, 0, 32));
        });
    add("--client-prefix-v6", "BITS",
        "group IPv6 clients by the first BITS bits of the address (64)",
        [&o, this](auto& n, auto& v) {
            o.how.v6_prefix = base.v6_prefix = int(integer(n, v, 0, 64));
        });
    add("--queue", "N", "at most N requests wait for each limit (1024); or queue options",
        [this](auto& n, auto& v) { base.change(n, "queue " + v); });
    add("--patience", "TIME", "longest total wait of a request (1s)",
        [this](auto& n, auto& v) { patience = duration(n, v); });
    add_each("--versus", "ALTERNATIVE", "limits to compare with these",
             [this](auto&, auto& v) { versus.push_back(v); });
    add("--find", "RULE", "find the smallest sufficient number in RULE or `patience TIME`",
        [&o](auto& n, auto& v) {
            try {
                o.find = unknown::parse(v);
                o.find_text = v;
            } catch (tool::usage_error const& wrong) {
                reject(n, v, fmt::format("a rule, or `patience TIME`: {}", wrong.what()));
            }
        });
    add("--max-rejected", "SHARE", "for --find: largest acceptable share of rejections (0.1%)",
        [&o, this](auto& n, auto& v) {
            o.max_rejected = part(n, v);
            has_max_rejected = true;
        });
    add("--max-slowed", "SHARE", "for --find with bytes: largest share of slowed responses (0.1%)",
        [&o, this](auto& n, auto& v) {
            o.max_slowed = part(n, v);
            has_max_slowed = true;
        });
    add("--service-time", "TIME",
        "service time if the log has none: 50ms, `exponential 50ms` or 10ms..90ms",
        [&o](auto& n, auto& v) {
            o.how.takes = service_time::parse(v);
            if (!o.how.takes)
                reject(n, v, "a time such as 50ms, `exponential 50ms` or 10ms..90ms");
        });
    add("--retry", "N", "clients retry rejected requests after Retry-After, up to N times (0)",
        [&o](auto& n, auto& v) { o.how.retries = int(integer(n, v, 0, 1'000'000)); });
    add("--spread", "HOW", "arrival within a whole second: even, random, `random SEED` or burst",
        [&o](auto& n, auto& v) {
            auto const how = spread::parse(v);
            if (!how)
                reject(n, v, "even, random, `random SEED` or burst");
            o.how.spreads = {*how};
            o.is_spread_chosen = true;
        });
    add("--format", "FORMAT", "log format (detected)", [&o](auto&, auto& v) { o.logs.format = v; });
    add("--timestamp", "WHEN", "log times mark the start or the end of a request (by the format)",
        [&o](auto& n, auto& v) {
            if (v != "start" && v != "end")
                reject(n, v, "start or end");
            o.logs.when = v == "end" ? logs::stamped::at_the_end : logs::stamped::at_the_beginning;
        });
    add("--slack", "TIME", "longest time by which lines may be out of order (1min)",
        [&o](auto& n, auto& v) {
            o.how.slack = std::chrono::ceil<std::chrono::seconds>(duration(n, v, 0s, 1h));
        });
    add("--max-unreadable", "SHARE", "largest acceptable share of unreadable lines (5%)",
        [&o](auto& n, auto& v) { o.logs.most_unreadable = part(n, v); });
    add("--top", "N", "list the N keys with the most rejections or bytes (10)",
        [&o](auto& n, auto& v) {
            o.how.most_keys = static_cast<std::size_t>(integer(n, v, 0, 1'000'000));
        });
    app_.add_flag("--json", o.json, "print the report as JSON");
    add("--report", "FILE", "also write the report with plots to FILE, as HTML",
        [&o](auto&, auto& v) { o.html = v; });
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
    } catch (CLI::CallForVersion const& called) {
        o.help = called.what();
        return o;
    } catch (CLI::ParseError const& wrong) {
        line.fail(wrong);
    }
    auto& base = line.base;
    base.sort();
    base.queue.patience = patience_of(base.queue.patience, line.patience);
    if (o.find && !line.versus.empty())
        throw tool::usage_error("--find and --versus exclude each other");
    bool const finds_bytes = o.find && o.find->is_of_bytes();
    if (line.has_max_rejected && (!o.find || finds_bytes))
        throw tool::usage_error(finds_bytes ? "a rate of bytes rejects no request: use --max-slowed"
                                            : "--max-rejected requires --find");
    if (line.has_max_slowed && !finds_bytes)
        throw tool::usage_error("--max-slowed requires --find with a rate of bytes");
    if (o.find && std::ranges::count(o.logs.files, "-"))
        throw tool::usage_error(
            "--find reads the log several times, so it cannot use standard input");
    if (std::ranges::count(o.logs.files, "-") > 1)
        throw tool::usage_error("- (standard input) appears twice");
    base.name = rules_of(base);
    if (!line.file.empty()) {
        if (auto const other = line.of_file(); !other.empty())
            throw tool::usage_error(
                fmt::format("{} and --config exclude each other; set it in the file", other));
        base = plan_of_file(line.file);
    } else if (base.name.empty() && !(o.find && !o.find->is_patience())) {
        throw tool::usage_error(
            "no limit given; use --limit, --seats, --rate or --config; see --help");
    }

    o.plans.push_back(base);
    for (auto const& text : line.versus)
        o.plans.push_back(alternative(base, text));

    auto all = o.plans;
    if (o.find)
        all.push_back(o.find->with(base, 1));
    for (auto const& p : all)
        if (p.rules.size() + p.byte_rules.size() > most_rules)
            throw tool::usage_error(fmt::format("more than {} limits", most_rules));
    auto const has_keys = [](plan const& p) {
        auto const has_key = [](auto const& r) { return r.per.has_value(); };
        return std::ranges::any_of(p.rules, has_key) || std::ranges::any_of(p.byte_rules, has_key);
    };
    if (line.has_max_keys && std::ranges::none_of(all, has_keys))
        throw tool::usage_error("--max-keys requires a limit per client or other key; see --limit");
    o.command = "weir-replay";
    for (int i = 1; i < argc; ++i)
        o.command += " " + quoted(argv[i]);
    return o;
}

}  // namespace replay
