#include "stats.hpp"

#include "tool/json.hpp"
#include "tool/text.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace admin {
namespace {

void add_waits(tool::json& out, std::string_view name, weir::wait_histogram const& waits) {
    out.name(name).begin().member("count", waits.count());
    for (auto const& [key, part] :
         {std::pair("p50", 0.5), {"p90", 0.9}, {"p99", 0.99}, {"max", 1.0}})
        out.member(key, tool::seconds(waits.quantile(part)));
    out.end();
}

void add(tool::json& out, limit_state const& l) {
    out.begin()
        .member("id", l.id)
        .member("name", l.name)
        .member("rule", l.rule)
        .member("queue", l.queue)
        .member("key", l.key.empty() ? "total" : l.key)
        .member("dry_run", l.dry_run)
        .member("seats", l.seats)
        .member("writable", l.writable)
        .member("granted", l.stats.granted)
        .member("granted_immediately", l.stats.granted_immediately)
        .member("waited", l.stats.granted - l.stats.granted_immediately);
    out.name("rejected").begin();
    auto const rejected = rejections_of(l.stats);
    for (std::size_t i = 0; i != reason_names.size(); ++i)
        out.member(reason_names[i], rejected[i]);
    out.end().member("rejected_total", l.rejected_total());
    out.member("in_use", std::max<weir::amount>(l.stats.in_use, 0))
        .member("waiting", l.stats.waiting)
        .member("oldest_wait", tool::seconds(l.stats.oldest_wait));
    if (l.keys)
        out.member("keys", *l.keys);
    if (l.max_keys)
        out.member("max_keys", *l.max_keys)
            .member("memory", *l.memory)
            .member("max_memory", *l.max_memory);
    else
        out.member("capacity", l.stats.capacity);
    out.member("waited_total", tool::seconds(l.stats.waited_total))
        .member("waited_max", tool::seconds(l.stats.waited_max));
    add_waits(out, "waits", l.waits);
    add_waits(out, "recent_waits", l.recent_waits);
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
        if (s.active)
            out.member("active", *s.active);
        if (s.seats)
            out.member("seats", *s.seats);
        out.member("responses", s.responses.count())
            .member("mean_response_time", mean(s.responses))
            .member("error_responses", s.error_responses)
            .member("connect_failures", s.connect_failures)
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
        .end();
    out.name("requests").begin();
    for (auto const& [name, n] : s.requests)
        out.member(name, n);
    out.end()
        .member("active", s.active)
        .member("waiting", s.waiting)
        .member("log_lines_dropped", s.log_lines_dropped);
    out.name("routes").begin('[');
    for (auto const& r : s.routes)
        if (!r.responses.empty())
            add(out, r);
    out.end(']').name("limits").begin('[');
    for (auto const& l : s.limits)
        add(out, l);
    out.end(']').name("upstreams").begin('[');
    for (auto const& u : s.upstreams)
        add(out, u);
    out.end(']').end();
    return std::move(out).text();
}

}  // namespace admin
