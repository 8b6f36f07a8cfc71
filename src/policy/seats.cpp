#include <weir/policy/seats.hpp>

#include "../check_option.hpp"

namespace weir::policy {
namespace {

constexpr amount most_watched = 1 << 24;

seats_options const& checked(seats_options const& options) {
    bool const watched = options.max_hold != forever;
    detail::check_option("seats", watched ? "seats, with max_hold," : "seats", options.seats, 1,
                         watched ? most_watched : max_amount);
    detail::check_option("seats", "max_hold in nanoseconds", options.max_hold.count(), 1,
                         forever.count());
    return options;
}

std::uint32_t place_of(ticket t) noexcept {
    return static_cast<std::uint32_t>(t);
}

}  // namespace

seats::seats(options_type const& options) : options_(checked(options)), free_(options.seats) {
    if (timed())
        grow_to(static_cast<std::size_t>(options_.seats));
}

void seats::configure(options_type const& options, time_point) {
    checked(options);
    if (options.max_hold != forever)
        grow_to(static_cast<std::size_t>(options.seats));
    free_ += options.seats - options_.seats;
    options_ = options;
}

time_point seats::next_overdue() const noexcept {
    return unreported_ == 0 || !timed() ? never
                                        : later(places_[unreported_].since, options_.max_hold);
}

std::optional<overdue> seats::pop_overdue(time_point now) noexcept {
    if (next_overdue() > now)
        return std::nullopt;
    auto const& p = places_[unreported_];
    overdue const found{.id = (ticket{p.turn} << 32) | unreported_,
                        .count = p.held,
                        .since = p.since,
                        .held = now - p.since};
    unreported_ = p.next;
    return found;
}

ticket seats::watch(amount n, time_point now) {
    if (unused_ == 0)  // only debt can need more places than there are seats
        grow_to(places_.size());
    auto const index = unused_;
    auto& p = places_[index];
    auto& ring = places_[0];
    unused_ = p.next;

    p.held = n;
    p.since = now;
    p.next = 0;
    p.previous = ring.previous;
    places_[ring.previous].next = index;
    ring.previous = index;
    if (unreported_ == 0)
        unreported_ = index;
    return (ticket{p.turn} << 32) | index;
}

void seats::unwatch(amount n, ticket t) noexcept {
    auto const index = place_of(t);
    auto& p = places_[index];
    p.held -= n;
    if (p.held != 0)
        return;
    if (unreported_ == index)
        unreported_ = p.next;
    places_[p.previous].next = p.next;
    places_[p.next].previous = p.previous;
    ++p.turn;
    p.next = unused_;
    unused_ = index;
}

ticket seats::merge_watched(ticket a, ticket b, amount n) noexcept {
    if (b != 0)
        unwatch(n, b);
    if (a != 0)
        places_[place_of(a)].held += n;
    return a;
}

// Makes room for so many permits at a time, beside the anchor. Keeps what is there.
void seats::grow_to(std::size_t places) {
    auto const first = std::max<std::size_t>(places_.size(), 1);
    if (places < first)
        return;
    places_.resize(places + 1);
    for (auto i = first; i <= places; ++i) {
        places_[i].next = unused_;
        unused_ = static_cast<std::uint32_t>(i);
    }
}

}  // namespace weir::policy
