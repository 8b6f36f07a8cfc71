#include "report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace replay {

using namespace std::chrono_literals;

std::string grouped(std::uint64_t n) {
    auto const digits = std::to_string(n);
    std::string text;
    for (std::size_t i = 0; i != digits.size(); ++i) {
        if (i != 0 && (digits.size() - i) % 3 == 0)
            text += ',';
        text += digits[i];
    }
    return text;
}

std::string length(nanoseconds d) {
    auto const in = [&](nanoseconds unit) {
        auto const n = static_cast<double>(d.count()) / static_cast<double>(unit.count());
        return n < 999.5 ? fmt::format("{:.3g}", n) : fmt::format("{:.0f}", n);
    };
    if (d < 1us)
        return fmt::format("{} ns", d.count());
    if (d < 1ms)
        return in(1us) + " us";
    if (d < 1s)
        return in(1ms) + " ms";
    if (d < 1min)
        return in(1s) + " s";
    auto const s = std::chrono::floor<std::chrono::seconds>(d);
    if (d < 1h)
        return fmt::format("{} min {} s", s / 1min, s % 1min / 1s);
    return fmt::format("{} h {} min", s / 1h, s % 1h / 1min);
}

std::string size(std::uint64_t bytes) {
    constexpr std::pair<char const*, std::uint64_t> units[] = {
        {"TB", 1'000'000'000'000}, {"GB", 1'000'000'000}, {"MB", 1'000'000}, {"kB", 1'000}};
    for (auto const& [name, unit] : units)
        if (bytes >= unit)
            return fmt::format("{:.1f} {}", static_cast<double>(bytes) / static_cast<double>(unit),
                               name);
    return fmt::format("{} B", bytes);
}

std::string percent(double part) {
    return part != 0 && part < 0.0001 ? "< 0.01 %" : fmt::format("{:.2f} %", 100 * part);
}

std::string instant(nanoseconds since_1970) {
    auto const ms = std::chrono::floor<std::chrono::milliseconds>(since_1970);
    auto const s = std::chrono::floor<std::chrono::seconds>(ms);
    return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03}",
                       fmt::gmtime(static_cast<std::time_t>(s.count())), (ms - s).count());
}

namespace {

// The note on a value that the log lacks; empty if no limit and no route uses the value.
std::optional<std::string> assumed(logs::key_source const& what, report const& r) {
    using kind = logs::key_source::kind;
    auto const any_route = [&](auto goes_by) {
        return std::ranges::any_of(r.plans, [&](plan const& p) {
            return p.file && std::ranges::any_of(p.file->routes, goes_by);
        });
    };
    switch (what.what) {
        case kind::client:
            return "The log has no client: all requests count as one client.";
        case kind::method:
            if (any_route([](config::route const& c) { return !c.methods.empty(); }))
                return "The log has no method: routes with `method` never match.";
            return {};
        case kind::target:
            return "The log has no path: all requests count as requests for an empty path.";
        case kind::host:
            if (!any_route([](config::route const& c) { return !c.host.empty(); }))
                return {};
            return r.host.empty()
                       ? "The log has no host: routes with `host` never match. Use --host to "
                         "set it."
                       : fmt::format("The log has no host: all requests count as requests "
                                     "for {} (--host).",
                                     r.host);
        case kind::field:
            break;
    }
    return fmt::format("The log has no `{}`: all requests count as requests without it.",
                       what.name);
}

void add_notes_on_bytes(std::vector<std::string>& all, report const& r) {
    auto const any = [&](bool is_up) {
        return std::ranges::any_of(r.outcomes, [&](outcome const& o) {
            return std::ranges::any_of(o.bandwidths, [&](byte_outcome const& b) {
                return b.is_up == is_up;
            });
        });
    };
    auto const add_sizes = [&](std::uint64_t known, char const* what, char const* where) {
        if (known == 0)
            all.push_back(fmt::format(
                "The log has no sizes of {}: limits of the bytes {} have no effect.", what, where));
        else if (auto const others = r.requests.requests - known; others != 0)
            all.push_back(fmt::format("The log has no size for {} of the {}: they count as empty.",
                                      grouped(others), what));
    };
    if (any(false))
        add_sizes(r.requests.with_sent, "responses", "to clients");
    if (any(true))
        add_sizes(r.requests.with_received, "requests", "from clients");
    if (any(false) || any(true))
        all.push_back(r.requests.held_by_log == 0 && !r.takes
                          ? "The log has no service times: the bytes of a response count as ready "
                            "when its request is granted."
                          : "A log does not tell when a server wrote the bytes of a response: they "
                            "count as ready evenly over its service time.");
    if (std::ranges::any_of(r.plans, [](plan const& p) {
            return p.file && !p.only_listener() &&
                   std::ranges::any_of(p.file->listeners, [](config::listener const& l) {
                       return !l.bandwidths.empty();
                   });
        }))
        all.push_back("A log does not tell the listener of a request: the limits of several "
                      "listeners were left out.");
}

}  // namespace

