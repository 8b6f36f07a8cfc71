#include "options.hpp"

#include "config/configuration.hpp"
#include "tool/arguments.hpp"
#include "tool/text.hpp"
#include "tool/version.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <optional>
#include <stdexcept>
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
    R"(weir-replay: what would these limits have done to the requests of an access log?

  weir-replay access.log --limit 100/1s --limit "20/1s burst 50 per client"
  weir-replay access.log --limit 100/1s --versus 200/1s --versus "patience 3s"
  weir-replay access.log --find 100/1s --max-rejected 0.1%
  weir-replay access.log --config weir.toml --versus "everybody: 32 seats" --versus other.toml

It sends the requests through the limiters that weir-proxy has, on the time of the log, and says who
would have been let in at once, who would have waited, and who would have been turned away. In brackets
is what holds by default.)";

constexpr char const* footer =
    R"(
A RULE is what weir::limiter_config knows, such as 100/1s, "100/1s burst 20", "10/60s sliding" or
"32 seats"; with "per client", "per path", "per path 1" (a segment of it), "per header User-Agent" or
"per field NAME" behind it each of these has a limit of its own. Requests pass all limits together or
take nothing of any, by the same code as in weir-proxy.
An ALTERNATIVE is one or several of these, with commas between: a RULE, which takes the place of those of
its kind; "patience TIME"; "queue N". With --config it is "NAME: RULE", another rule for the limit of that
name; "patience TIME" and "queue N", for all limits; or another file, whose name ends in .toml. --find takes
"NAME: RULE", too.
With --config the limits and routes are those of a file of weir-proxy. What the log lacks, such as the host or
a header, is named in the answer, with what was assumed.
A FORMAT is common, combined, haproxy, weir-proxy, a log_format of nginx, or json with the names of
members: "json time=ts client=ip took=ms:ms" (time, client, request, target, status, took; of a member of
a member request.uri). It is found out by itself; a time without a zone is in UTC. Files may be packed by gzip; - is standard input.
A log of whole seconds does not say when in the second a request came: --spread even has them come in
equal distances, random at any time, burst all at once. Without it, even is taken, and what the others
would have rejected is said, too.
A TIME is a whole number of ns, us, ms, s, min or h. Ctrl-C prints what it has come to.

On 1 August 1995, when weeks of requests to the Kennedy Space Center began:

  weir-replay nasa-1995-08-01.log.gz --limit "5/1s" --limit "1/1s burst 10 per client"
  weir-replay nasa-1995-08-01.log.gz --find "5/1s" --max-rejected 1%)";

// `0.1%` or `0.001`.
double part(std::string const& option, std::string_view value) {
    bool const is_percent = value.ends_with('%');
    auto const n = tool::decimal_of(value.substr(0, value.size() - (is_percent ? 1 : 0)));
    auto const found = is_percent && n ? *n / 100 : n;
    if (!found || !(*found >= 0) || !(*found <= 1))
        reject(option, value, "a part, like 0.1% or 0.001");
    return *found;
}

// As weir-proxy takes it.
rule seats(std::string const& option, std::string_view value) {
    auto found = config::seats_named(value);
    if (!found)
        reject(option, value,
               "a number from 1 to 1000000000, `adaptive`, or `adaptive 4..200` with such bounds");
    return {std::move(*found), {}};
}

// `FILE.toml`, or what is changed of `p`.
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

std::string joined(std::vector<rule> const& rules) {
    std::vector<std::string> texts;
    for (auto const& r : rules)
        texts.push_back(to_string(r));
    return fmt::format("{}", fmt::join(texts, ", "));
}

// As it can be given to a shell.
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

// Both options may say it, if they say the same. `of_queue` is not set if --queue has not said it.
weir::patience patience_of(weir::patience of_queue, std::optional<weir::duration> of_option) {
    if (!of_queue.is_set())
        return of_option.value_or(config::limit::default_patience);
    if (of_option && *of_option != of_queue.length_or(weir::forever))
        throw tool::usage_error(
            fmt::format("--patience is {}, but --queue says `{}`", tool::to_text(*of_option),
                        config::text_of({.patience = of_queue})));
    return of_queue;
}

