#include "chain_sections.hpp"

#include "invariant.hpp"

#include <utility>

namespace explorer {

ticket chain_sections::took(ticket inner, amount n, time_point now) {
    auto const t = ++last_ticket_;
    inner_[t] = inner;
    under_way().steps.push_back({.taken = t, .n = n, .now = now});
    return t;
}

void chain_sections::configured(int limiter, rule const& next, time_point now) {
    under_way().steps.push_back(
        {.what = step::kind::configure, .limiter = limiter, .next = next, .now = now});
}

void chain_sections::joined(request& r) {
    under_way().steps.push_back({.what = step::kind::join, .who = static_cast<visit*>(&r)});
}

void chain_sections::served(request& r, call const&) {
    under_way().steps.push_back({.what = step::kind::serve, .who = static_cast<visit*>(&r)});
}

void chain_sections::left(request& r, call const&) {
    under_way().steps.push_back({.what = step::kind::leave, .who = static_cast<visit*>(&r)});
}

void chain_sections::chain_joined(request& r, std::size_t index) {
    auto& v = static_cast<visit&>(r);
    under_way().steps.push_back(
        {.what = step::kind::chain_joins, .limiter = v.named[index], .who = &v});
}

void chain_sections::chain_left(request& r, std::size_t index) {
    auto& v = static_cast<visit&>(r);
    if (std::exchange(granted_elsewhere_, nullptr) == &v)
        return;
    under_way().steps.push_back(
        {.what = step::kind::chain_leaves, .limiter = v.named[index], .who = &v});
}

void chain_sections::chain_granted_elsewhere(request& r, std::size_t index) {
    auto& v = static_cast<visit&>(r);
    auto& steps = under_way().steps;
    if (steps.empty() || steps.back().what != step::kind::chain_joins || steps.back().who != &v ||
        steps.back().limiter != v.named[index])
        violated(invariant::order, name(v) + " is granted in a queue, and has not joined it");
    steps.pop_back();
    granted_elsewhere_ = &v;
}

chain_section& chain_sections::under_way() {
    auto const it = open_.find(threads_.running());
    if (it == open_.end() || it->second.heard)
        violated(invariant::lock, "a policy is used without the lock");
    return it->second.being;
}

void chain_sections::begins(int core, request* cancels) {
    auto& open = open_[threads_.running()];
    if (open.heard)
        violated(invariant::lock, "a lock is taken after another one was released");
    open.locked |= 1U << static_cast<unsigned>(core);
    if (cancels)
        open.being.cancels = cancels;
}

chain_section& chain_sections::ends(call& c, int core) {
    auto const it = open_.find(threads_.running());
    auto& open = it->second;
    if (!open.heard) {
        auto& s = open.being;
        s.what = c.what;
        s.core = c.core;
        s.key = c.key;
        s.is_first = c.sections++ == 0;
        s.who = c.who;
        if (s.is_first)
            s.home = c.home_of_each;
        s.cores = open.locked;
        s.now = c.at = c.told.value_or(threads_.now());
        c.told.reset();
        past.push_back(std::move(s));
        open.heard = &past.back();
    }
    auto& heard = *open.heard;
    open.locked &= ~(1U << static_cast<unsigned>(core));
    if (open.locked == 0)
        open_.erase(it);
    return heard;
}

}  // namespace explorer
