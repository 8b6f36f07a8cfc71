#include "history.hpp"
#include "tool/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>

namespace admin {
namespace {

constexpr auto disconnected = static_cast<std::size_t>(reason::disconnected);

constexpr std::array<std::string_view, reason_names.size()> because{
    "requests do not wait there",
    "its queue is full",
    "they timed out",
    "they would wait too long",
    "its queue drops old requests",
    "its store is unavailable",
    "its table of keys is full",
    "they cost more than it can grant",
    "",
    "it is closed"};

// The recent rejections of one limit.
struct hold {
    limit_state const* limit = nullptr;
    std::uint64_t rejected = 0;
    std::size_t why = 0;  // the most frequent reason
};

hold hold_of(limit_state const* before, limit_state const& now) {
    hold found{.limit = &now};
    if (!before)
        return found;
    std::uint64_t most = 0;
    auto const since = rejected_since(*before, now);
    for (std::size_t i = 0; i != reason_names.size(); ++i) {
        auto const n = i == disconnected ? 0 : since[i];
        found.rejected += n;
        if (n > most) {
            most = n;
            found.why = i;
        }
    }
    return found;
}

bool holds_more(hold const& a, hold const& b) {
    return std::pair(a.rejected, a.limit->stats.waiting) >
           std::pair(b.rejected, b.limit->stats.waiting);
}

std::string text_of(hold const& h, double elapsed) {
    auto const& l = *h.limit;
    std::string out;
    if (h.rejected > 0) {
        auto const rate = std::max(1L, std::lround(static_cast<double>(h.rejected) / elapsed));
        out = fmt::format("`{}` rejects {} {} per second: {}", l.name, rate,
                          rate == 1 ? "request" : "requests", because[h.why]);
    }
    auto const& s = l.stats;
    if (s.waiting > 0) {
        out += h.rejected > 0 ? "; " : fmt::format("`{}` delays requests: ", l.name);
        out += fmt::format("{} waiting", s.waiting);
        if (s.oldest_wait > weir::duration::zero())
            out += fmt::format(", oldest {:.1f} s", tool::seconds(s.oldest_wait));
    }
    if (l.seats && !l.keys)
        out += fmt::format("; {} of {} seats in use", s.in_use, s.capacity);
    return out + '.';
}

}  // namespace

std::string bottleneck(state const& before, state const& now) {
    if (now.draining)
        return "The proxy is shutting down and accepts no new connections.";
    for (auto const& u : now.upstreams)
        if (std::ranges::all_of(u.servers, &server_state::down))
            return fmt::format("All servers of `{}` are down; requests are still sent to them.",
                               u.name);
    hold worst;
    for (auto const& l : now.limits) {
        if (l.dry_run)
            continue;
        auto const known = std::ranges::find(before.limits, l.id, &limit_state::id);
        auto const one = hold_of(known == before.limits.end() ? nullptr : &*known, l);
        if ((one.rejected > 0 || l.stats.waiting > 0) && (!worst.limit || holds_more(one, worst)))
            worst = one;
    }
    auto const elapsed = tool::seconds(now.now - before.now);
    if (worst.limit)
        return text_of(worst, std::max(elapsed, 0.001));
    for (auto const& u : now.upstreams)
        for (auto const& s : u.servers)
            if (s.down)
                return fmt::format("No limit is delaying requests. Server {} of `{}` is down.",
                                   s.name, u.name);
    return "No limit is delaying requests.";
}

}  // namespace admin
