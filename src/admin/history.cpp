#include "history.hpp"

#include "tool/json.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace admin {
namespace {

std::uint32_t narrow(std::uint64_t n) noexcept {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(n, std::numeric_limits<std::uint32_t>::max()));
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
    return p;
}

}  // namespace

rejections rejected_since(limit_state const& before, limit_state const& now) {
    rejections since{};
    if (before.dry_run == now.dry_run)
        std::ranges::transform(
            rejections_of(now.stats), rejections_of(before.stats), since.begin(), std::minus());
    return since;
}

void history::add(state& now) {
    ++second_;
    bool const next_minute = second_ % 60 == 0;
    if (next_minute) {
        rejected_.emplace_back(clients);
        if (rejected_.size() > minutes)
            rejected_.pop_front();
    }
    std::map<std::uint64_t, of_limit> left;
    for (auto const& l : now.limits) {
        auto found = limits_.extract(l.id);
        if (found.empty()) {  // a new limit
            left.emplace(l.id, of_limit{l, {}, {l.waits}});
            continue;
        }
        auto& of = left.insert(std::move(found)).position->second;
        of.points.push_back(difference(of.before, l));
        if (of.points.size() > seconds)
            of.points.pop_front();
        if (next_minute)
            of.waits.push_back(l.waits);
        if (of.waits.size() > minutes)
            of.waits.pop_front();
        of.before = l;
    }
    limits_ = std::move(left);
    complete(now);
}

void history::complete(state& now) const {
    for (auto& l : now.limits) {
        auto const found = limits_.find(l.id);
        l.recent_waits = found == limits_.end() ? l.waits : l.waits - found->second.waits.front();
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
    out.begin().member("second", second_).name("limits").begin();
    for (auto const& [id, of] : limits_) {
        out.name(std::to_string(id)).begin('[');
        auto const n = std::min(most, of.points.size());
        for (auto p = of.points.end() - static_cast<std::ptrdiff_t>(n); p != of.points.end(); ++p) {
            out.begin('[').value(p->at_once).value(p->later).value(p->waiting).value(p->in_use);
            for (auto const rejected : p->rejected)
                out.value(rejected);
            out.end(']');
        }
        out.end(']');
    }
    return std::move(out.end().end()).text();
}

}  // namespace admin
