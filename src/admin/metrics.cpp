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

// A wait is counted where its range ends, so it is never told to be shorter than it was.
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
    out.family("weir_start_time_seconds", "When the proxy was started, since 1970.", metric::gauge);
    out.add(tool::seconds(s.started.time_since_epoch()));
    out.family("weir_ready", "Whether clients are let in.", metric::gauge);
    out.add(s.ready ? 1.0 : 0.0);
    out.family("weir_connections_total", "Connections of clients.", metric::counter);
    out.add(s.connections);
    out.family("weir_connections_open", "Connections of clients that are open.", metric::gauge);
    out.add(s.open_connections);
    out.family("weir_connections_upgraded",
               "Open connections that have gone over to another protocol.", metric::gauge);
    out.add(s.open_tunnels);
    out.family("weir_requests_total", "Requests by what has become of them.", metric::counter);
    for (auto const& [name, n] : s.requests)
        out.add(n, {{"result", std::string(name)}});
    out.family("weir_log_lines_dropped_total", "Lines of the access log that could not be written.",
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
    out.family("weir_limit_info", "What each limit is.", metric::gauge);
    each([&](limit_state const& l, labels const&) {
        out.add(1.0, {{"limit", l.name},
                      {"rule", l.rule},
                      {"key", l.key.empty() ? "total" : l.key},
                      {"dry_run", l.dry_run ? "true" : "false"}});
    });
    out.family(
        "weir_limit_decisions_total",
        "Requests by what has become of them at the limit: granted at once, delayed, rejected, "
        "cancelled by a client that hung up; of a dry run, those that it would reject.",
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
    out.family("weir_limit_wait_seconds",
               "How long requests have waited that were granted; 0 for those that were at once.",
               metric::histogram);
    each([&](limit_state const& l, labels const& of) { out.add(histogram_of(l), of); });
    out.family("weir_limit_waiting", "Requests that wait.", metric::gauge);
    each([&](limit_state const& l, labels const& of) { out.add(l.waiting, of); });
    out.family("weir_limit_oldest_wait_seconds", "How long the first of them has waited.",
               metric::gauge);
    each([&](limit_state const& l, labels const& of) {
        if (l.key.empty())
            out.add(tool::seconds(l.oldest_wait), of);
    });
    out.family("weir_limit_in_use", "Permits that are out.", metric::gauge);
    each([&](limit_state const& l, labels const& of) { out.add(l.in_use, of); });
    out.family("weir_limit_capacity",
               "The most that can be granted at once; of adaptive seats, how many there are.",
               metric::gauge);
    each([&](limit_state const& l, labels const& of) {
        if (l.capacity)
            out.add(static_cast<double>(*l.capacity), of);
    });
    out.family("weir_limit_keys", "Clients, or other keys, that are kept apart.", metric::gauge);
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
    out.family("weir_store_requests_total", "Questions to what keeps the limit.", metric::counter);
    each([&](store_state const& e, std::string const& name) {
        out.add(e.questions, {{"limit", name}});
    });
    out.family("weir_store_failures_total", "Questions that have failed, or got no answer.",
               metric::counter);
    each([&](store_state const& e, std::string const& name) {
        out.add(e.failed, {{"limit", name}, {"kind", "failed"}});
        out.add(e.unanswered, {{"limit", name}, {"kind", "unanswered"}});
    });
    out.family("weir_store_bypassed_permits_total", "Permits that were granted without it.",
               metric::counter);
    each([&](store_state const& e, std::string const& name) {
        out.add(e.bypassed_permits, {{"limit", name}});
    });
    out.family("weir_store_mode", "1 for what decides at the moment.", metric::gauge);
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
    out.family("weir_upstream_server_up", "0 if the server is out, since it does not answer.",
               metric::gauge);
    each([&](server_state const& one, labels const& of) { out.add(one.out ? 0.0 : 1.0, of); });
    out.family("weir_upstream_connections_open", "Connections to the server, used or kept.",
               metric::gauge);
    each([&](server_state const& one, labels const& of) { out.add(one.connections, of); });
    out.family("weir_upstream_requests_active",
               "Requests that the server works on, where they are "
               "counted: at one of several servers, or one with seats.",
               metric::gauge);
    each([&](server_state const& one, labels const& of) {
        if (one.busy)
            out.add(*one.busy, of);
    });
    out.family("weir_upstream_response_seconds",
               "How long the server has taken from the request to the head of its answer.",
               metric::histogram);
    each([&](server_state const& one, labels const& of) {
        out.add(histogram_of(one.answers), of);
    });
    out.family("weir_upstream_connect_failures_total", "Connections that could not be made.",
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
