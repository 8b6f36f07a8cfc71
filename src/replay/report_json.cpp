#include "report.hpp"
#include "tool/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace replay {
namespace {

std::string in_seconds(nanoseconds d) {
    return fmt::format("{:.9f}", static_cast<double>(d.count()) / 1e9);
}

void write_bandwidths(tool::json& w, outcome const& o) {
    w.name("slowed").begin().member("requests", o.slowed.count());
    for (auto const& [name, q] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}})
        w.name(name).raw(in_seconds(std::min(o.slowed.quantile(q), o.longest_slowed)));
    w.name("max").raw(in_seconds(o.longest_slowed)).end();
    w.name("bandwidths").begin('[');
    for (auto const& b : o.bandwidths) {
        w.begin()
            .member("limit", b.text)
            .member("direction", b.is_up ? "up" : "down")
            .member("dry_run", b.dry_run)
            .member("transfers", b.transfers)
            .member("bytes", b.bytes)
            .member("busiest_second", b.busiest_second)
            .member("late_bytes", b.late)
            .name("waited")
            .raw(in_seconds(b.waited))
            .member("keys", b.keys);
        w.name("top_keys").begin('[');
        for (auto const& k : b.top_keys)
            w.begin()
                .member("key", k.key)
                .member("bytes", k.bytes)
                .member("busiest_second", k.busiest_second)
                .name("waited")
                .raw(in_seconds(k.waited))
                .end();
        w.end(']').end();
    }
    w.end(']');
}

void write(tool::json& w, outcome const& o) {
    w.begin()
        .member("name", o.name)
        .member("requests", o.asked())
        .member("granted_immediately", o.at_once)
        .member("waited", o.waited)
        .member("granted_after_retries", o.later)
        .member("rejected", o.rejected)
        .member("answered_by_route", o.answered)
        .member("waiting_at_end", o.open)
        .member("attempts", o.asked() + o.came_back)
        .member("rejected_share", o.rejected_share());
    w.name("rules").begin('[');
    for (auto const& r : o.rules) {
        w.begin().member("rule", r.text).member("dry_run", r.dry_run).name("rejected").begin();
        for (std::size_t why = 0; why != r.rejected.size(); ++why)
            if (r.rejected[why] != 0)
                w.member(text_of(static_cast<weir::errc>(why)), r.rejected[why]);
        w.end().end();
    }
    w.end(']').name("waits").begin();
    for (auto const& [name, q] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}})
        w.name(name).raw(in_seconds(std::min(o.waits.quantile(q), o.longest_wait)));
    w.name("max").raw(in_seconds(o.longest_wait)).end();
    w.member("longest_queue", o.longest_queue);
    if (o.holds)
        w.member("peak_in_use", o.peak_in_use);
    if (!o.bandwidths.empty())
        write_bandwidths(w, o);
    w.name("top_rejected").begin('[');
    for (auto const& k : o.top_rejected)
        w.begin()
            .member("of", k.what)
            .member("key", k.key)
            .member("requests", k.asked)
            .member("rejected", k.rejected)
            .end();
    w.end(']').name("over_time").begin();
    w.member("begin", instant(o.over_time.begin()));
    w.name("step").raw(in_seconds(o.over_time.width()));
    auto const numbers = [&](char const* name, auto member) {
        w.name(name).begin('[');
        for (auto const& p : o.over_time.points())
            w.value(p.*member);
        w.end(']');
    };
    numbers("requests", &point::asked);
    numbers("granted", &point::granted);
    numbers("rejected", &point::rejected);
    numbers("waiting", &point::waiting);
    w.end().end();
}

}  // namespace

std::string to_json(report const& r) {
    tool::json w(tool::json::layout::spaced);
    w.begin().member("command", r.command).member("interrupted", r.read.broken_off);
    w.name("files").begin('[');
    for (auto const& f : r.read.files)
        w.begin().member("name", f.name).member("format", f.format).end();
    w.end(']')
        .member("lines", r.read.lines)
        .member("unreadable", r.read.unreadable)
        .member("invalid_requests", r.read.invalid)
        .member("connections", r.read.connections);
    w.name("unreadable_lines").begin('[');
    for (auto const& l : r.read.shown)
        w.begin()
            .member("file", l.file)
            .member("line", l.number)
            .member("why", l.why)
            .member("text", l.text)
            .end();
    w.end(']')
        .member("requests", r.requests.requests)
        .member("clients", r.requests.clients)
        .member("first", instant(r.requests.first))
        .member("last", instant(r.requests.last));
    if (auto const& f = r.found)
        w.name("find")
            .begin()
            .member(f->was_found ? "found" : "not_found", f->what)
            .member(f->is_of_bytes ? "max_slowed" : "max_rejected", f->most_share)
            .end();
    w.name("outcomes").begin('[');
    for (auto const& o : r.outcomes)
        write(w, o);
    w.end(']').name("rejected_share_by_spread").begin();
    for (std::size_t i = 0; i != r.spreads.size(); ++i) {
        w.name(to_string(r.spreads[i])).begin('[');
        for (auto const& parts : r.rejected_by_spread)
            if (i < parts.size())
                w.value(parts[i]);
        w.end(']');
    }
    w.end().name("notes").begin('[');
    for (auto const& n : notes(r))
        w.value(n);
    w.end(']').end();
    return std::move(w).text() + '\n';
}

}  // namespace replay
