#include "stats.hpp"

#include "tool/json.hpp"
#include "tool/text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace admin {
namespace {

void add_quantiles(tool::json& out, weir::wait_histogram const& waits) {
    out.member("count", waits.count());
    for (auto const& [key, part] :
         {std::pair("p50", 0.5), {"p90", 0.9}, {"p99", 0.99}, {"max", 1.0}})
        out.member(key, tool::seconds(waits.quantile(part)));
}

// One range for each doubling, without the empty ones at both ends.
void add_ranges(tool::json& out, weir::wait_histogram const& waits) {
    constexpr std::size_t parts = 8;  // of a doubling
    constexpr auto all = weir::wait_histogram::ranges / parts;
    std::array<std::uint64_t, all> counts{};
    for (std::size_t i = 0; i != weir::wait_histogram::ranges; ++i)
        counts[i / parts] += waits.count_in(i);
    auto const some = [](std::uint64_t n) { return n != 0; };
    auto const first = std::ranges::find_if(counts, some);
    auto const last = std::find_if(counts.rbegin(), counts.rend(), some).base();
    out.name("ranges").begin('[');
    for (auto n = first; n < last; ++n) {
        auto const i = static_cast<std::size_t>(n - counts.begin());
        auto const end = weir::wait_histogram::end_of(i * parts + parts - 1);
        out.begin().member("end", tool::seconds(end)).member("count", *n).end();
    }
    out.end(']');
}

void add(tool::json& out, limit_state const& l) {
    out.begin()
        .member("id", l.id)
        .member("name", l.name)
        .member("rule", l.rule)
        .member("queue", l.queue)
        .member("key", l.key.empty() ? "total" : l.key)
        .member("dry_run", l.dry_run)
        .member("routes_total", std::uint64_t{l.routes_total})
        .member("seats", l.seats)
        .member("writable", l.writable)
        .member("previewable", l.previewable)
        .member("granted", l.stats.granted)
        .member("granted_immediately", l.stats.granted_immediately)
        .member("waited", l.stats.granted - l.stats.granted_immediately);
    out.name("routes").begin('[');
    for (auto const& route : l.routes)
        out.value(route);
    out.end(']').name("rejected").begin();
    auto const rejected = rejections_of(l.stats);
    for (std::size_t i = 0; i != reason_names.size(); ++i)
        out.member(reason_names[i], rejected[i]);
    out.end().member("rejected_total", l.rejected_total());
    out.member("in_use", std::max<weir::amount>(l.stats.in_use, 0))
        .member("waiting", l.stats.waiting)
        .member("oldest_wait", tool::seconds(l.stats.oldest_wait));
    if (auto const use = l.use())
        out.member("use", *use);
    if (l.keys)
        out.member("keys", *l.keys);
    if (l.max_keys)
        out.member("max_keys", *l.max_keys).member("when_full", l.when_full);
    else
        out.member("capacity", l.stats.capacity);
    if (l.memory && l.max_memory)
        out.member("memory", *l.memory).member("max_memory", *l.max_memory);
    if (l.evicted)
        out.member("evicted", *l.evicted);
    out.member("waited_total", tool::seconds(l.stats.waited_total))
        .member("waited_max", tool::seconds(l.stats.waited_max));
    out.name("waits").begin();
    add_quantiles(out, l.waits);
    out.end().name("recent_waits").begin();
    add_quantiles(out, l.recent_waits);
    add_ranges(out, l.recent_waits);
    out.end();
    out.name("last_minute")
        .begin()
        .member("granted", l.minute.granted)
        .member("rejected", l.minute.rejected)
        .member("p99_wait", tool::seconds(l.minute.waits.quantile(0.99)))
        .end();
    if (l.since)
        out.member("since", tool::to_text(*l.since));
    if (auto const& c = l.changed)
        out.name("changed")
            .begin()
            .member("from", c->from)
            .member("at", tool::to_text(c->at))
            .end();
    out.name("top_rejected").begin('[');
    for (auto const& c : l.top_rejected)
        out.begin()
            .member("client", c.client)
            .member("rejected", c.rejected)
            .member("error", c.error)
            .end();
    out.end(']');
    if (auto const& e = l.store)
        out.name("store")
            .begin()
            .member("mode", e->mode)
            .member("requests", e->requests)
            .member("failed", e->failed)
            .member("unanswered", e->unanswered)
            .member("bypassed_permits", e->bypassed_permits)
            .end();
    out.end();
}

void add(tool::json& out, bandwidth_state const& b) {
    out.begin()
        .member("name", b.name)
        .member("direction", b.direction)
        .member("rate", b.rate)
        .member("key", b.key.empty() ? "total" : b.key)
        .member("dry_run", b.dry_run)
        .member("bytes", b.bytes)
        .member("late", b.late)
        .member("waited_total", tool::seconds(b.waited))
        .member("waiting", b.waiting);
    if (b.keys && b.max_keys)
        out.member("keys", *b.keys).member("max_keys", *b.max_keys);
    out.end();
}

void add(tool::json& out, tcp_state const& t) {
    out.begin()
        .member("name", t.name)
        .member("sni", t.sni)
        .member("upstream", t.upstream)
        .member("active", t.active)
        .member("waiting", t.waiting);
    for (std::size_t i = 0; i != t.results.size(); ++i)
        out.member(t.results[i], t.ended[i]);
    out.member("bytes_up", t.bytes_up).member("bytes_down", t.bytes_down).end();
}

void add_tls(tool::json& out, state const& s) {
    for (auto const& [name, n] : s.handshakes)
        out.member(name, n);
    out.name("failed").begin();
    for (auto const& [name, n] : s.failed_handshakes)
        out.member(name, n);
    out.end().name("certificates").begin('[');
    for (auto const& one : s.certificates)
        out.begin()
            .member("listener", one.listener)
            .member("file", one.file)
            .member("expires", tool::to_text(one.valid_until))
            .end();
    out.end(']');
}

double mean(latency const& l) {
    auto const n = l.count();
    return n == 0 ? 0.0 : tool::seconds(l.total) / static_cast<double>(n);
}

void add(tool::json& out, route_state const& r) {
    out.begin().member("name", r.name).member("mean_time", mean(r.times));
    out.name("responses").begin('[');
    for (auto const& [status, n] : r.responses)
        out.begin().member("status", status).member("count", n).end();
    out.end(']').end();
}

void add(tool::json& out, upstream_state const& u) {
    out.begin().member("name", u.name).member("checked", u.checked).name("servers").begin('[');
    for (auto const& s : u.servers) {
        out.begin().member("name", s.name).member("down", s.down);
        out.member("connections", s.connections);
        if (s.down_since)
            out.member("down_since", tool::to_text(*s.down_since));
        if (s.active)
            out.member("active", *s.active);
        if (s.seats)
            out.member("seats", *s.seats);
        out.member("responses", s.responses.count())
            .member("mean_response_time", mean(s.responses))
            .member("error_responses", s.error_responses)
            .member("connect_failures", s.connect_failures);
        out.name("recent_response_times")
            .begin()
            .member("count", s.recent_responses.count())
            .member("p50", tool::seconds(s.recent_responses.quantile(0.5)))
            .member("p99", tool::seconds(s.recent_responses.quantile(0.99)))
            .end()
            .end();
    }
    out.end(']').end();
}

}  // namespace

