#include <weir/prometheus.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace weir::inline v0_2 {
namespace {

using namespace std::chrono_literals;

constexpr std::array<duration, 16> standard_ends{
    1ms, 2500us, 5ms, 10ms, 25ms, 50ms, 100ms, 250ms, 500ms, 1s, 2500ms, 5s, 10s, 30s, 60s, 300s};

double seconds(duration d) noexcept {
    return std::chrono::duration<double>(d).count();
}

std::uint64_t at_least_0(amount n) noexcept {
    return static_cast<std::uint64_t>(std::max<amount>(n, 0));
}

void append_escaped(std::string& text, std::string_view value) {
    for (char const c : value) {
        if (c == '\\' || c == '"')
            text += '\\';
        if (c == '\n')
            text += "\\n";
        else
            text += c;
    }
}

void append_label(std::string& text, std::string_view name, std::string_view value) {
    text += text.ends_with('{') ? "" : ",";
    text.append(name).append("=\"");
    append_escaped(text, value);
    text += '"';
}

struct reason {
    std::string_view name;
    std::uint64_t limiter_stats::* count;
};
constexpr std::array<reason, 9> reasons{
    {{"no_permit", &limiter_stats::no_permit},
     {"timed_out", &limiter_stats::timed_out},
     {"deadline_unreachable", &limiter_stats::deadline_unreachable},
     {"queue_full", &limiter_stats::queue_full},
     {"shed", &limiter_stats::shed},
     {"exceeds_capacity", &limiter_stats::exceeds_capacity},
     {"closed", &limiter_stats::closed},
     {"too_many_keys", &limiter_stats::too_many_keys},
     {"unavailable", &limiter_stats::unavailable}}};

void add_decisions(metrics_writer& out, limit_metrics const& l) {
    auto const add = [&](std::uint64_t n, std::string_view decision, std::string_view why = "") {
        out.add(n, {{"limit", l.name}, {"decision", decision}, {"reason", why}});
    };
    add(l.stats.granted_immediately, "granted");
    add(l.stats.granted - l.stats.granted_immediately, "delayed");
    for (auto const& why : reasons)
        add(l.stats.*why.count, l.dry_run ? "would_reject" : "rejected", why.name);
    add(l.stats.cancelled, "cancelled");
    if (l.stats.would_reject + l.stats.would_wait != 0) {
        add(l.stats.would_reject, "would_reject");
        add(l.stats.would_wait, "would_wait");
    }
}

void add_objects(metrics_writer& out, std::span<limit_metrics const> limits) {
    auto const each = [&](std::string_view kind, auto const&... parts) {
        for (auto const& l : limits)
            if (l.pool)
                (out.add(static_cast<std::uint64_t>((*l.pool).*parts.second),
                         {{"limit", l.name}, {kind, parts.first}}),
                 ...);
    };
    out.family("weir_pool_objects", "Objects by state.", metrics_writer::type::gauge);
    each("state", std::pair("idle", &pool_stats::idle), std::pair("in_use", &pool_stats::in_use),
         std::pair("being_checked", &pool_stats::being_checked),
         std::pair("being_created", &pool_stats::being_created));
    out.family(
        "weir_pool_objects_total",
        "Objects created and objects destroyed, by reason; failed: failed attempts to create one.",
        metrics_writer::type::counter);
    each("event", std::pair("created", &pool_stats::created),
         std::pair("failed", &pool_stats::failed), std::pair("discarded", &pool_stats::discarded),
         std::pair("unhealthy", &pool_stats::unhealthy),
         std::pair("retired", &pool_stats::retired));
}

}  // namespace

std::span<duration const> standard_wait_ends() noexcept {
    return standard_ends;
}

cumulative_histogram accumulate(limiter_stats const& stats, wait_histogram const& waits,
                                std::span<duration const> ends) {
    cumulative_histogram h{.buckets = {}, .count = stats.granted, .sum = stats.waited_total};
    h.buckets.reserve(ends.size());
    auto so_far = stats.granted_immediately;
    std::size_t i = 0;
    for (auto const end : ends) {
        for (; i != wait_histogram::ranges && wait_histogram::end_of(i) <= end; ++i)
            so_far += waits.count_in(i);
        h.buckets.push_back({end, so_far});
    }
    return h;
}

limit_metrics::limit_metrics(std::string limit, snapshot<limiter_stats> s)
    : name(std::move(limit)), stats(s.stats), waits(s.waits) {}