std::vector<std::string> notes(report const& r) {
    std::vector<std::string> all;
    if (r.read.broken_off)
        all.push_back("Interrupted: this report is partial.");
    if (r.requests.whole_seconds != 0) {
        auto text = fmt::format("The log has whole seconds; requests are spread within each ({}).",
                                to_string(r.spreads.front()));
        for (std::size_t i = 1; i < r.spreads.size(); ++i) {
            text += fmt::format(" With --spread {}, ", to_string(r.spreads[i]));
            for (std::size_t p = 0; p != r.rejected_by_spread.size(); ++p)
                if (i < r.rejected_by_spread[p].size())
                    text += fmt::format("{}{}", p == 0 ? "" : ", ",
                                        percent(r.rejected_by_spread[p][i]));
            text += " would be rejected.";
        }
        all.push_back(text);
    }
    if (std::ranges::any_of(r.outcomes, &outcome::holds)) {
        if (r.requests.held_by_log != 0)
            all.push_back(fmt::format(
                "The log gives the service time of {} requests.", grouped(r.requests.held_by_log)));
        if (r.requests.held_like_last != 0)
            all.push_back(fmt::format(
                "{} requests were not served or have no service time in the log: each holds "
                "its seat as long as the previous request on its route.",
                grouped(r.requests.held_like_last)));
        if (r.requests.held_by_none != 0)
            all.push_back(fmt::format("{} requests have a service time of 0, because the log had "
                                      "no service time yet. Use --service-time.",
                                      grouped(r.requests.held_by_none)));
        if (auto const others = r.requests.requests - r.requests.held_by_log;
            others != 0 && r.takes)
            all.push_back(fmt::format(
                "--service-time {} applies to {} requests.", to_string(*r.takes), grouped(others)));
        if (std::ranges::any_of(r.plans, [](plan const& p) {
                return std::ranges::any_of(p.limits(), [](planned_limit const& l) {
                    return config::is_adaptive(l.what.rule);
                });
            }))
            all.push_back("Adaptive seats used the service times of the log, which another number "
                          "of seats would have changed.");
    }
    add_notes_on_bytes(all, r);
    for (auto const& what : r.read.missing)
        if (auto const note = assumed(what, r))
            all.push_back(*note);
    for (auto const& p : r.plans)
        for (auto const& l : p.limits())
            if (!l.what.store.empty())
                all.push_back(fmt::format(
                    "A store counts `{}` for several proxies; the replay counts only the "
                    "requests of this log, and does not wait for a store.",
                    l.what.name));
    for (auto const& p : r.plans)
        for (auto const& l : p.limits())
            for (auto const& part : l.what.key)
                if (!part.otherwise.empty() &&
                    part.otherwise.back().what == config::key_part::kind::reject)
                    all.push_back(fmt::format(
                        "weir-proxy rejects requests without a value for the key of `{}`; the "
                        "replay counts them as one key.",
                        l.what.name));
    if (r.requests.late != 0)
        all.push_back(fmt::format("{} requests arrived earlier before their log lines than --slack "
                                  "allows: they were replayed later than they arrived.",
                                  grouped(r.requests.late)));
    all.push_back(
        r.retries == 0
            ? "The replay assumes no retries (--retry): a log cannot show how clients would "
              "react to a rejection or a wait."
            : fmt::format("The replay assumes that clients retry rejected requests after "
                          "Retry-After, up to {} times: a log cannot show how they would react.",
                          r.retries));
    return all;
}

