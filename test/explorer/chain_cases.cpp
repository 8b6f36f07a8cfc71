#include "chain_cases.hpp"

#include <algorithm>
#include <utility>

namespace explorer {

unsigned locks_of(visit const& v, std::vector<chained_limiter> const& limiters) {
    unsigned locks = 0;
    for (auto const i : v.named)
        locks |= 1U << static_cast<unsigned>(limiters[static_cast<std::size_t>(i)].core);
    return locks;
}

bool chain_cases::stands(place const& p, int limiter) {
    return p.where == limiter ||
           (p.where == place::all && p.who->asks_of[static_cast<std::size_t>(limiter)] != 0);
}

// A waiting chain goes before all later requests, newcomers included, whatever their class, flow or partition. In an
// order that ranks chains it does so only while it reserves its limiters.
bool chain_cases::barred_by_chains(possibility const& c, visit const& v, int limiter) const {
    bool const ranks = limiters_[static_cast<std::size_t>(limiter)].line.ranks_chains();
    return std::ranges::any_of(c.waiting, [&](place const& p) {
        return p.who != &v && p.who->is_chain && stands(p, limiter) &&
               (!ranks || p.where == place::all) && (v.number == 0 || p.who->number < v.number);
    });
}

// The order selects the next of the other requests. A chain goes before that request if the chain arrived first,
// otherwise after it. An arriving chain overtakes no request.
bool chain_cases::barred_by_plain(visit const& v, int limiter, time_point now) const {
    auto const& line = limiters_[static_cast<std::size_t>(limiter)].line;
    if (!v.is_chain && !v.in_queue)
        return line.bars(v.asks_for(), now);
    auto const next = line.next(now);
    return v.is_chain ? next != 0 && (v.number == 0 || next < v.number) : next != v.number;
}

// With a rank, a chain is a request of its class, flow and weight, in the position of its arrival. If it reserves its
// limiters, or is overdue and waits in another queue, it goes before all requests that arrived after it.
bool chain_cases::barred_by_rank(possibility const& c, visit const& v, int limiter,
                                 time_point now) const {
    auto const& line = limiters_[static_cast<std::size_t>(limiter)].line;
    if (v.is == request::state::entering) {
        auto others = line;
        others.left(v.number);
        return others.bars(v.asked_of(limiter), now);
    }
    auto const next = line.next();
    auto const own = std::ranges::find(c.waiting, &v, &place::who);
    bool const is_late = own != c.waiting.end() &&
                         (own->where == place::all || (own->is_overdue && own->where != limiter));
    if (is_late && (next == 0 || v.number <= next))
        return false;
    if (!line.has(v.number))
        return !line.would_be_next(v.number, v.since, v.asked_of(limiter));
    return next != v.number;
}

bool chain_cases::barred(possibility const& c, visit const& v, int limiter, time_point now) const {
    bool const ranks = limiters_[static_cast<std::size_t>(limiter)].line.ranks_chains();
    return barred_by_chains(c, v, limiter) ||
           (ranks ? barred_by_rank(c, v, limiter, now) : barred_by_plain(v, limiter, now));
}

bool chain_cases::lets(possibility const& c, visit const& v, int limiter, time_point now) const {
    auto const n = v.asks_of[static_cast<std::size_t>(limiter)];
    return n == 0 || (limiters_[static_cast<std::size_t>(limiter)].fits(n, now) &&
                      !barred(c, v, limiter, now));
}

bool chain_cases::may_reserve(possibility const& c, place const& p) {
    return p.is_overdue && p.where != place::all &&
           std::ranges::none_of(c.waiting, [&](place const& other) {
               bool const first = other.where == place::all ||
                                  (other.is_overdue && other.who->number < p.who->number);
               return first && other.who != p.who &&
                      std::ranges::any_of(p.who->named, [&](int i) { return other.who->names(i); });
           });
}

std::uint64_t chain_cases::size(possibility const& c, int limiter) {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(c.waiting, [&](place const& p) { return stands(p, limiter); }));
}

void chain_cases::settle(unsigned cores, time_point now,
                         std::function<bool(visit const&)> const& may_leave) {
    std::vector<possibility> todo(all_.begin(), all_.end());
    while (!todo.empty()) {
        auto const c = std::move(todo.back());
        todo.pop_back();
        for (std::size_t k = 0; k != c.waiting.size(); ++k) {
            auto const& p = c.waiting[k];
            auto const& v = *p.who;
            if (!v.is_chain || (locks_of(v, limiters_) & ~cores) != 0)
                continue;
            auto next = c;
            auto const add = [&] {
                if (all_.insert(next).second)
                    todo.push_back(next);
            };
            if (may_leave(v)) {
                next.waiting.erase(next.waiting.begin() + static_cast<std::ptrdiff_t>(k));
                next.left.push_back({p.who, now});
                std::ranges::sort(next.left);
                add();
            }
            auto const stand_with = [&](bool turn_is_lost) {
                for (auto const to : v.named) {
                    if (to == p.where || lets(c, v, to, now))
                        continue;
                    next = c;
                    auto& moved = next.waiting[k];
                    moved.where = to;
                    moved.reserves_until = {};
                    moved.passed = turn_is_lost ? std::min(p.passed + 1, v.options.passes) : 0;
                    moved.is_overdue = moved.passed >= v.options.passes;
                    add();
                }
            };
            if (p.where != place::all && lets(c, v, p.where, now))
                stand_with(true);
            if (p.where == place::all && p.reserves_until < now)
                stand_with(false);
            if (may_reserve(c, p)) {
                next = c;
                auto& reserving = next.waiting[k];
                reserving.where = place::all;
                reserving.is_overdue = false;
                reserving.passed = 0;
                reserving.reserves_until = weir::later(now, v.options.reserve_for);
                add();
            }
        }
    }
}

std::string chain_cases::text(possibility const& c) {
    std::string result;
    for (auto const& p : c.waiting)
        result += fmt::format("; {} waits at {}, passed {}{}", name(*p.who),
                              p.where == place::all ? "all" : fmt::format("{}", p.where), p.passed,
                              p.is_overdue ? ", overdue" : "");
    return result.empty() ? "; no chain waits" : result;
}

template <class Change>
void chain_cases::change_each(Change change) {
    std::set<possibility> next;
    for (auto c : all_) {
        change(c);
        next.insert(std::move(c));
    }
    all_ = std::move(next);
}

void chain_cases::ends(visit const& v) {
    change_each([&](possibility& c) {
        std::erase_if(c.waiting, [&](place const& p) { return p.who == &v; });
    });
}

void chain_cases::leaves(visit& v, time_point now) {
    change_each([&](possibility& c) {
        std::erase_if(c.waiting, [&](place const& p) { return p.who == &v; });
        c.left.push_back({&v, now});
        std::ranges::sort(c.left);
    });
}

std::vector<chain_cases::departure> chain_cases::take_departures() {
    auto left = all_.begin()->left;
    if (std::ranges::any_of(all_, [&](auto const& c) { return c.left != left; }))
        return {};
    change_each([](possibility& c) { c.left.clear(); });
    return left;
}

}  // namespace explorer
