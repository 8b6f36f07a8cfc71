#include <weir/prometheus.hpp>

#include "stats.hpp"
#include "tool/text.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace admin {
namespace {

using metric = weir::metrics_writer::type;

weir::cumulative_histogram histogram_of(latency const& took) {
    weir::cumulative_histogram h{.buckets = {}, .count = took.count(), .sum = took.total};
    std::uint64_t so_far = 0;
    for (std::size_t i = 0; i != latency::ends.size(); ++i) {
        so_far += took.counts[i];
        h.buckets.push_back({latency::ends[i], so_far});
    }
    return h;
}

void add_proxy(weir::metrics_writer& out, state const& s) {
    out.family("weir_build_info", "The version of weir-proxy.", metric::gauge);
    out.add(1.0, {{"version", s.version}});
    out.family("weir_start_time_seconds", "Start time, in seconds since the Unix epoch.",
               metric::gauge);
    out.add(tool::seconds(s.started.time_since_epoch()));
    out.family("weir_ready", "1 while the proxy accepts clients, else 0.", metric::gauge);
    out.add(s.ready ? 1.0 : 0.0);
    out.family("weir_connections_total", "Client connections accepted.", metric::counter);
    out.add(s.connections);
    out.family("weir_connections_open", "Open client connections.", metric::gauge);
    out.add(s.open_connections);
    out.family("weir_connections_upgraded", "Open upgraded connections.", metric::gauge);
    out.add(s.open_tunnels);
    out.family("weir_requests_total", "Requests by result.", metric::counter);
    for (auto const& [name, n] : s.requests)
        out.add(n, {{"result", name}});
    out.family("weir_requests_active", "Requests in progress, without upgraded connections.",
               metric::gauge);
    out.add(s.active);
    out.family("weir_requests_waiting", "Requests in the queues of limits.", metric::gauge);
    out.add(s.waiting);
    out.family("weir_log_lines_dropped_total", "Access log lines that could not be written.",
               metric::counter);
    out.add(s.log_lines_dropped);
}

// Only of a proxy with a listener that expects the header.
void add_introductions(weir::metrics_writer& out, state const& s) {
    if (s.failed_introductions.empty())
        return;
    out.family("weir_proxy_headers_failed_total",
               "Connections that ended for lack of the header of the PROXY protocol, by reason.",
               metric::counter);
    for (auto const& [name, n] : s.failed_introductions)
        out.add(n, {{"reason", name}});
}

// Only of a proxy with TLS.
void add_tls(weir::metrics_writer& out, state const& s) {
    if (s.certificates.empty())
        return;
    out.family("weir_tls_handshakes_total", "Complete handshakes of TLS.", metric::counter);
    for (auto const& [name, n] : s.handshakes)
        out.add(n, {{"result", name}});
    out.family("weir_tls_handshakes_failed_total", "Failed handshakes of TLS by reason.",
               metric::counter);
    for (auto const& [name, n] : s.failed_handshakes)
        out.add(n, {{"reason", name}});
    out.family("weir_tls_certificate_expires_seconds",
               "End of the validity of a certificate, in seconds since the Unix epoch.",
               metric::gauge);
    for (auto const& one : s.certificates)
        out.add(tool::seconds(one.valid_until.time_since_epoch()),
                {{"listener", one.listener}, {"certificate", one.file}});
}

void add_routes(weir::metrics_writer& out, state const& s) {
    out.family("weir_responses_total", "Responses by route and status.", metric::counter);
    for (auto const& r : s.routes)
        for (auto const& [status, n] : r.responses)
            out.add(n, {{"route", r.name}, {"status", status}});
    out.histogram_family("weir_request_seconds",
                         "Time from the first byte of a request to the end of its response.");
    for (auto const& r : s.routes)
        out.add(histogram_of(r.times), {{"route", r.name}});
}

void add_limits(weir::metrics_writer& out, state const& s) {
    out.family("weir_limit_info", "Rule, key and mode of each limit.", metric::gauge);
    for (auto const& l : s.limits)
        out.add(1.0, {{"limit", l.name},
                      {"rule", l.rule},
                      {"key", l.key.empty() ? "total" : l.key},
                      {"dry_run", l.dry_run ? "true" : "false"}});
    out.add(std::vector<weir::limit_metrics>(s.limits.begin(), s.limits.end()));
    auto const add = [&](char const* name, char const* help, auto member) {
        out.family(name, help, metric::gauge);
        for (auto const& l : s.limits)
            if (l.*member)
                out.add(*(l.*member), {{"limit", l.name}});
    };
    add("weir_limit_max_keys", "Most keys that a limit tracks.", &limit_state::max_keys);
    add("weir_limit_memory_bytes", "Memory of the tracked keys.", &limit_state::memory);
    add("weir_limit_max_memory_bytes", "Memory from which on a limit tracks no new keys.",
        &limit_state::max_memory);
    out.family("weir_limit_evicted_keys_total", "Keys whose place a new key took.",
               metric::counter);
    for (auto const& l : s.limits)
        if (l.evicted)
            out.add(*l.evicted, {{"limit", l.name}});
}

void add_bandwidths(weir::metrics_writer& out, state const& s) {
    auto const each = [&](auto add) {
        for (auto const& b : s.bandwidths)
            add(b, [&](auto value) {
                out.add(value, {{"limit", b.name}, {"direction", b.direction}});
            });
    };
    out.family("weir_bandwidth_info", "Rate, key and mode of each limit of bytes.", metric::gauge);
    for (auto const& b : s.bandwidths)
        out.add(1.0, {{"limit", b.name},
                      {"direction", b.direction},
                      {"rate", b.rate},
                      {"key", b.key.empty() ? "total" : b.key},
                      {"dry_run", b.dry_run ? "true" : "false"}});
    out.family("weir_bandwidth_bytes_total", "Bytes that passed.", metric::counter);
    each([](bandwidth_state const& b, auto add) { add(b.bytes); });
    out.family("weir_bandwidth_late_bytes_total", "Bytes that a dry run would have delayed.",
               metric::counter);
    each([](bandwidth_state const& b, auto add) { add(b.late); });
    out.family("weir_bandwidth_wait_seconds_total", "Time that transfers waited.", metric::counter);
    each([](bandwidth_state const& b, auto add) { add(tool::seconds(b.waited)); });
    out.family("weir_bandwidth_waiting", "Transfers waiting.", metric::gauge);
    each([](bandwidth_state const& b, auto add) { add(b.waiting); });
    out.family("weir_bandwidth_keys", "Keys tracked.", metric::gauge);
    each([](bandwidth_state const& b, auto add) {
        if (b.keys)
            add(*b.keys);
    });
    out.family("weir_bandwidth_max_keys", "Most keys that a limit tracks.", metric::gauge);
    each([](bandwidth_state const& b, auto add) {
        if (b.max_keys)
            add(*b.max_keys);
    });
}

void add_tcp(weir::metrics_writer& out, state const& s) {
    auto const each = [&](auto value) {
        for (auto const& t : s.tcp)
            out.add(value(t), {{"listener", t.name}, {"sni", t.sni}});
    };
    out.family("weir_tcp_connections_total",
               "Ended connections of listeners with `tcp`, by result.", metric::counter);
    for (auto const& t : s.tcp)
        for (std::size_t i = 0; i != t.results.size(); ++i)
            out.add(t.ended[i], {{"listener", t.name}, {"sni", t.sni}, {"result", t.results[i]}});
    out.family("weir_tcp_connections_active", "Connections to a server.", metric::gauge);
    each([](tcp_state const& t) { return t.active; });
    out.family("weir_tcp_connections_waiting", "Connections in the queues of limits.",
               metric::gauge);
    each([](tcp_state const& t) { return t.waiting; });
    out.family("weir_tcp_bytes_total", "Bytes sent to servers (up) and to clients (down).",
               metric::counter);
    for (auto const& t : s.tcp) {
        out.add(t.bytes_up, {{"listener", t.name}, {"sni", t.sni}, {"direction", "up"}});
        out.add(t.bytes_down, {{"listener", t.name}, {"sni", t.sni}, {"direction", "down"}});
    }
}

void add_stores(weir::metrics_writer& out, state const& s) {
    auto const each = [&](auto add) {
        for (auto const& l : s.limits)
            if (l.store)
                add(*l.store, l.name);
    };
    out.family("weir_store_requests_total", "Requests to the store.", metric::counter);
    each([&](store_state const& e, std::string const& name) {
        out.add(e.requests, {{"limit", name}});
    });
    out.family("weir_store_failures_total", "Failed or unanswered requests to the store.",
               metric::counter);
    each([&](store_state const& e, std::string const& name) {
        out.add(e.failed, {{"limit", name}, {"kind", "failed"}});
        out.add(e.unanswered, {{"limit", name}, {"kind", "unanswered"}});
    });
    out.family("weir_store_bypassed_permits_total", "Permits granted without the store.",
               metric::counter);
    each([&](store_state const& e, std::string const& name) {
        out.add(e.bypassed_permits, {{"limit", name}});
    });
    out.family("weir_store_mode", "1 for the active mode.", metric::gauge);
    each([&](store_state const& e, std::string const& name) {
        for (char const* const mode : {"store", "closed", "open", "local", "misconfigured"})
            out.add(e.mode == mode ? 1.0 : 0.0, {{"limit", name}, {"mode", mode}});
    });
}

// Only of a proxy with an agent.
void add_agent(weir::metrics_writer& out, state const& s) {
    if (!s.agent)
        return;
    out.family("weir_agent_connections_open", "Connected processes of this machine.",
               metric::gauge);
    out.add(s.agent->connections);
    out.family("weir_agent_limits", "Limits for which the agent fetches permits ahead.",
               metric::gauge);
    out.add(s.agent->limits);
    out.family("weir_agent_questions_total", "Questions of processes.", metric::counter);
    out.add(s.agent->questions);
    out.family("weir_agent_grants_total", "Questions with a grant in reply.", metric::counter);
    out.add(s.agent->grants);
}

void add_upstreams(weir::metrics_writer& out, state const& s) {
    auto const each = [&](auto add) {
        for (auto const& u : s.upstreams)
            for (auto const& one : u.servers)
                add(one, [&](auto const& value) {
                    out.add(value, {{"upstream", u.name}, {"server", one.name}});
                });
    };
    out.family("weir_upstream_server_up", "1 if the server is up, 0 if it is down.", metric::gauge);
    each([](server_state const& one, auto add) { add(one.down ? 0.0 : 1.0); });
    out.family("weir_upstream_connections_open", "Connections to the server, active or idle.",
               metric::gauge);
    each([](server_state const& one, auto add) { add(one.connections); });
    out.family("weir_upstream_requests_active",
               "Requests in progress at the server (only for several servers, or with seats).",
               metric::gauge);
    each([](server_state const& one, auto add) {
        if (one.active)
            add(*one.active);
    });
    out.histogram_family("weir_upstream_response_seconds", "Time to the response header.");
    each([](server_state const& one, auto add) { add(histogram_of(one.responses)); });
    out.family("weir_upstream_error_responses_total", "Responses with status 5xx.",
               metric::counter);
    each([](server_state const& one, auto add) { add(one.error_responses); });
    out.family("weir_upstream_connect_failures_total", "Failed connection attempts.",
               metric::counter);
    each([](server_state const& one, auto add) { add(one.connect_failures); });
    out.family("weir_upstream_tls_failures_total", "Errors of TLS by reason (only with https).",
               metric::counter);
    for (auto const& u : s.upstreams)
        for (auto const& one : u.servers)
            if (auto const& failed = one.tls_failures)
                for (auto const& [reason, n] :
                     {std::pair("certificate", failed->first), {"other", failed->second}})
                    out.add(n, {{"upstream", u.name}, {"server", one.name}, {"reason", reason}});
}

}  // namespace

std::string to_metrics(state const& s) {
    weir::metrics_writer out;
    add_proxy(out, s);
    add_introductions(out, s);
    add_tls(out, s);
    add_routes(out, s);
    add_limits(out, s);
    add_bandwidths(out, s);
    add_tcp(out, s);
    add_stores(out, s);
    add_agent(out, s);
    add_upstreams(out, s);
    return std::move(out).text();
}

}  // namespace admin
