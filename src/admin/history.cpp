#include "history.hpp"

#include "tool/json.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>

namespace admin {
namespace {

std::uint32_t narrow(std::uint64_t n) noexcept {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(n, std::numeric_limits<std::uint32_t>::max()));
}

std::uint32_t microseconds(weir::duration d) noexcept {
    return narrow(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(d).count()));
}

history::point difference(limit_state const& before, limit_state const& now) {
    auto const later = [](limit_state const& l) {
        return l.stats.granted - l.stats.granted_immediately;
    };
    history::point p;
    p.at_once = narrow(now.stats.granted_immediately - before.stats.granted_immediately);
    p.later = narrow(later(now) - later(before));
    std::ranges::transform(rejected_since(before, now), p.rejected.begin(), narrow);
    p.waiting = narrow(now.stats.waiting);
    p.in_use = narrow(static_cast<std::uint64_t>(std::max<weir::amount>(now.stats.in_use, 0)));
    if (p.later != 0)
        p.p99_wait = microseconds((now.waits - before.waits).quantile(0.99));
    return p;
}

history::point_of_server difference(server_state const& before, server_state const& now) {
    auto const responses = now.responses - before.responses;
    return {.responses = narrow(responses.count()),
            .errors = narrow(now.error_responses - before.error_responses),
            .p99 = microseconds(responses.quantile(0.99)),
            .active = narrow(now.active.value_or(0))};
}

std::uint64_t rejected(history::point const& p) noexcept {
    std::uint64_t n = 0;
    for (std::size_t i = 0; i != p.rejected.size(); ++i)
        if (i != static_cast<std::size_t>(reason::disconnected))
            n += p.rejected[i];
    return n;
}

std::uint64_t rejected(state const& s) {
    auto const found =
        std::ranges::find(s.requests, "rejected", [](auto const& r) { return r.first; });
    return found == s.requests.end() ? 0 : found->second;
}

// Adds a value, and drops the first one above `most`.
template <class T>
void push(std::deque<T>& all, T value, std::size_t most) {
    all.push_back(std::move(value));
    if (all.size() > most)
        all.pop_front();
}

std::string key_of(upstream_state const& u, server_state const& s) {
    return u.name + '\n' + s.name;
}

void add(tool::json& out, history::point const& p) {
    out.value(p.at_once).value(p.later).value(p.waiting).value(p.in_use);
    for (auto const rejected : p.rejected)
        out.value(rejected);
    out.value(p.p99_wait);
}

void add(tool::json& out, history::point_of_all const& p) {
    for (auto const responses : p.responses)
        out.value(responses);
    out.value(p.rejected).value(p.p50).value(p.p99).value(p.active).value(p.waiting);
}

void add(tool::json& out, history::point_of_server const& p) {
    out.value(p.responses).value(p.errors).value(p.p99).value(p.active);
}

template <class T>
void add_points(tool::json& out, std::deque<T> const& points, std::size_t most) {
    out.begin('[');
    auto const n = static_cast<std::ptrdiff_t>(std::min(most, points.size()));
    for (auto p = points.end() - n; p != points.end(); ++p) {
        out.begin('[');
        add(out, *p);
        out.end(']');
    }
    out.end(']');
}

}  // namespace

weir::duration latency::quantile(double q) const noexcept {
    auto const rank = q * static_cast<double>(count());
    double so_far = 0;
    weir::duration begin{};
    for (std::size_t i = 0; i != ends.size() && rank > 0; ++i) {
        auto const n = static_cast<double>(counts[i]);
        if (n > 0 && so_far + n >= rank) {
            auto const part = (rank - so_far) / n;
            auto const width = std::chrono::duration<double, std::nano>(ends[i] - begin);
            return begin + std::chrono::duration_cast<weir::duration>(width * part);
        }
        so_far += n;
        begin = ends[i];
    }
    return rank > 0 ? begin : weir::duration::zero();
}

rejections rejected_since(limit_state const& before, limit_state const& now) {
    rejections since{};
    if (before.dry_run == now.dry_run)
        std::ranges::transform(
            rejections_of(now.stats), rejections_of(before.stats), since.begin(), std::minus());
    return since;
}

void history::add(state& now) {
    ++second_;
    if (minute_passed())
        push(rejected_, most_frequent<rejected_by>(clients), minutes);
    add_all(now);
    add_limits(now);
    add_servers(now);
    before_ = now;
    before_->limits.clear();
    before_->upstreams.clear();
    before_->routes.clear();
    complete(now);
}

void history::add_all(state const& now) {
    if (before_) {
        point_of_all p;
        std::ranges::transform(now.responses, before_->responses, p.responses.begin(),
                               [](auto a, auto b) { return narrow(a - b); });
        p.rejected = narrow(rejected(now) - rejected(*before_));
        auto const times = now.response_times - before_->response_times;
        p.p50 = microseconds(times.quantile(0.5));
        p.p99 = microseconds(times.quantile(0.99));
        p.active = narrow(now.active);
        p.waiting = narrow(now.waiting);
        push(points_, p, seconds);
    }
    if (ten_seconds_passed() || times_of_ten_.empty())
        push(times_of_ten_, now.response_times, tens);
}