namespace {

// The reasons for which rule number `i` rejected a request in any outcome.
std::vector<weir::errc> reasons_of(report const& r, std::size_t i) {
    std::vector<weir::errc> found;
    for (std::size_t why = 0; why != reasons().size(); ++why)
        if (std::ranges::any_of(r.outcomes, [&](outcome const& o) {
                return i < o.rules.size() && o.rules[i].rejected[why] != 0;
            }))
            found.push_back(static_cast<weir::errc>(why));
    return found;
}

std::string share(std::uint64_t n, std::uint64_t all) {
    return fmt::format("{} ({})", grouped(n),
                       percent(all == 0 ? 0 : static_cast<double>(n) / static_cast<double>(all)));
}

std::string wait_or_none(outcome const& o, double q) {
    return o.waits.count() == 0 ? "-" : length(std::min(o.waits.quantile(q), o.longest_wait));
}

std::string slowed_or_none(outcome const& o, double q) {
    return o.slowed.count() == 0 ? "-" : length(std::min(o.slowed.quantile(q), o.longest_slowed));
}

// Aligns the first column to the left and the others to the right.
std::string aligned(std::vector<table_line> const& lines) {
    std::size_t first = 0;
    std::vector<std::size_t> widths;
    for (auto const& [name, cells, counts] : lines) {
        first = std::max(first, name.size());
        widths.resize(std::max(widths.size(), cells.size()));
        for (std::size_t i = 0; i != cells.size(); ++i)
            widths[i] = std::max(widths[i], cells[i].size());
    }
    std::string out;
    for (auto const& [name, cells, counts] : lines) {
        auto line = fmt::format("{:<{}}", name, first);
        for (std::size_t i = 0; i != cells.size(); ++i)
            line += fmt::format("   {:>{}}", cells[i], widths[i]);
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + '\n';
    }
    return out;
}

}  // namespace

std::vector<table_line> summary(report const& r) {
    std::vector<table_line> lines;
    auto const line = [&](std::string name, auto cell) {
        std::vector<std::string> cells;
        for (auto const& o : r.outcomes)
            cells.push_back(cell(o));
        lines.push_back({std::move(name), std::move(cells)});
    };
    auto const any = [&](auto is) { return std::ranges::any_of(r.outcomes, is); };

    // A line of counts; `cell(n, o)` formats each.
    auto const counts = [&](std::string name, auto count, auto cell) {
        line(std::move(name), [&](outcome const& o) { return cell(count(o), o); });
        for (auto const& o : r.outcomes)
            lines.back().counts.push_back(count(o));
    };
    auto const number = [](std::uint64_t n, outcome const&) { return grouped(n); };
    auto const part = [](std::uint64_t n, outcome const& o) { return share(n, o.asked()); };

    line("", [](outcome const& o) { return o.name; });
    counts("requests", [](outcome const& o) { return o.asked(); }, number);
    counts("granted immediately", [](outcome const& o) { return o.at_once; }, part);
    counts("granted after a wait", [](outcome const& o) { return o.waited; }, part);
    if (r.retries != 0) {
        counts("granted after retries", [](outcome const& o) { return o.later; }, part);
        counts("  attempts", [](outcome const& o) { return o.asked() + o.came_back; }, number);
    }
    counts("rejected", [](outcome const& o) { return o.rejected; }, part);
    std::size_t rules = 0;
    for (auto const& o : r.outcomes)
        rules = std::max(rules, o.rules.size());
    for (std::size_t i = 0; i != rules; ++i) {
        auto const all = reasons_of(r, i);
        if (all.empty())
            continue;
        line("  rejected by", [&](outcome const& o) {
            return i < o.rules.size() ? o.rules[i].text + (o.rules[i].dry_run ? " (dry run)" : "")
                                      : std::string("-");
        });
        bool const in_all =
            std::ranges::all_of(r.outcomes, [i](outcome const& o) { return i < o.rules.size(); });
        for (auto const why : all) {
            auto const count = [i, why](outcome const& o) {
                return o.rules[i].rejected[static_cast<std::size_t>(why)];
            };
            auto const name = fmt::format("    {}", text_of(why));
            if (in_all)
                counts(name, count, number);
            else
                line(name, [&](outcome const& o) {
                    return i < o.rules.size() ? grouped(count(o)) : std::string("-");
                });
        }
    }
    if (any([](outcome const& o) { return o.answered != 0; }))
        counts("answered by a route", [](outcome const& o) { return o.answered; }, part);
    if (any([](outcome const& o) { return o.open != 0; }))
        counts("waiting at the end", [](outcome const& o) { return o.open; }, number);
    for (auto const& [name, q] :
         {std::pair{"wait p50", 0.5}, {"wait p90", 0.9}, {"wait p99", 0.99}})
        line(name, [&](outcome const& o) { return wait_or_none(o, q); });
    line("wait max", [](outcome const& o) { return wait_or_none(o, 1); });
    counts("longest queue", [](outcome const& o) { return o.longest_queue; }, number);
    if (any(&outcome::holds))
        line("peak in use",
             [](outcome const& o) { return o.holds ? grouped(o.peak_in_use) : std::string("-"); });
    if (any([](outcome const& o) { return !o.bandwidths.empty(); })) {
        counts("slowed by bandwidth", [](outcome const& o) { return o.slowed.count(); }, part);
        for (auto const& [name, q] : {std::pair{"  slowed p50", 0.5}, {"  slowed p99", 0.99}})
            line(name, [&](outcome const& o) { return slowed_or_none(o, q); });
        line("  slowed max", [](outcome const& o) { return slowed_or_none(o, 1); });
    }
    std::size_t bandwidths = 0;
    for (auto const& o : r.outcomes)
        bandwidths = std::max(bandwidths, o.bandwidths.size());
    for (std::size_t i = 0; i != bandwidths; ++i) {
        auto const of = [&](auto cell) {
            return [i, cell](outcome const& o) {
                return i < o.bandwidths.size() ? cell(o.bandwidths[i]) : std::string("-");
            };
        };
        auto const any_of = [&](auto is) {
            return any([&](outcome const& o) {
                return i < o.bandwidths.size() && is(o.bandwidths[i]);
            });
        };
        if (!any_of([](byte_outcome const& b) { return b.bytes != 0; }))
            continue;
        line("bytes through",
             of([](byte_outcome const& b) { return b.text + (b.dry_run ? " (dry run)" : ""); }));
        line("  in all", of([](byte_outcome const& b) { return size(b.bytes); }));
        line("  busiest second", of([](byte_outcome const& b) { return size(b.busiest_second); }));
        line("  waited in all", of([](byte_outcome const& b) { return length(b.waited); }));
        if (any_of([](byte_outcome const& b) { return b.dry_run; }))
            line("  would wait", of([](byte_outcome const& b) {
                     return b.dry_run ? size(b.late) : std::string("-");
                 }));
    }
    return lines;
}

