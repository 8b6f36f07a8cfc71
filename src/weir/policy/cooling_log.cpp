#include <weir/policy/cooling_log.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace weir::policy {
namespace {

// The largest debt, and the most waiting permits that a forecast counts: sums do not overflow.
constexpr amount most_ahead = std::numeric_limits<amount>::max() / 4;

time_point just_before(time_point t) noexcept {
    return t == time_point::min() ? t : t - duration(1);
}

}  // namespace

template <class Predicate>
std::size_t cooling_log::state_type::first_where(Predicate holds) const noexcept {
    std::size_t low = 0;
    std::size_t high = size;
    while (low != high) {
        auto const middle = low + (high - low) / 2;
        if (holds(nth(middle)))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// Returns how many permits up to this one are in the log.
amount cooling_log::state_type::up_to(number last) const noexcept {
    return static_cast<amount>(last - forgotten);
}

cooling_log::number cooling_log::state_type::granted() const noexcept {
    return size == 0 ? forgotten : nth(size - 1).last;
}

void cooling_log::state_type::forget(std::size_t entries) noexcept {
    auto const& last = nth(entries - 1);
    forgotten = last.last;
    forgotten_until = last.at;
    begin += entries;
    if (begin >= places)
        begin -= places;
    size -= entries;
}

// Exchanges the memory, so that the caller decides when it is freed.
void cooling_log::state_type::exchange_rings(std::unique_ptr<entry[]>& other,
                                             std::size_t& its_places) noexcept {
    for (std::size_t i = 0; i < size; ++i)
        other[i] = nth(i);
    std::swap(ring, other);
    std::swap(places, its_places);
    begin = 0;
}

void cooling_log::state_type::grow_to(std::size_t more) noexcept {
    if (more > places) {
        if (std::unique_ptr<entry[]> larger(new (std::nothrow) entry[more]); larger)
            exchange_rings(larger, more);
    }
}

cooling_log::state_type::state_type(state_type const& other)
    : ring(std::make_unique<entry[]>(other.places)),
      places(other.places),
      begin(other.begin),
      size(other.size),
      forgotten(other.forgotten),
      forgotten_until(other.forgotten_until),
      slice_began(other.slice_began) {
    std::copy_n(other.ring.get(), places, ring.get());
}

cooling_log::state_type cooling_log::begin(time_point now) const {
    state_type s;
    s.places = needed(0);
    s.ring = std::make_unique<entry[]>(s.places);
    restart(s, now);
    return s;
}

void cooling_log::restart(state_type& s, time_point now) const noexcept {
    s.size = 0;
    // A refund of an earlier grant has no effect.
    s.forgotten_until = just_before(now);
}

void cooling_log::take_over(state_type& s, cooling_log const& old, state_type& before,
                            time_point now) const noexcept {
    // Uses the old window: expired entries stay expired.
    auto const cool = before.first_where([&](entry const& e) { return !old.cooled(e, now); });
    if (cool != 0)
        before.forget(cool);
    auto const places = needed(before.size);
    if (before.places < places && before.places < s.places)
        before.exchange_rings(s.ring, s.places);
    before.grow_to(places);
    std::swap(s, before);
}

bool cooling_log::has_cooled(state_type const& s, time_point now) const noexcept {
    return s.size == 0 || cooled(s.nth(s.size - 1), now);
}

// Old slices may be shorter than new ones, and then still need separate entries.
std::size_t cooling_log::needed(std::size_t old_entries) const noexcept {
    return std::min(old_entries + entries_, static_cast<std::size_t>(limit_));
}

amount cooling_log::remaining(state_type const& s, time_point now) const noexcept {
    return std::max<amount>(limit_ - cooling(s, now), 0);
}

amount cooling_log::debt(state_type const& s, time_point now) const noexcept {
    return std::max<amount>(cooling(s, now) - limit_, 0);
}

amount cooling_log::cooling(state_type const& s, time_point now) const noexcept {
    auto const i = s.first_where([&](entry const& e) { return !cooled(e, now); });
    return s.up_to(s.granted()) - (i == 0 ? 0 : s.up_to(s.nth(i - 1).last));
}

time_point cooling_log::ready_at(state_type const& s, amount n, amount ahead,
                                 time_point now) const noexcept {
    auto const logged = s.up_to(s.granted());
    auto place =
        logged + std::min(ahead, most_ahead) + n - limit_;  // in the log: it must expire first
    if (place <= 0)
        return now;

    // A permit that is not granted yet will be granted at the earliest a window after the permit `limit` before it.
    auto const rounds = place <= logged ? 0 : (place - logged + limit_ - 1) / limit_;
    place -= rounds * limit_;
    auto const cool_at = [&] {
        if (place <= 0)
            return now;
        auto const i = s.up_to(s.nth(0).last) >= place ? 0 : s.first_where([&](entry const& e) {
            return s.up_to(e.last) >= place;
        });
        return later(s.nth(i).at, window_);
    }();
    return rounds == 0 ? cool_at : later(std::max(cool_at, now), times(window_, rounds));
}

ticket cooling_log::take(state_type& s, amount n, time_point now) const {
    // At most two per grant, so that no grant takes long. This is always enough, because the first entry of a full
    // ring has expired when a request fits.
    for (int i = 0; i < 2 && s.size != 0 && cooled(s.nth(0), now); ++i)
        s.forget(1);
    // Earlier grants are not in the log: they have expired, perhaps in a state that was dropped.
    if (s.size == 0)
        s.forgotten_until = std::max(s.forgotten_until, just_before(now));

    auto const taken = static_cast<number>(std::min(n, most_ahead - s.up_to(s.granted())));
    // All grants of one time are one entry, whatever their slices, so that a ticket identifies one entry.
    bool const goes_on =
        s.size != 0 && (s.nth(s.size - 1).at == now || now < later(s.slice_began, slice_));
    if (goes_on) {
        auto& e = s.nth(s.size - 1);
        e.at = now;
        e.last += taken;
    } else {
        auto const last = s.granted() + taken;
        if (s.size == s.places)  // only debt can need more entries than there is room for
            s.grow_to(2 * s.places);
        if (s.size == s.places) {
            if (s.up_to(last) > limit_)
                throw std::bad_alloc();
            // This is not debt, so an allocation failed in `take_over`: the first entry joins the next one.
            s.begin = s.begin + 1 == s.places ? 0 : s.begin + 1;
            --s.size;
        }
        s.nth(s.size++) = {now, last};
        s.slice_began = now;
    }
    return static_cast<ticket>(now.time_since_epoch().count());
}

bool cooling_log::refund(state_type& s, amount n, ticket t, time_point now) const noexcept {
    auto const at = time_point(duration(static_cast<duration::rep>(t)));
    if (at <= s.forgotten_until)
        return false;
    auto const first = s.first_where([&](entry const& e) { return e.at >= at; });
    if (first == s.size || cooled(s.nth(first), now))
        return false;

    // Removes permits from the entry of the grant, and then from later ones. Merged permits have the ticket of the
    // oldest, so younger permits stay in the log: that is the safe side.
    amount removed = 0;
    auto before = first == 0 ? s.forgotten : s.nth(first - 1).last;
    auto kept = first;
    for (auto i = first; i < s.size; ++i) {
        auto const e = s.nth(i);
        auto const here = std::min(n - removed, static_cast<amount>(e.last - before));
        before = e.last;
        removed += here;
        auto const last = e.last - static_cast<number>(removed);
        if (last != (kept == 0 ? s.forgotten : s.nth(kept - 1).last))
            s.nth(kept++) = {e.at, last};
        else if (i + 1 == s.size)
            s.slice_began = time_point::min();  // the current slice no longer exists
    }
    s.size = kept;
    return removed != 0;
}

}  // namespace weir::policy
