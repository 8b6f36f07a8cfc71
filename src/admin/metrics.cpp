#include "stats.hpp"
#include "tool/text.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <sstream>

namespace admin {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;
using labels = std::vector<ClientMetric::Label>;

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

// Families of metrics, in the order in which they are added.
class families {
public:
    void family(std::string name, std::string help, MetricType type) {
        all_.push_back({std::move(name), std::move(help), type, {}});
    }
    void add(double value, labels of = {}) {
        auto& m = metric(std::move(of));
        if (all_.back().type == MetricType::Counter)
            m.counter.value = value;
        else
            m.gauge.value = value;
    }
    void add(std::uint64_t value, labels of = {}) {
        add(static_cast<double>(value), std::move(of));
    }
    ClientMetric& metric(labels of) {
        auto& m = all_.back().metric.emplace_back();
        m.label = std::move(of);
        return m;
    }

    [[nodiscard]] std::string text() {
        // A family without a metric would be told without a value.
        std::erase_if(all_, [](auto const& f) { return f.metric.empty(); });
        std::ostringstream out;
        prometheus::TextSerializer().Serialize(out, all_);
        return out.str();
    }

private:
    std::vector<prometheus::MetricFamily> all_;
};

ClientMetric::Histogram histogram_of(limit_state const& l) {
    ClientMetric::Histogram h;
    h.sample_count = l.granted;
    h.sample_sum = tool::seconds(l.waited_total);
    std::uint64_t so_far = l.granted_at_once;
    std::size_t i = 0;
    for (auto const end : wait_ends) {
        for (; i != weir::wait_histogram::ranges && weir::wait_histogram::end_of(i) <= end; ++i)
            so_far += l.waits.count_in(i);
        h.bucket.push_back({so_far, tool::seconds(end)});
    }
    return h;
}

ClientMetric::Histogram histogram_of(latency const& took) {
    ClientMetric::Histogram h;
    h.sample_count = took.count();
    h.sample_sum = tool::seconds(took.total);
    std::uint64_t so_far = 0;
    for (std::size_t i = 0; i != latency::ends.size(); ++i) {
        so_far += took.counts[i];
        h.bucket.push_back({so_far, tool::seconds(latency::ends[i])});
    }
    return h;
}

void add_proxy(families& out, state const& s) {
    out.family("weir_build_info", "The version of weir-proxy.", MetricType::Gauge);
    out.add(1.0, {{"version", s.version}});
    out.family("weir_start_time_seconds", "When the proxy was started, since 1970.",
               MetricType::Gauge);
    out.add(tool::seconds(s.started.time_since_epoch()));
    out.family("weir_ready", "Whether clients are let in.", MetricType::Gauge);
    out.add(s.ready ? 1.0 : 0.0);
    out.family("weir_connections_total", "Connections of clients.", MetricType::Counter);
    out.add(s.connections);
    out.family("weir_connections_open", "Connections of clients that are open.", MetricType::Gauge);
    out.add(s.open_connections);
    out.family("weir_connections_upgraded",
               "Open connections that have gone over to another protocol.", MetricType::Gauge);
    out.add(s.open_tunnels);
    out.family("weir_requests_total", "Requests by what has become of them.", MetricType::Counter);
    for (auto const& [name, n] : s.requests)
        out.add(n, {{"result", std::string(name)}});
    out.family("weir_log_lines_dropped_total", "Lines of the access log that could not be written.",
               MetricType::Counter);
    out.add(s.log_lines_dropped);
}

std::string decision_of(reason why, bool shadow) {
    if (why == reason::hung_up)
        return "cancelled";
    return shadow ? "shadow" : "refused";
}

void add_limits(families& out, state const& s) {
    auto const each = [&](auto add) {
        for (auto const& l : s.limits)
            add(l, labels{{"limit", l.name}});
    };
    out.family("weir_limit_info", "What each limit is.", MetricType::Gauge);
    each([&](limit_state const& l, labels) {
        out.add(1.0, {{"limit", l.name},
                      {"rule", l.rule},
                      {"key", l.key.empty() ? "total" : l.key},
                      {"shadow", l.shadow ? "true" : "false"}});
    });
    out.family(
        "weir_limit_decisions_total",
        "Requests by what has become of them at the limit: granted at once, delayed, refused, "
        "cancelled by a client that hung up; of a shadow, those that it would refuse.",
        MetricType::Counter);
    each([&](limit_state const& l, labels) {
        out.add(l.granted_at_once, {{"limit", l.name}, {"decision", "granted"}, {"reason", ""}});
        out.add(l.granted - l.granted_at_once,
                {{"limit", l.name}, {"decision", "delayed"}, {"reason", ""}});
        for (std::size_t i = 0; i != reason_names.size(); ++i)
            out.add(l.refused[i], {{"limit", l.name},
                                   {"decision", decision_of(static_cast<reason>(i), l.shadow)},
                                   {"reason", std::string(reason_names[i])}});
    });
    out.family("weir_limit_wait_seconds",
               "How long requests have waited that were granted; 0 for those that were at once.",
               MetricType::Histogram);
    each([&](limit_state const& l, labels of) {
        out.metric(std::move(of)).histogram = histogram_of(l);
    });
    out.family("weir_limit_waiting", "Requests that wait.", MetricType::Gauge);
    each([&](limit_state const& l, labels of) { out.add(l.waiting, std::move(of)); });
    out.family("weir_limit_oldest_wait_seconds", "How long the first of them has waited.",
               MetricType::Gauge);
    each([&](limit_state const& l, labels of) {
        if (l.key.empty())
            out.add(tool::seconds(l.oldest_wait), std::move(of));
    });
    out.family("weir_limit_in_use", "Permits that are out.", MetricType::Gauge);
    each([&](limit_state const& l, labels of) { out.add(l.in_use, std::move(of)); });
    out.family("weir_limit_capacity",
               "The most that can be granted at once; of adaptive seats, how many there are.",
               MetricType::Gauge);
    each([&](limit_state const& l, labels of) {
        if (l.capacity)
            out.add(static_cast<double>(*l.capacity), std::move(of));
    });
    out.family("weir_limit_keys", "Clients, or other keys, that are kept apart.",
               MetricType::Gauge);
    each([&](limit_state const& l, labels of) {
        if (l.keys)
            out.add(*l.keys, std::move(of));
    });
}

void add_engines(families& out, state const& s) {
    auto const each = [&](auto add) {
        for (auto const& l : s.limits)
            if (l.engine)
                add(*l.engine, l.name);
    };
    out.family("weir_engine_questions_total", "Questions to what keeps the limit.",
               MetricType::Counter);
    each([&](engine_state const& e, std::string const& name) {
        out.add(e.questions, {{"limit", name}});
    });
    out.family("weir_engine_failures_total", "Questions that have failed, or got no answer.",
               MetricType::Counter);
    each([&](engine_state const& e, std::string const& name) {
        out.add(e.failed, {{"limit", name}, {"kind", "failed"}});
        out.add(e.unanswered, {{"limit", name}, {"kind", "unanswered"}});
    });
    out.family("weir_engine_granted_without_total", "Permits that were granted without it.",
               MetricType::Counter);
    each([&](engine_state const& e, std::string const& name) {
        out.add(e.granted_without, {{"limit", name}});
    });
    out.family("weir_engine_mode", "1 for what decides at the moment.", MetricType::Gauge);
    each([&](engine_state const& e, std::string const& name) {
        for (char const* const mode : {"engine", "refusing", "open", "local"})
            out.add(e.mode == mode ? 1.0 : 0.0, {{"limit", name}, {"mode", mode}});
    });
}

void add_upstreams(families& out, state const& s) {
    auto const each = [&](auto add) {
        for (auto const& u : s.upstreams)
            for (auto const& one : u.servers)
                add(one, labels{{"upstream", u.name}, {"server", one.name}});
    };
    out.family("weir_upstream_server_up", "0 if the server is out, since it does not answer.",
               MetricType::Gauge);
    each([&](server_state const& one, labels of) { out.add(one.out ? 0.0 : 1.0, std::move(of)); });
    out.family("weir_upstream_connections_open", "Connections to the server, used or kept.",
               MetricType::Gauge);
    each([&](server_state const& one, labels of) { out.add(one.connections, std::move(of)); });
    out.family("weir_upstream_requests_busy",
               "Requests that the server works on, where they are "
               "counted: at one of several servers, or one with seats.",
               MetricType::Gauge);
    each([&](server_state const& one, labels of) {
        if (one.busy)
            out.add(*one.busy, std::move(of));
    });
    out.family("weir_upstream_answer_seconds",
               "How long the server has taken from the request to the head of its answer.",
               MetricType::Histogram);
    each([&](server_state const& one, labels of) {
        out.metric(std::move(of)).histogram = histogram_of(one.answers);
    });
    out.family("weir_upstream_unreachable_total", "Connections that could not be made.",
               MetricType::Counter);
    each([&](server_state const& one, labels of) { out.add(one.unreachable, std::move(of)); });
}

}  // namespace

std::string to_metrics(state const& s) {
    families out;
    add_proxy(out, s);
    add_limits(out, s);
    add_engines(out, s);
    add_upstreams(out, s);
    return out.text();
}

}  // namespace admin