limit_metrics::limit_metrics(std::string limit, snapshot<pool_stats> s)
    : name(std::move(limit)), stats(s.stats.requests), waits(s.waits), pool(s.stats) {}

limit_metrics::limit_metrics(std::string limit, snapshot<keyed_stats> s)
    : name(std::move(limit)), stats(s.stats.total), waits(s.waits), keys(s.stats.keys) {}

std::string limit_metrics::name_in(limiter_stats const& s) {
    if (s.name.empty())
        throw std::invalid_argument(
            "weir::prometheus: the limiter has no name; set queue_options::name, or name it in "
            "this call");
    return std::string(s.name.view());
}

void metrics_writer::family(std::string_view name, std::string_view help, type kind) {
    head(name, help, kind == type::counter ? "counter" : "gauge");
}

void metrics_writer::histogram_family(std::string_view name, std::string_view help) {
    head(name, help, "histogram");
}

void metrics_writer::head(std::string_view name, std::string_view help,
                          std::string_view type_name) {
    name_ = name;
    head_ = fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type_name);
}

void metrics_writer::add(double value, labels of) {
    sample("", of, {}, value);
}

void metrics_writer::add(std::uint64_t value, labels of) {
    sample("", of, {}, value);
}

void metrics_writer::add(cumulative_histogram const& h, labels of) {
    for (auto const& b : h.buckets)
        sample("_bucket", of, fmt::format("{}", seconds(b.end)), b.count);
    sample("_bucket", of, "+Inf", h.count);
    sample("_sum", of, {}, seconds(h.sum));
    sample("_count", of, {}, h.count);
}

template <class Value>
void metrics_writer::sample(std::string_view suffix, labels of, std::string_view end, Value value) {
    text_ += std::exchange(head_, {});
    text_.append(name_).append(suffix);
    if (of.size() != 0 || !end.empty()) {
        text_ += '{';
        for (auto const& l : of)
            append_label(text_, l.name, l.value);
        if (!end.empty())
            append_label(text_, "le", end);
        text_ += '}';
    }
    fmt::format_to(std::back_inserter(text_), " {}\n", value);
}

void metrics_writer::add(std::span<limit_metrics const> limits) {
    auto const each = [&](auto figure) {
        for (auto const& l : limits)
            add(figure(l), {{"limit", l.name}});
    };
    auto const unless_keyed = [&](auto figure) {
        for (auto const& l : limits)
            if (!l.keys)
                add(figure(l), {{"limit", l.name}});
    };
    family("weir_limit_decisions_total",
           "Decisions of each limit: granted, delayed (granted after a wait), rejected with a "
           "reason, cancelled, would_reject and would_wait (dry run).",
           type::counter);
    for (auto const& l : limits)
        add_decisions(*this, l);
    family("weir_limit_permits_total", "Permits of granted requests.", type::counter);
    each([](auto const& l) { return at_least_0(l.stats.permits_granted); });
    histogram_family("weir_limit_wait_seconds",
                     "Wait of granted requests; 0 if granted immediately.");
    each([](auto const& l) { return accumulate(l.stats, l.waits); });
    family("weir_limit_overdue_total", "Permits held for longer than `max_hold`.", type::counter);
    each([](auto const& l) { return l.stats.overdue; });
    family("weir_limit_waiting", "Requests waiting.", type::gauge);
    each([](auto const& l) { return l.stats.waiting; });
    family("weir_limit_oldest_wait_seconds", "Wait of the oldest waiting request.", type::gauge);
    unless_keyed([](auto const& l) { return seconds(l.stats.oldest_wait); });
    family("weir_limit_in_use", "Permits in use.", type::gauge);
    each([](auto const& l) { return at_least_0(l.stats.in_use); });
    family("weir_limit_capacity",
           "Largest possible grant; for adaptive seats, their current number.", type::gauge);
    unless_keyed([](auto const& l) { return at_least_0(l.stats.capacity); });
    family("weir_limit_remaining", "Permits that could be granted now.", type::gauge);
    unless_keyed([](auto const& l) { return at_least_0(l.stats.remaining); });
    family("weir_limit_keys", "Keys tracked.", type::gauge);
    for (auto const& l : limits)
        if (l.keys)
            add(*l.keys, {{"limit", l.name}});
    add_objects(*this, limits);
}

std::string prometheus(std::span<limit_metrics const> limits) {
    metrics_writer out;
    out.add(limits);
    return std::move(out).text();
}

std::string prometheus(std::initializer_list<limit_metrics> limits) {
    return prometheus(std::span(limits.begin(), limits.size()));
}

}  // namespace weir::inline v0_2
