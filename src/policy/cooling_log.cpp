#include <weir/policy/cooling_log.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

namespace weir::policy {
namespace {

// Debt ends here, and no more than this waits as far as a forecast is concerned: sums still fit.
constexpr amount most = std::numeric_limits<amount>::max() / 4;

}  // namespace

cooling_log::cooling_log(rule const& r)
    : rule_(r), places_(needed(0)), ring_(std::make_unique<entry[]>(places_)) {}

void cooling_log::take_over(cooling_log& before, time_point now) {
    // At the old window: what has cooled stays cool.
    auto const cool = before.first_where([&](entry const& e) { return !before.cooled(e, now); });
    auto const places = needed(before.size_ - cool);
    auto larger = std::max(places_, before.places_) < places
                      ? std::make_unique_for_overwrite<entry[]>(places)
                      : nullptr;
    if (cool != 0)
        before.forget(cool);
    if (larger) {
        before.move_to(std::move(larger), places);
    } else if (before.places_ < places) {
        auto const mine = places_;
        before.move_to(std::move(ring_), mine);
    }
    before.rule_ = rule_;
    std::swap(*this, before);
}

// Old slices may be shorter than new ones, and then go on taking places of their own.
std::size_t cooling_log::needed(std::size_t old_entries) const noexcept {
    return std::min(old_entries + rule_.entries, static_cast<std::size_t>(rule_.limit));
}

amount cooling_log::remaining(time_point now) const noexcept {
    auto const i = first_where([&](entry const& e) { return !cooled(e, now); });
    auto const cool = i == 0 ? 0 : up_to(nth(i - 1).last);
    return std::max<amount>(rule_.limit - (up_to(granted()) - cool), 0);
}

time_point cooling_log::ready_at(amount n, amount ahead, time_point now) const noexcept {
    auto const limit = rule_.limit;
    auto const logged = up_to(granted());
    auto place =
        logged + std::min(ahead, most) + n - limit;  // in the log: up to there must be cool
    if (place <= 0)
        return now;

    // One that has not been granted yet will be, a window at the soonest after the one `limit`
    // before it.
    auto const rounds = place <= logged ? 0 : (place - logged + limit - 1) / limit;
    place -= rounds * limit;
    auto const cool_at = [&] {
        if (place <= 0)
            return now;
        auto const i = up_to(nth(0).last) >= place ? 0 : first_where([&](entry const& e) {
            return up_to(e.last) >= place;
        });
        return later(nth(i).at, rule_.window);
    }();
    return rounds == 0 ? cool_at : later(std::max(cool_at, now), times(rule_.window, rounds));
}

ticket cooling_log::take(amount n, time_point now) {
    // At most two at a time, so that no single grant pays for many; and always enough, since a
    // request that fits finds the first of a full ring cooled.
    for (int i = 0; i < 2 && size_ != 0 && cooled(nth(0), now); ++i)
        forget(1);

    auto const taken = static_cast<number>(std::min(n, most - up_to(granted())));
    bool const goes_on =
        size_ != 0 && nth(size_ - 1).at >= slice_began_ && now < later(slice_began_, rule_.slice);
    if (goes_on) {
        auto& e = nth(size_ - 1);
        e.at = now;
        e.last += taken;
    } else {
        if (size_ == places_)  // only debt can need more entries than there are
            move_to(std::make_unique_for_overwrite<entry[]>(2 * places_), 2 * places_);
        auto const last = granted() + taken;
        nth(size_++) = {now, last};
        slice_began_ = now;
    }
    return static_cast<ticket>(now.time_since_epoch().count());
}

bool cooling_log::refund(amount n, ticket t, time_point now) noexcept {
    auto const at = time_point(duration(static_cast<duration::rep>(t)));
    if (at <= forgotten_until_)
        return false;
    auto const first = first_where([&](entry const& e) { return e.at >= at; });
    if (first == size_ || cooled(nth(first), now))
        return false;

    // Taken from the grant itself, then from later ones: merged permits have the oldest's ticket,
    // and it is on the safe side that the younger go on cooling.
    amount removed = 0;
    auto before = first == 0 ? forgotten_ : nth(first - 1).last;
    auto kept = first;
    for (auto i = first; i < size_; ++i) {
        auto const e = nth(i);
        auto const here = std::min(n - removed, static_cast<amount>(e.last - before));
        before = e.last;
        removed += here;
        auto const last = e.last - static_cast<number>(removed);
        if (last != (kept == 0 ? forgotten_ : nth(kept - 1).last))
            nth(kept++) = {e.at, last};
    }
    size_ = kept;
    return removed != 0;
}

cooling_log::entry& cooling_log::nth(std::size_t i) noexcept {
    auto const at = begin_ + i;
    return ring_[at < places_ ? at : at - places_];
}

cooling_log::entry const& cooling_log::nth(std::size_t i) const noexcept {
    return const_cast<cooling_log&>(*this).nth(i);
}

template <class Predicate>
std::size_t cooling_log::first_where(Predicate holds) const noexcept {
    std::size_t low = 0;
    std::size_t high = size_;
    while (low != high) {
        auto const middle = low + (high - low) / 2;
        if (holds(nth(middle)))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool cooling_log::cooled(entry const& e, time_point now) const noexcept {
    return later(e.at, rule_.window) <= now;
}

// How many are in the log up to this one.
amount cooling_log::up_to(number last) const noexcept {
    return static_cast<amount>(last - forgotten_);
}

cooling_log::number cooling_log::granted() const noexcept {
    return size_ == 0 ? forgotten_ : nth(size_ - 1).last;
}

void cooling_log::forget(std::size_t entries) noexcept {
    auto const& last = nth(entries - 1);
    forgotten_ = last.last;
    forgotten_until_ = last.at;
    begin_ += entries;
    if (begin_ >= places_)
        begin_ -= places_;
    size_ -= entries;
}

void cooling_log::move_to(std::unique_ptr<entry[]> ring, std::size_t places) noexcept {
    for (std::size_t i = 0; i < size_; ++i)
        ring[i] = nth(i);
    ring_ = std::move(ring);
    places_ = places;
    begin_ = 0;
}

}  // namespace weir::policy