std::optional<std::string> result_of_search(report const& r) {
    if (!r.found)
        return {};
    auto const most = percent(r.found->most_share);
    bool const slows = r.found->is_of_bytes;
    if (r.found->was_found)
        return fmt::format("{} is the smallest value that {} at most {}.", r.found->what,
                           slows ? "slows" : "rejects", most);
    return fmt::format("No number in `{}` keeps {} at or below {}: other limits {} more.",
                       r.found->what, slows ? "slowed responses" : "rejections", most,
                       slows ? "slow" : "reject");
}

std::vector<std::string> left_out(report const& r) {
    std::vector<std::string> all;
    if (r.read.invalid != 0)
        all.push_back(fmt::format("{} invalid requests were left out: no limit applies to them.",
                                  grouped(r.read.invalid)));
    if (r.read.connections != 0)
        all.push_back(
            fmt::format("{} connections of other protocols were left out: they have no requests.",
                        grouped(r.read.connections)));
    return all;
}

std::string to_text(report const& r) {
    auto const& t = r.requests;
    std::string out;
    for (auto const& f : r.read.files)
        out += fmt::format("{} ({})\n", f.name, f.format);
    if (t.requests != 0)
        out += fmt::format("{} {} of {} {} in {}, from {} to {} UTC\n", grouped(t.requests),
                           t.requests == 1 ? "request" : "requests", grouped(t.clients),
                           t.clients == 1 ? "client" : "clients", length(t.last - t.first),
                           instant(t.first), instant(t.last));
    if (r.read.unreadable != 0) {
        out += fmt::format("{} of {} lines were skipped:\n", grouped(r.read.unreadable),
                           grouped(r.read.lines));
        for (auto const& l : r.read.shown)
            out += fmt::format("  {}:{}: {}: {}\n", l.file, l.number, l.why, l.text);
    }
    for (auto const& text : left_out(r))
        out += text + '\n';
    if (auto const found = result_of_search(r))
        out += fmt::format("\n{}\n", *found);
    out += '\n' + aligned(summary(r));

    for (auto const& o : r.outcomes) {
        if (o.top_rejected.empty())
            continue;
        out += fmt::format("\nmost rejected keys with {}\n", o.name);
        std::vector<table_line> keys;
        for (auto const& k : o.top_rejected)
            keys.push_back({fmt::format("  {} {}", k.what, k.key.empty() ? "-" : k.key),
                            {fmt::format("{} of {}", grouped(k.rejected), grouped(k.asked))}});
        out += aligned(keys);
    }
    for (auto const& o : r.outcomes)
        for (auto const& b : o.bandwidths) {
            if (b.top_keys.empty())
                continue;
            out += fmt::format("\nkeys with the most bytes through {}, with {}\n", b.text, o.name);
            std::vector<table_line> keys{{"", {"bytes", "busiest second", "waited"}}};
            for (auto const& k : b.top_keys)
                keys.push_back({"  " + (k.key.empty() ? "-" : k.key),
                                {size(k.bytes), size(k.busiest_second), length(k.waited)}});
            out += aligned(keys);
        }
    out += '\n';
    for (auto const& n : notes(r))
        out += n + '\n';
    return out;
}

}  // namespace replay