std::string to_json(state const& s) {
    tool::json out;
    out.begin()
        .member("version", s.version)
        .member("started", tool::to_text(s.started))
        .member("now", tool::to_text(s.now))
        .member("ready", s.ready)
        .member("draining", s.draining)
        .member("writable", s.writable)
        .member("bottleneck", s.bottleneck);
    out.name("connections")
        .begin()
        .member("open", s.open_connections)
        .member("upgraded", s.open_tunnels)
        .member("total", s.connections)
        .name("without_proxy_header")
        .begin();
    for (auto const& [name, n] : s.failed_introductions)
        out.member(name, n);
    out.end().end();
    out.name("requests").begin();
    for (auto const& [name, n] : s.requests)
        out.member(name, n);
    out.end()
        .member("active", s.active)
        .member("waiting", s.waiting)
        .member("log_lines_dropped", s.log_lines_dropped);
    out.name("recent_response_times").begin();
    add_quantiles(out, s.recent_response_times);
    out.end().name("routes").begin('[');
    for (auto const& r : s.routes)
        if (!r.responses.empty())
            add(out, r);
    out.end(']').name("limits").begin('[');
    for (auto const& l : s.limits)
        add(out, l);
    out.end(']').name("bandwidths").begin('[');
    for (auto const& b : s.bandwidths)
        add(out, b);
    out.end(']').name("tcp").begin('[');
    for (auto const& t : s.tcp)
        add(out, t);
    out.end(']');
    if (auto const& a = s.agent)
        out.name("agent")
            .begin()
            .member("path", a->path)
            .member("connections", a->connections)
            .member("limits", a->limits)
            .member("questions", a->questions)
            .member("grants", a->grants)
            .end();
    out.name("tls").begin();
    add_tls(out, s);
    out.end().name("upstreams").begin('[');
    for (auto const& u : s.upstreams)
        add(out, u);
    out.end(']').end();
    return std::move(out).text();
}

}  // namespace admin
