#include <weir/policy/sliding_log.hpp>

#include "../check_option.hpp"

#include <algorithm>

namespace weir::policy {
namespace {

sliding_log_options const& checked(sliding_log_options const& options) {
    detail::check_option("sliding_log", "limit", options.limit, 1, amount{1} << 26);
    detail::check_option("sliding_log", "window in nanoseconds", options.window.count(), 1,
                         forever.count());
    return options;
}

}  // namespace

sliding_log::sliding_log(options_type const& options) : options_(checked(options)) {
    reserve(static_cast<std::size_t>(options_.limit));
}

void sliding_log::configure(options_type const& options, time_point now) {
    checked(options);
    reserve(static_cast<std::size_t>(options.limit));
    while (size_ != 0 && cooled(nth(0), now))  // at the old window: what has cooled stays cool
        forget_first();
    options_ = options;
}

amount sliding_log::remaining(time_point now) const noexcept {
    auto const i = first_where([&](entry const& e) { return !cooled(e, now); });
    auto const cool = i == 0 ? forgotten_ : nth(i - 1).last;
    return std::max<amount>(options_.limit - (granted() - cool), 0);
}

time_point sliding_log::ready_at(amount n, amount ahead, time_point now) const noexcept {
    auto const limit = options_.limit;
    auto number = granted() + ahead + n - limit;  // the permit that must have cooled
    if (number <= forgotten_)
        return now;

    // One that has not been granted yet will be, a window at the soonest after the one `limit`
    // before it.
    auto const rounds = number <= granted() ? 0 : (number - granted() + limit - 1) / limit;
    number -= rounds * limit;
    auto const cool_at = [&] {
        if (number <= forgotten_)
            return now;
        auto const i = nth(0).last >= number ? 0 : first_where([&](entry const& e) {
            return e.last >= number;
        });
        return later(nth(i).at, options_.window);
    }();
    return rounds == 0 ? cool_at : later(std::max(cool_at, now), times(options_.window, rounds));
}

ticket sliding_log::take(amount n, time_point now) {
    // At most two at a time, so that no single grant pays for many; and always enough, since a
    // request that fits finds the first of a full ring cooled.
    for (int i = 0; i < 2 && size_ != 0 && cooled(nth(0), now); ++i)
        forget_first();

    if (size_ != 0 && nth(size_ - 1).at == now) {
        nth(size_ - 1).last += n;
    } else {
        if (size_ == ring_.size())  // only debt can need more entries than there are permits
            reserve(2 * ring_.size());
        auto const last = granted() + n;
        nth(size_++) = {now, last};
    }
    return static_cast<ticket>(now.time_since_epoch().count());
}

bool sliding_log::refund(amount n, ticket t, time_point now) noexcept {
    auto const at = time_point(duration(static_cast<duration::rep>(t)));
    if (at <= forgotten_until_ || later(at, options_.window) <= now)
        return false;

    auto const first = first_where([&](entry const& e) { return e.at >= at; });
    // Taken from the grant itself, then from later ones: merged permits have the oldest's ticket,
    // and it is on the safe side that the younger go on cooling.
    amount removed = 0;
    auto before = first == 0 ? forgotten_ : nth(first - 1).last;
    auto kept = first;
    for (auto i = first; i < size_; ++i) {
        auto const e = nth(i);
        auto const here = std::min(n - removed, e.last - before);
        before = e.last;
        removed += here;
        auto const last = e.last - removed;
        if (last != (kept == 0 ? forgotten_ : nth(kept - 1).last))
            nth(kept++) = {e.at, last};
    }
    size_ = kept;
    return removed != 0;
}

sliding_log::entry& sliding_log::nth(std::size_t i) noexcept {
    auto const at = begin_ + i;
    return ring_[at < ring_.size() ? at : at - ring_.size()];
}

sliding_log::entry const& sliding_log::nth(std::size_t i) const noexcept {
    return const_cast<sliding_log&>(*this).nth(i);
}

template <class Predicate>
std::size_t sliding_log::first_where(Predicate holds) const noexcept {
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

bool sliding_log::cooled(entry const& e, time_point now) const noexcept {
    return later(e.at, options_.window) <= now;
}

amount sliding_log::granted() const noexcept {
    return size_ == 0 ? forgotten_ : nth(size_ - 1).last;
}

void sliding_log::forget_first() noexcept {
    forgotten_ = nth(0).last;
    forgotten_until_ = nth(0).at;
    begin_ = begin_ + 1 == ring_.size() ? 0 : begin_ + 1;
    --size_;
}

void sliding_log::reserve(std::size_t entries) {
    if (entries <= ring_.size())
        return;
    std::vector<entry> larger(entries);
    for (std::size_t i = 0; i < size_; ++i)
        larger[i] = nth(i);
    ring_ = std::move(larger);
    begin_ = 0;
}

}  // namespace weir::policy
