#include <weir/policy/cooling_log.hpp>

#include <algorithm>
#include <limits>
#include <new>
#include <ranges>
#include <utility>

namespace weir::inline v0_2::policy {
namespace {

// A key that is used rarely takes little memory.
constexpr amount entries_at_first = 8;

// The largest debt, and the most waiting permits that a forecast counts: sums do not overflow.
constexpr amount most_ahead = std::numeric_limits<amount>::max() / 4;

time_point just_before(time_point t) noexcept {
    return t == time_point::min() ? t : t - duration(1);
}

}  // namespace

template <class Predicate>
std::size_t cooling_log::state_type::first_where(Predicate holds) const noexcept {
    std::size_t low = 0;
    std::size_t high = log.size();
    while (low != high) {
        auto const middle = low + (high - low) / 2;
        if (holds(log[middle]))
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
    return log.empty() ? forgotten : log.back().last;
}

void cooling_log::state_type::forget(std::size_t entries) noexcept {
    auto const& last = log[entries - 1];
    forgotten = last.last;
    forgotten_until = last.at;
    log.pop_front(entries);
}

cooling_log::forecast_type::forecast_type(cooling_log const& rule, state_type const& s)
    : rule_(&rule),
      log_(&s.log),
      kept_(s.log.empty() ? 0 : s.log.size() - 1),
      cooled_(s.forgotten),
      slice_began_(s.slice_began) {
    if (!s.log.empty() && !next_.try_push_back(s.log.back()))
        throw std::bad_alloc();
}

template <class Predicate>
std::size_t cooling_log::forecast_type::first_where(Predicate holds) const noexcept {
    auto const entries = std::views::iota(first_, size());
    return first_ +
           static_cast<std::size_t>(
               std::ranges::partition_point(entries, [&](std::size_t i) { return !holds(at(i)); }) -
               entries.begin());
}

std::size_t cooling_log::forecast_type::first_cooling(time_point now) const noexcept {
    return first_where([&](entry const& e) { return !rule_->cooled(e, now); });
}

amount cooling_log::forecast_type::remaining(time_point now) const noexcept {
    auto const cooling = granted() - last_cooled(first_cooling(now));
    return std::max<amount>(rule_->limit_ - static_cast<amount>(cooling), 0);
}

time_point cooling_log::forecast_type::ready_at(amount n, amount, time_point now) const noexcept {
    auto const place = static_cast<amount>(granted() - cooled_) + n - rule_->limit_;
    if (place <= 0)
        return now;
    auto const i =
        first_where([&](entry const& e) { return static_cast<amount>(e.last - cooled_) >= place; });
    return i == size() ? never : std::max(now, later(at(i).at, rule_->window_));
}

// Like `take` of the log.
ticket cooling_log::forecast_type::take(amount n, time_point now) {
    auto const first = first_cooling(now);
    cooled_ = last_cooled(first);
    first_ = first;
    entry const taken{now, granted() + static_cast<number>(n)};
    bool const goes_on =
        !next_.empty() && (next_.back().at == now || now < later(slice_began_, rule_->slice_));
    if (goes_on) {
        next_.back() = taken;
    } else {
        if (!next_.try_push_back(taken))
            throw std::bad_alloc();
        slice_began_ = now;
    }
    return static_cast<ticket>(now.time_since_epoch().count());
}

cooling_log::state_type cooling_log::begin(time_point now) const {
    state_type s;
    s.log = block_queue<entry>(static_cast<std::size_t>(std::min(limit_, entries_at_first)));
    restart(s, now);
    return s;
}

void cooling_log::restart(state_type& s, time_point now) const noexcept {
    s.log.truncate(0);
    // A refund of an earlier grant has no effect.
    s.forgotten_until = just_before(now);
}

void cooling_log::take_over(state_type& s, cooling_log const& old, state_type& before,
                            time_point now) const noexcept {
    // Uses the old window: expired entries stay expired.
    auto const cool = before.first_where([&](entry const& e) { return !old.cooled(e, now); });
    if (cool != 0)
        before.forget(cool);
    std::swap(s, before);
}

bool cooling_log::has_cooled(state_type const& s, time_point now) const noexcept {
    return s.log.empty() || cooled(s.log.back(), now);
}

amount cooling_log::remaining(state_type const& s, time_point now) const noexcept {
    return std::max<amount>(limit_ - cooling(s, now), 0);
}

amount cooling_log::debt(state_type const& s, time_point now) const noexcept {
    return std::max<amount>(cooling(s, now) - limit_, 0);
}

amount cooling_log::cooling(state_type const& s, time_point now) const noexcept {
    auto const i = s.first_where([&](entry const& e) { return !cooled(e, now); });
    return s.up_to(s.granted()) - (i == 0 ? 0 : s.up_to(s.log[i - 1].last));
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
        auto const i = s.up_to(s.log[0].last) >= place ? 0 : s.first_where([&](entry const& e) {
            return s.up_to(e.last) >= place;
        });
        return later(s.log[i].at, window_);
    }();
    return rounds == 0 ? cool_at : later(std::max(cool_at, now), times(window_, rounds));
}

ticket cooling_log::take(state_type& s, amount n, time_point now) const {
    // A small log is forgotten at once, and so frees its memory. Otherwise a grant forgets at most two entries, so that it
    // does not take long.
    if (s.log.size() <= s.log.block_size && !s.log.empty() && has_cooled(s, now))
        s.forget(s.log.size());
    for (int i = 0; i < 2 && !s.log.empty() && cooled(s.log[0], now); ++i)
        s.forget(1);
    // Earlier grants are not in the log: they have expired, perhaps in a state that was dropped.
    if (s.log.empty())
        s.forgotten_until = std::max(s.forgotten_until, just_before(now));

    auto* const current = s.log.empty() ? nullptr : &s.log.back();
    auto const granted = current ? current->last : s.forgotten;
    auto const last = granted + static_cast<number>(std::min(n, most_ahead - s.up_to(granted)));
    // All grants of one time are one entry, whatever their slices, so that a ticket identifies one entry.
    bool const goes_on = current && (current->at == now || now < later(s.slice_began, slice_));
    if (!goes_on && s.log.try_push_back({now, last})) {
        s.slice_began = now;
    } else {
        if (!goes_on && n > limit_ - cooling(s, now))
            throw std::bad_alloc();
        *current = {now, last};
    }
    return static_cast<ticket>(now.time_since_epoch().count());
}

bool cooling_log::refund(state_type& s, amount n, ticket t, time_point now) const noexcept {
    auto const at = time_point(duration(static_cast<duration::rep>(t)));
    if (at <= s.forgotten_until)
        return false;
    auto const first = s.first_where([&](entry const& e) { return e.at >= at; });
    if (first == s.log.size() || cooled(s.log[first], now))
        return false;

    // Removes permits from the entry of the grant, and then from later ones. Merged permits have the ticket of the
    // oldest, so younger permits stay in the log: that is the safe side.
    amount removed = 0;
    auto before = first == 0 ? s.forgotten : s.log[first - 1].last;
    auto kept = first;
    for (auto i = first; i < s.log.size(); ++i) {
        auto const e = s.log[i];
        auto const here = std::min(n - removed, static_cast<amount>(e.last - before));
        before = e.last;
        removed += here;
        auto const last = e.last - static_cast<number>(removed);
        if (last != (kept == 0 ? s.forgotten : s.log[kept - 1].last))
            s.log[kept++] = {e.at, last};
        else if (i + 1 == s.log.size())
            s.slice_began = time_point::min();  // the current slice no longer exists
    }
    s.log.truncate(kept);
    return removed != 0;
}

// Saves the entries that have not expired, the oldest first: the age of the first one, and then the time from one to the
// next, each with its permits. Before them, 1 and the age of the current slice, or 0.
void cooling_log::save(state_type const& s, number_writer& to, time_point now) const {
    using wide = number_writer::wide;
    auto i = s.first_where([&](entry const& e) { return !cooled(e, now); });
    if (i == s.log.size())
        return;
    bool const goes_on = now < later(s.slice_began, slice_);
    to.add(wide{goes_on});
    if (goes_on)
        to.add_age(s.slice_began, now);
    auto granted = i == 0 ? s.forgotten : s.log[i - 1].last;
    to.add_age(s.log[i].at, now);
    to.add(s.log[i].last - granted);
    for (++i; i != s.log.size(); ++i) {
        auto const& before = s.log[i - 1];
        to.add_age(before.at, s.log[i].at);
        to.add(s.log[i].last - before.last);
    }
}

bool cooling_log::load(state_type& s, number_reader& from, time_point then) const {
    s.forgotten_until = just_before(then);
    if (from.rest().empty())
        return true;
    if (from.next(1) != 0)
        s.slice_began = from.next_instant(then);
    auto at = from.next_instant(then);
    amount sum = 0;
    for (;;) {
        auto const n = from.next_as<amount>(most_ahead - sum);
        if (from.failed() || n == 0 || at > then || (s.log.empty() && cooled({at, 0}, then)))
            return false;
        sum += n;
        if (!s.log.try_push_back({at, s.forgotten + static_cast<number>(sum)}))
            throw std::bad_alloc();
        if (from.rest().empty())
            break;
        auto const step = from.next_as<std::int64_t>();
        if (from.failed() || step == 0)
            return false;
        at = later(at, duration(step));
    }
    return true;
}

}  // namespace weir::inline v0_2::policy
