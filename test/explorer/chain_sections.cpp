#include "chain_sections.hpp"

#include "invariant.hpp"

#include <algorithm>
#include <utility>

namespace explorer {

ticket chain_sections::took(ticket inner, amount n, time_point now) {
    auto const t = ++last_ticket_;
    inner_[t] = inner;
    under_way().steps.push_back({.taken = t, .n = n, .now = now});
    return t;
}

visit* chain_sections::newcomer(call const& c) {
    auto const& steps = under_way().steps;
    auto const last = std::find_if(steps.rbegin(), steps.rend(), [](step const& s) {
        return s.what == step::kind::serve || s.what == step::kind::take;
    });
    bool const is_served = last != steps.rend() && last->what == step::kind::serve;
    bool const asks = c.who && c.who->wants == request::wish::permits && c.sections == 0;
    return asks && !is_served ? static_cast<visit*>(c.who) : nullptr;
}

void chain_sections::took_for(visit& who, int limiter, amount n, time_point now) {
    under_way().steps.push_back({.n = n, .limiter = limiter, .who = &who, .now = now});
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
    auto& heard = publish(open_.at(threads_.running()), c);
    release(core);
    return heard;
}

void chain_sections::counts(call const& c, int limiter, weir::detail::counting what) {
    auto& open = open_.at(threads_.running());
    open.only_counts = true;
    if (what == weir::detail::counting::nothing)
        return;
    open.has_counted = true;
    if (what != weir::detail::counting::take)
        return;
    if (!c.who)
        violated(invariant::conserved, "a permit is taken by counting without a request");
    auto& s = open.heard ? *open.heard : open.being;
    s.steps.push_back({.by_counting = true,
                       .n = 1,
                       .limiter = limiter,
                       .who = static_cast<visit*>(c.who),
                       .now = threads_.now()});
}

bool chain_sections::only_counts() const {
    return open_.at(threads_.running()).only_counts;
}

void chain_sections::ends_counting(call& c, int core) {
    auto& open = open_.at(threads_.running());
    if (open.has_counted)
        publish(open, c).cores = 0;  // of no room
    release(core);
}

chain_section& chain_sections::publish(open_section& open, call& c) {
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
    return *open.heard;
}

void chain_sections::release(int core) {
    auto const it = open_.find(threads_.running());
    it->second.locked &= ~(1U << static_cast<unsigned>(core));
    if (it->second.locked == 0)
        open_.erase(it);
}

}  // namespace explorer
