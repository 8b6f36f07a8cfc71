#include "lane_bytes.hpp"

#include <weir/error.hpp>
#include <weir/time.hpp>

#include "lane.hpp"
#include "limiting/portion.hpp"

#include <algorithm>
#include <chrono>
#include <ranges>

namespace replay {
namespace {

nanoseconds now() noexcept {
    return clock::now().time_since_epoch();
}

void add(byte_limit::of_key& k, std::uint64_t n, std::int64_t second) noexcept {
    if (k.second != second)
        k.in_second = 0;
    k.second = second;
    k.bytes += n;
    k.in_second += n;
    k.busiest = std::max(k.busiest, k.in_second);
}

}  // namespace

byte_limit::of_key& byte_limit::at(std::uint64_t key) {
    if (key >= keys.size())
        keys.resize(std::max<std::size_t>(key + 1, 2 * keys.size()));
    return keys[key];
}

lane_bytes::lane_bytes(lane& owner, stage::executor_type const& ex, plan const& p,
                       std::vector<key_numbers> const& keys, maker const& make, bool details)
    : owner_(owner), executor_(ex), details_(details) {
    for (auto const& l : p.bandwidths()) {
        auto const what = config::limiter_of(l.what, l.direction);
        auto limiter = make(what, l.per);
        auto selection = limiter->selection();
        std::optional<std::size_t> slot;
        if (l.per)
            slot = static_cast<std::size_t>(
                std::ranges::find(keys, *l.per, &key_numbers::what) - keys.begin());
        limits_.push_back(
            {l.what,
             l.direction,
             std::move(limiter),
             std::move(selection),
             slot,
             {.text = l.text, .is_up = l.is_up(), .dry_run = l.what.dry_run},
             {},
             {}});
    }
    // Limits by key come first, as in weir-proxy.
    for (auto const& r : p.routes()) {
        auto& its = routes_.emplace_back();
        for (bool const keyed : {true, false})
            for (auto const i : r.bandwidths)
                if (limits_[i].slot.has_value() == keyed)
                    its[limits_[i].so_far.is_up ? up : down].push_back(i);
    }
}

void lane_bytes::start(visit& v, std::size_t route) {
    start(v, v.entry.who.received, routes_[route][up]);
    start(v, v.entry.who.sent, routes_[route][down]);
}

void lane_bytes::start(visit& v, std::uint64_t bytes, std::vector<std::size_t> const& limits) {
    if (bytes == 0 || limits.empty())
        return;
    if (free_.empty())
        free_.push_back(&transfers_.emplace_back());
    auto& t = *free_.back();
    free_.pop_back();
    t.of = &v;
    t.begin = now();
    t.held = v.entry.who.held;
    t.all = t.left = bytes;
    t.next = 0;
    t.portion = 0;
    t.shares.clear();
    for (auto const i : limits) {
        auto& l = limits_[i];
        auto const at = l.selection->of(v.entry.who);
        ++l.so_far.transfers;
        auto const rate = config::rate_of(l.configuration, l.direction, at.by);
        t.shares.push_back({.of = &l,
                            .at = at,
                            .rate = rate.value_or(config::byte_rate()),
                            .waits = !at.is_unlimited && !l.configuration.dry_run});
    }
    ++v.parts;
    go(t);
}

void lane_bytes::go_on() {
    auto& t = *ready_.top().who;
    ready_.pop();
    go(t);
}

void lane_bytes::go(transfer& t) {
    while (t.left != 0) {
        if (t.portion == 0) {
            auto const part = static_cast<double>(t.all - t.left) / static_cast<double>(t.all);
            auto const ready = t.begin + std::chrono::duration_cast<nanoseconds>(t.held * part);
            if (ready > now()) {
                ready_.push({ready, order_++, &t});
                return;
            }
            begin_portion(t);
        }
        if (!take(t))
            return;
        pass(t);
    }
    finish(t);
}

void lane_bytes::begin_portion(transfer& t) {
    auto n = static_cast<weir::amount>(t.left);
    for (auto const& s : t.shares) {
        auto const transfers = ++s.of->at(s.at.key).wanting;
        if (!s.at.is_unlimited)
            n = std::min(n, limiting::portion_of(s.rate, transfers));
    }
    t.portion = n;
    t.next = 0;
}

// Returns false if the transfer waits.
bool lane_bytes::take(transfer& t) {
    for (; t.next != t.shares.size(); ++t.next) {
        auto& s = t.shares[t.next];
        if (!s.waits)
            continue;
        s.at.cost = t.portion;
        weir::error_code ec;
        auto const& who = t.of->entry.who;
        s.permit = s.of->limiter->enter_at_once(who, s.at, ec);
        if (s.permit || ec)
            continue;
        t.asked = now();
        owner_.is_busy_ = true;
        s.of->limiter->async_enter(who, s.at, weir::forever, on_turn(owner_, t, executor_));
        return false;
    }
    return true;
}

void lane_bytes::decided(transfer& t, weir::permit& permit) {
    auto& s = t.shares[t.next];
    s.permit = std::move(permit);
    auto const waited = now() - t.asked;
    s.of->so_far.waited += waited;
    s.of->at(s.at.key).waited += waited;
    ++t.next;
    go(t);
}

void lane_bytes::pass(transfer& t) {
    auto const second = std::chrono::floor<std::chrono::seconds>(now()).count();
    auto const n = static_cast<std::uint64_t>(t.portion);
    for (auto& s : t.shares) {
        auto& l = *s.of;
        auto& key = l.at(s.at.key);
        --key.wanting;
        s.permit.leave();
        if (!s.waits && !s.at.is_unlimited)
            l.so_far.late += static_cast<std::uint64_t>(limiting::take_or_count(
                *l.limiter, t.of->entry.who, s.at, t.portion, s.rate.burst));
        add(l.all, n, second);
        if (details_)
            add(key, n, second);
    }
    t.left -= n;
    t.portion = 0;
}

void lane_bytes::finish(transfer& t) {
    auto& v = *t.of;
    v.slowed = std::max(v.slowed, now() - (t.begin + t.held));
    free_.push_back(&t);
    owner_.end_part(v);
}

void lane_bytes::clear() noexcept {
    for (auto& t : transfers_)
        t.shares.clear();
    limits_.clear();
}

std::vector<byte_outcome> lane_bytes::results(std::vector<key_numbers> const& keys,
                                              std::size_t most) const {
    std::vector<byte_outcome> found;
    for (auto const& l : limits_) {
        auto& o = found.emplace_back(l.so_far);
        o.bytes = l.all.bytes;
        o.busiest_second = l.all.busiest;
        if (!l.slot)
            continue;
        std::vector<std::uint32_t> order;
        for (std::uint32_t k = 0; k != l.keys.size(); ++k)
            if (l.keys[k].bytes != 0)
                order.push_back(k);
        o.keys = order.size();
        auto const kept = static_cast<std::ptrdiff_t>(std::min(most, order.size()));
        std::ranges::partial_sort(
            order, order.begin() + kept, [&](std::uint32_t a, std::uint32_t b) {
                return std::pair(l.keys[b].bytes, a) < std::pair(l.keys[a].bytes, b);
            });
        for (auto const k : order | std::views::take(kept))
            o.top_keys.push_back(
                {keys[*l.slot].text_of(k), l.keys[k].bytes, l.keys[k].busiest, l.keys[k].waited});
    }
    return found;
}

}  // namespace replay
