#include "exposition.hpp"
#include "stats.hpp"
#include "tool/text.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace admin {
namespace {

// A wait counts in the bucket that contains the end of its range, so a wait never appears shorter than it was.
constexpr std::array<std::chrono::microseconds, 16> wait_ends{
    std::chrono::microseconds(1'000),      std::chrono::microseconds(2'500),
    std::chrono::microseconds(5'000),      std::chrono::microseconds(10'000),
    std::chrono::microseconds(25'000),     std::chrono::microseconds(50'000),
    std::chrono::microseconds(100'000),    std::chrono::microseconds(250'000),
    std::chrono::microseconds(500'000),    std::chrono::microseconds(1'000'000),
    std::chrono::microseconds(2'500'000),  std::chrono::microseconds(5'000'000),
    std::chrono::microseconds(10'000'000), std::chrono::microseconds(30'000'000),
    std::chrono::microseconds(60'000'000), std::chrono::microseconds(300'000'000)};

histogram histogram_of(limit_state const& l) {
    histogram h;
    h.count = l.granted;
    h.sum = tool::seconds(l.waited_total);
    std::uint64_t so_far = l.granted_at_once;
    std::size_t i = 0;
    for (auto const end : wait_ends) {
        for (; i != weir::wait_histogram::ranges && weir::wait_histogram::end_of(i) <= end; ++i)
            so_far += l.waits.count_in(i);
        h.buckets.push_back({tool::seconds(end), so_far});
    }
    return h;
}

histogram histogram_of(latency const& took) {
    histogram h;
    h.count = took.count();
    h.sum = tool::seconds(took.total);
    std::uint64_t so_far = 0;
    for (std::size_t i = 0; i != latency::ends.size(); ++i) {
        so_far += took.counts[i];
        h.buckets.push_back({tool::seconds(latency::ends[i]), so_far});
    }
    return h;
}

void add_proxy(exposition& out, state const& s) {
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
        out.add(n, {{"result", std::string(name)}});
    out.family("weir_log_lines_dropped_total", "Access log lines that could not be written.",
               metric::counter);
    out.add(s.log_lines_dropped);
}

std::string decision_of(reason why, bool dry_run) {
    if (why == reason::disconnected)
        return "cancelled";
    return dry_run ? "would_reject" : "rejected";
}

void add_limits(exposition& out, state const& s) {
    auto const each = [&](auto add) {
        for (auto const& l : s.limits)
            add(l, labels{{"limit", l.name}});
    };
    out.family("weir_limit_info", "Rule, key and mode of each limit.", metric::gauge);
    each([&](limit_state const& l, labels const&) {
        out.add(1.0, {{"limit", l.name},
                      {"rule", l.rule},
                      {"key", l.key.empty() ? "total" : l.key},
                      {"dry_run", l.dry_run ? "true" : "false"}});
    });
    out.family(
        "weir_limit_decisions_total",
        "Decisions of each limit: granted, delayed, rejected with a reason, cancelled (client "
        "disconnected), would_reject (dry run).",
        metric::counter);
    each([&](limit_state const& l, labels const&) {
        out.add(l.granted_at_once, {{"limit", l.name}, {"decision", "granted"}, {"reason", ""}});
        out.add(l.granted - l.granted_at_once,
                {{"limit", l.name}, {"decision", "delayed"}, {"reason", ""}});
        for (std::size_t i = 0; i != reason_names.size(); ++i)
            out.add(l.rejected[i], {{"limit", l.name},
                                    {"decision", decision_of(static_cast<reason>(i), l.dry_run)},
                                    {"reason", std::string(reason_names[i])}});
    });
    out.family("weir_limit_wait_seconds", "Wait of granted requests; 0 if granted immediately.",
               metric::histogram);
    each([&](limit_state const& l, labels const& of) { out.add(histogram_of(l), of); });
    out.family("weir_limit_waiting", "Requests waiting.", metric::gauge);
    each([&](limit_state const& l, labels const& of) { out.add(l.waiting, of); });
    out.family("weir_limit_oldest_wait_seconds", "Wait of the oldest waiting request.",
               metric::gauge);
    each([&](limit_state const& l, labels const& of) {
        if (l.key.empty())
            out.add(tool::seconds(l.oldest_wait), of);
    });
    out.family("weir_limit_in_use", "Permits in use.", metric::gauge);
    each([&](limit_state const& l, labels const& of) { out.add(l.in_use, of); });
    out.family("weir_limit_capacity",
               "Largest possible grant; for adaptive seats, their current number.", metric::gauge);
    each([&](limit_state const& l, labels const& of) {
        if (l.capacity)
            out.add(static_cast<double>(*l.capacity), of);
    });
    out.family("weir_limit_keys", "Keys tracked.", metric::gauge);
    each([&](limit_state const& l, labels const& of) {
        if (l.keys)
            out.add(*l.keys, of);
    });
}

void add_stores(exposition& out, state const& s) {
    auto const each = [&](auto add) {
        for (auto const& l : s.limits)
            if (l.store)
                add(*l.store, l.name);
    };
    out.family("weir_store_requests_total", "Requests to the store.", metric::counter);
    each([&](store_state const& e, std::string const& name) {
        out.add(e.questions, {{"limit", name}});
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
        for (char const* const mode : {"store", "closed", "open", "local"})
            out.add(e.mode == mode ? 1.0 : 0.0, {{"limit", name}, {"mode", mode}});
    });
}

void add_upstreams(exposition& out, state const& s) {
    auto const each = [&](auto add) {
        for (auto const& u : s.upstreams)
            for (auto const& one : u.servers)
                add(one, labels{{"upstream", u.name}, {"server", one.name}});
    };
    out.family("weir_upstream_server_up", "1 if the server is up, 0 if it is down.", metric::gauge);
    each([&](server_state const& one, labels const& of) { out.add(one.out ? 0.0 : 1.0, of); });
    out.family("weir_upstream_connections_open", "Connections to the server, active or idle.",
               metric::gauge);
    each([&](server_state const& one, labels const& of) { out.add(one.connections, of); });
    out.family("weir_upstream_requests_active",
               "Requests in progress at the server (only for several servers, or with seats).",
               metric::gauge);
    each([&](server_state const& one, labels const& of) {
        if (one.busy)
            out.add(*one.busy, of);
    });
    out.family("weir_upstream_response_seconds", "Time to the response header.", metric::histogram);
    each([&](server_state const& one, labels const& of) {
        out.add(histogram_of(one.answers), of);
    });
    out.family("weir_upstream_connect_failures_total", "Failed connection attempts.",
               metric::counter);
    each([&](server_state const& one, labels const& of) { out.add(one.unreachable, of); });
}

}  // namespace

std::string to_metrics(state const& s) {
    exposition out;
    add_proxy(out, s);
    add_limits(out, s);
    add_stores(out, s);
    add_upstreams(out, s);
    return out.text();
}

}  // namespace admin