class command_line {
public:
    explicit command_line(options& o);

    void parse(int argc, char const* const* argv) { app_.parse(argc, argv); }
    [[nodiscard]] std::string help() const { return app_.help(); }
    /// An option that was given and says something that stands in a file; empty if there was none.
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
    bool has_max_rejected = false;

private:
    template <class Set>
    CLI::Option* add(std::string const& name, char const* type, char const* help, Set set) {
        auto* const option = app_.add_option_function<std::string>(
            name, [name, set](std::string const& value) { set(name, value); }, help);
        return option->type_name(type);
    }
    // The same for one that may be given several times.
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
    app_.set_help_flag("--help", "this text");
    app_.set_version_flag("--version", fmt::format("weir-replay {}\n", tool::version),
                          "which version this is");
    app_.footer(footer);
    app_.get_formatter()->column_width(28);

    app_.add_option("LOG", o.logs.files,
                    "access logs, which are merged by time; - is standard input")
        ->type_name("")
        ->required();
    add("--config", "FILE", "limits and routes of a configuration of weir-proxy",
        [this](auto&, auto& v) { file = v; });
    add("--host", "NAME", "with --config: which host the requests were for, if the log lacks it",
        [&o](auto&, auto& v) { o.how.host = v; });
    add_each("--limit", "RULE", "a limit of all requests, or of each client or other key",
             [this](auto& n, auto& v) { base.rules.push_back(rule_of(n, v)); });
    add("--seats", "N", "as in weir-proxy: at most N requests at a time, or adaptive",
        [this](auto& n, auto& v) { base.rules.push_back(seats(n, v)); });
    add("--rate", "N/TIME", "as in weir-proxy: at most N requests in any TIME",
        [this](auto& n, auto& v) { base.rules.push_back(rule_of(n, v)); });
    add("--per-client-seats", "N", "the same for each client", [this](auto& n, auto& v) {
        (void)integer(n, v, 1, 1'000'000'000);
        base.rules.push_back(rule_of(n, v + " seats per client"));
    });
    add("--per-client-rate", "N/TIME", "the same for each client",
        [this](auto& n, auto& v) { base.rules.push_back(rule_of(n, v + " per client")); });
    add("--max-keys", "N", "so many keys have limits of their own; others share one (100000)",
        [this](auto& n, auto& v) {
            base.max_keys = static_cast<std::uint64_t>(integer(n, v, 1, 1'000'000'000));
        });
    add("--client-prefix-v4", "BITS",
        "IPv4 clients with so many bits of the address in common are one (32)",
        [&o, this](auto& n, auto& v) {
            o.how.v4_prefix = base.v4_prefix = int(integer(n, v, 0, 32));
        });
    add("--client-prefix-v6", "BITS", "the same for IPv6 (64)", [&o, this](auto& n, auto& v) {
        o.how.v6_prefix = base.v6_prefix = int(integer(n, v, 0, 64));
    });
    add("--queue", "N", "how many may wait for each limit (1024), or options of the queue",
        [this](auto& n, auto& v) { base.change(n, "queue " + v); });
    add("--patience", "TIME", "how long a request waits for its turn, all in all (1s)",
        [this](auto& n, auto& v) { patience = duration(n, v); });
    add_each("--versus", "ALTERNATIVE", "other limits, side by side with these",
             [this](auto&, auto& v) { versus.push_back(v); });
    add("--find", "RULE", "the smallest number in RULE, or in `patience TIME`, that is enough",
        [&o](auto& n, auto& v) {
            try {
                o.find = unknown::parse(v);
                o.find_text = v;
            } catch (tool::usage_error const& wrong) {
                reject(n, v, fmt::format("a rule, or `patience TIME`: {}", wrong.what()));
            }
        });
    add("--max-rejected", "PART", "for --find: what is enough (0.1%)",
        [&o, this](auto& n, auto& v) {
            o.max_rejected = part(n, v);
            has_max_rejected = true;
        });
    add("--service-time", "TIME",
        "how long a seat is held where the log does not say it; or `exponential 50ms`, 10ms..90ms",
        [&o](auto& n, auto& v) {
            o.how.takes = service_time::parse(v);
            if (!o.how.takes)
                reject(n, v, "a time, like 50ms, `exponential 50ms` or 10ms..90ms");
        });
    add("--retry", "N", "who is rejected comes back when Retry-After says so, up to N times (0)",
        [&o](auto& n, auto& v) { o.how.retries = int(integer(n, v, 0, 1'000'000)); });
    add("--spread", "HOW", "when in its second a request came: even, random, `random SEED`, burst",
        [&o](auto& n, auto& v) {
            auto const how = spread::parse(v);
            if (!how)
                reject(n, v, "even, random, `random SEED` or burst");
            o.how.spreads = {*how};
            o.is_spread_chosen = true;
        });
    add("--format", "FORMAT", "of the log (found out by itself)",
        [&o](auto&, auto& v) { o.logs.format = v; });
    add("--timestamp", "WHEN",
        "whether lines tell the start or the end of a request (by the format)",
        [&o](auto& n, auto& v) {
            if (v != "start" && v != "end")
                reject(n, v, "start or end");
            o.logs.when = v == "end" ? logs::stamped::at_the_end : logs::stamped::at_the_beginning;
        });
    add("--slack", "TIME", "how far lines may be out of order (1min)", [&o](auto& n, auto& v) {
        auto const d = duration(n, v);
        if (d > 1h)
            reject(n, v, "a time from 0s to 1h");
        o.how.slack = std::chrono::ceil<std::chrono::seconds>(d);
    });
    add("--max-unreadable", "PART", "how many lines may be left out (5%)",
        [&o](auto& n, auto& v) { o.logs.most_unreadable = part(n, v); });
    add("--top", "N", "how many keys are named that were rejected most (10)",
        [&o](auto& n, auto& v) {
            o.how.most_keys = static_cast<std::size_t>(integer(n, v, 0, 1'000'000));
        });
    app_.add_flag("--json", o.json, "the answer as JSON");
    add("--report", "FILE", "writes the answer as a page of HTML with plots, too",
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
        throw tool::usage_error(fmt::format("{}; see --help", wrong.what()));
    }
    auto& base = line.base;
    base.sort();
    base.queue.patience = patience_of(base.queue.patience, line.patience);
    if (o.find && !line.versus.empty())
        throw tool::usage_error("--find and --versus exclude each other");
    if (!o.find && line.has_max_rejected)
        throw tool::usage_error("--max-rejected says nothing without --find");
    if (o.find && std::ranges::count(o.logs.files, "-"))
        throw tool::usage_error("--find reads the log several times, which standard input cannot");
    if (std::ranges::count(o.logs.files, "-") > 1)
        throw tool::usage_error("standard input is named twice");
    base.name = joined(base.rules);
    if (!line.file.empty()) {
        if (auto const other = line.of_file(); !other.empty())
            throw tool::usage_error(
                fmt::format("{} says nothing with --config: the file says it", other));
        base = plan_of_file(line.file);
    } else if (base.rules.empty() && !(o.find && o.find->example())) {
        throw tool::usage_error(
            "there is no limit: --limit, --seats, --rate or --config sets one; see --help");
    }

    o.plans.push_back(base);
    for (auto const& text : line.versus)
        o.plans.push_back(alternative(base, text));

    auto all = o.plans;
    if (o.find)
        all.push_back(o.find->with(base, 1));
    for (auto const& p : all)
        if (p.rules.size() > most_rules)
            throw tool::usage_error(fmt::format("there are more than {} limits", most_rules));
    o.command = "weir-replay";
    for (int i = 1; i < argc; ++i)
        o.command += " " + quoted(argv[i]);
    return o;
}

}  // namespace replay
