#include "quota.hpp"

#include <weir/policy/tree/plan.hpp>
#include <weir/rate.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <variant>

namespace proxy {
namespace {

using std::chrono::seconds;

// An integer of structured fields has at most 15 digits.
constexpr weir::amount largest = 999'999'999'999'999;

std::int64_t whole_seconds(weir::duration d) {
    return std::chrono::ceil<seconds>(d).count();
}

quota per_window(weir::amount n, weir::duration window) {
    return {.max = std::min(n, largest), .seconds = whole_seconds(window)};
}

// The quota of a rate `r` that saves up to `saved` permits for a burst.
quota of_rate(weir::rate const& r, weir::amount saved) {
    if (r.permits() == 0)
        return {.max = std::min(saved, largest)};
    if (saved <= r.permits())
        return per_window(r.permits(), r.period());
    auto const long_enough =
        static_cast<long double>(saved) * static_cast<long double>(r.period().count()) /
        static_cast<long double>(r.permits());
    bool const endless = long_enough >= static_cast<long double>(weir::forever.count());
    return per_window(
        saved,
        endless ? weir::forever : weir::duration(static_cast<weir::duration::rep>(long_enough)));
}

quota of(weir::seats_options const& o) {
    return {.max = std::min(o.seats, largest), .at_a_time = true};
}
quota of(weir::resting_seats_options const& o) {
    return {.max = o.seats, .at_a_time = true};
}
quota of(weir::adaptive_options const& o) {
    return {.max = std::visit([](auto const& a) { return a.max; }, o), .at_a_time = true};
}
quota of(weir::sliding_log_options const& o) {
    return per_window(o.limit, o.window);
}
quota of(weir::sliding_window_options const& o) {
    return per_window(o.limit, o.window);
}
quota of(weir::fixed_window_options const& o) {
    return per_window(o.limit, o.window);
}
quota of(weir::calendar_window_options const& o) {
    return {.max = std::min(o.limit, largest),
            .calendar = weir::calendar_options{.unit = o.unit, .zone = o.zone, .clock = o.clock}};
}
quota of(weir::token_bucket_options const& o) {
    return of_rate(o.rate, o.burst.value_or(std::max<weir::amount>(o.rate.permits(), 1)));
}
quota of(weir::leaky_bucket_options const& o) {
    return of_rate(o.rate, o.capacity);
}
quota of(weir::smooth_bursty_options const& o) {
    auto const saved =
        static_cast<long double>(o.rate.permits()) * static_cast<long double>(o.max_burst.count()) /
        static_cast<long double>(o.rate.period().count());
    return of_rate(o.rate, saved >= largest ? largest : static_cast<weir::amount>(saved));
}
quota of(weir::smooth_warming_up_options const& o) {
    return of_rate(o.rate, 0);
}

}  // namespace

std::int64_t seconds_of_window(quota const& q) noexcept {
    if (!q.calendar)
        return q.seconds;
    auto const clock = q.calendar->clock;
    weir::wall_time const now = clock ? clock() : std::chrono::system_clock::now();
    auto const window =
        weir::policy::span_at(q.calendar->unit, q.calendar->zone, std::chrono::floor<seconds>(now));
    return (window.end - window.begin).count();
}

std::vector<quota> quotas_of(weir::limiter_config const& rule) {
    std::vector<quota> found;
    std::visit(
        [&]<class Options>(Options const& o) {
            if constexpr (std::is_same_v<Options, weir::all_options>) {
                for (auto const& part : o.parts)
                    std::ranges::copy(quotas_of(part), std::back_inserter(found));
            } else if constexpr (!std::is_same_v<Options, weir::penalty_options>) {
                found.push_back(of(o));
            }
        },
        rule.options);
    return found;
}

std::vector<quota> quotas_of(weir::rate_tree_options const& tree) {
    weir::policy::tree_plan const plan(tree);
    std::unordered_map<std::string_view, weir::rate_tree_node const*> nodes;
    for (auto const& node : tree.nodes)
        nodes.emplace(node.path, &node);
    std::vector<quota> found(plan.kinds.size());
    for (std::size_t i = 0; i != found.size(); ++i) {
        if (!plan.kinds[i].is_leaf())
            continue;
        std::optional<weir::rate> lowest;
        for (auto at = static_cast<std::uint32_t>(i); at != weir::policy::tree_kind::none;
             at = plan.kinds[at].parent) {
            auto const& node = *nodes.at(plan.kinds[at].path);
            auto const& bound = at == 0 ? node.least : node.most;
            if (bound && (!lowest || *bound < *lowest))
                lowest = bound;
        }
        found[i] = of_rate(*lowest, plan.kinds[i].capacity);
    }
    return found;
}

std::string quoted(std::string_view name) {
    std::string out = "\"";
    for (char const c : name) {
        if (c < 0x20 || c > 0x7e || c == '%')
            fmt::format_to(std::back_inserter(out), "%{:02x}", static_cast<unsigned char>(c));
        else if (c == '"' || c == '\\')
            out.append(1, '\\').append(1, c);
        else
            out += c;
    }
    return out + '"';
}

weir::amount policy::max() const noexcept {
    return quotas[smallest()].max;
}

std::size_t policy::smallest() const noexcept {
    return static_cast<std::size_t>(
        std::ranges::min_element(quotas, {}, &quota::max) - quotas.begin());
}

std::size_t policy::part_after(std::optional<seconds> wait) const noexcept {
    if (quotas.size() == 1)
        return 0;
    auto const least = wait ? std::max(*wait, seconds(1)).count() : 0;
    auto const rank = [&](quota const& q) {
        auto const window = seconds_of_window(q);
        bool const is_possible = wait ? window >= least : window == 0;
        return std::tuple(!is_possible, is_possible ? window : -window, q.max);
    };
    return static_cast<std::size_t>(std::ranges::min_element(quotas, {}, rank) - quotas.begin());
}

std::vector<std::string> names_of_parts(std::string_view name, std::size_t parts) {
    std::vector<std::string> names{quoted(name)};
    for (std::size_t n = 2; n <= parts; ++n)
        names.push_back(quoted(fmt::format("{}#{}", name, n)));
    return names;
}

void append_item(std::string& out, std::string_view name, quota const& q) {
    auto const append = [&out](std::int64_t number) {
        fmt::format_int const digits(number);
        out.append(digits.data(), digits.size());
    };
    out.append(name).append(";q=");
    append(q.max);
    if (q.at_a_time)
        out.append(";qu=\"concurrent-requests\"");
    if (q.has_window()) {
        out.append(";w=");
        append(seconds_of_window(q));
    }
}

rule_quotas::rule_quotas(std::string_view name, weir::limiter_config const& rule)
    : parts_(quotas_of(rule).size()), names_(names_of_parts(name, parts_.size())) {
    change(rule);
}

// A sequence lock: a reader that sees an odd version, or a different one at its end, reads again.
void rule_quotas::change(weir::limiter_config const& rule) {
    auto const quotas = quotas_of(rule);
    assert(quotas.size() == parts_.size());
    std::lock_guard const lock(changes_);
    version_.fetch_add(1);
    for (std::size_t i = 0; i != parts_.size(); ++i) {
        parts_[i].max.store(quotas[i].max, std::memory_order_release);
        parts_[i].seconds.store(quotas[i].seconds, std::memory_order_release);
        parts_[i].at_a_time.store(quotas[i].at_a_time, std::memory_order_release);
        auto const& calendar = quotas[i].calendar;
        parts_[i].has_calendar.store(calendar.has_value(), std::memory_order_release);
        if (!calendar)
            continue;
        parts_[i].unit.store(calendar->unit, std::memory_order_release);
        parts_[i].zone.store(calendar->zone, std::memory_order_release);
        parts_[i].clock.store(calendar->clock, std::memory_order_release);
    }
    version_.fetch_add(1);
}

policy rule_quotas::now() const {
    policy found{.names = names_};
    for (;;) {
        auto const version = version_.load(std::memory_order_acquire);
        found.quotas.clear();
        for (auto const& p : parts_) {
            auto& q = found.quotas.emplace_back(
                quota{.max = p.max.load(std::memory_order_acquire),
                      .seconds = p.seconds.load(std::memory_order_acquire),
                      .at_a_time = p.at_a_time.load(std::memory_order_acquire)});
            if (p.has_calendar.load(std::memory_order_acquire))
                q.calendar = {.unit = p.unit.load(std::memory_order_acquire),
                              .zone = p.zone.load(std::memory_order_acquire),
                              .clock = p.clock.load(std::memory_order_acquire)};
        }
        if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version)
            return found;
    }
}

}  // namespace proxy