void history::add_limits(state const& now) {
    std::map<std::uint64_t, of_limit> left;
    for (auto const& l : now.limits) {
        auto found = limits_.extract(l.id);
        if (found.empty()) {  // a new limit
            left.emplace(l.id, of_limit{.before = l,
                                        .points = {},
                                        .waits = {l.waits},
                                        .waits_of_ten = {l.waits},
                                        .since = {}});
            continue;
        }
        auto& of = left.insert(std::move(found)).position->second;
        push(of.points, difference(of.before, l), seconds);
        note_events(of, l, before_->now);
        if (minute_passed())
            push(of.waits, l.waits, minutes);
        if (ten_seconds_passed())
            push(of.waits_of_ten, l.waits, tens);
        of.before = l;
    }
    limits_ = std::move(left);
}

// Begins or ends an episode in which a limit rejects or delays requests. `begin` is the start of this second.
void history::note_events(of_limit& of, limit_state const& l,
                          std::chrono::system_clock::time_point begin) const {
    auto const& p = of.points.back();
    if (l.dry_run) {
        of.since.reset();
    } else if (rejected(p) > 0 || p.waiting > 0) {
        of.last_event = second_;
        if (!of.since)
            of.since = begin;
    } else if (second_ - of.last_event >= pause) {
        of.since.reset();
    }
}

void history::add_servers(state const& now) {
    std::map<std::string, of_server> left;
    for (auto const& u : now.upstreams)
        for (auto const& s : u.servers) {
            auto found = servers_.extract(key_of(u, s));
            if (found.empty()) {
                left.emplace(key_of(u, s), of_server{.before = s,
                                                     .points = {},
                                                     .responses_of_ten = {s.responses},
                                                     .down_since = {}});
                continue;
            }
            auto& of = left.insert(std::move(found)).position->second;
            push(of.points, difference(of.before, s), seconds);
            if (ten_seconds_passed())
                push(of.responses_of_ten, s.responses, tens);
            of.before = s;
        }
    for (auto const& u : now.upstreams)
        for (auto const& s : u.servers) {
            auto& since = left.at(key_of(u, s)).down_since;
            if (!s.down)
                since.reset();
            else if (!since)
                since = now.now;
        }
    servers_ = std::move(left);
}

void history::complete(state& now) const {
    now.recent_response_times =
        times_of_ten_.empty() ? now.response_times : now.response_times - times_of_ten_.front();
    for (auto& l : now.limits) {
        auto const found = limits_.find(l.id);
        l.recent_waits = found == limits_.end() ? l.waits : l.waits - found->second.waits.front();
        if (found != limits_.end()) {
            auto const& of = found->second;
            l.minute = {};
            auto const n = std::min<std::size_t>(60, of.points.size());
            for (auto p = of.points.end() - static_cast<std::ptrdiff_t>(n); p != of.points.end();
                 ++p) {
                l.minute.granted += std::uint64_t{p->at_once} + p->later;
                l.minute.rejected += rejected(*p);
            }
            l.minute.waits = l.waits - of.waits_of_ten.front();
            l.since = of.since;
        }
        most_frequent<std::string> all(clients);
        for (auto const& minute : rejected_)
            for (auto const& one : minute.all())
                if (one.key.limit == l.id)
                    all.count(one.key.client, one.count, one.error);
        l.top_rejected.clear();
        for (auto const& one : all.all())
            l.top_rejected.push_back({one.key, one.count, one.error});
        std::ranges::sort(l.top_rejected, [](auto const& a, auto const& b) {
            return std::pair(b.rejected, a.client) < std::pair(a.rejected, b.client);
        });
        if (l.top_rejected.size() > clients_shown)
            l.top_rejected.resize(clients_shown);
    }
    for (auto& u : now.upstreams)
        for (auto& s : u.servers)
            if (auto const found = servers_.find(key_of(u, s)); found != servers_.end()) {
                s.recent_responses = s.responses - found->second.responses_of_ten.front();
                s.down_since = found->second.down_since;
            }
}

void history::count(rejected_by const& who, std::uint64_t times, std::uint64_t error) {
    rejected_.back().count(who, times, error);
}

std::string history::to_json() const {
    return to_json(seconds);
}

std::string history::last_to_json() const {
    return to_json(1);
}

std::string history::to_json(std::size_t most) const {
    tool::json out;
    out.begin().member("second", second_).name("all");
    add_points(out, points_, most);
    out.name("limits").begin();
    for (auto const& [id, of] : limits_) {
        out.name(std::to_string(id));
        add_points(out, of.points, most);
    }
    out.end().name("servers").begin();
    for (auto const& [name, of] : servers_) {
        out.name(name);
        add_points(out, of.points, most);
    }
    return std::move(out.end().end()).text();
}

}  // namespace admin
