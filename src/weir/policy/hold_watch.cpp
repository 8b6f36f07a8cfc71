#include <weir/policy/hold_watch.hpp>

#include <algorithm>
#include <bit>
#include <new>

namespace weir::inline v0_2::policy {
namespace {

std::uint32_t place_of(ticket t) noexcept {
    return static_cast<std::uint32_t>(t);
}

}  // namespace

hold_watch::hold_watch(std::size_t permits) {
    while (places_in(chunks_.size()) <= permits)  // one entry more, for the anchor
        add_chunk();
}

hold_watch::hold_watch(hold_watch const& other)
    : untouched_(other.untouched_), unused_(other.unused_), unreported_(other.unreported_) {
    while (chunks_.size() != other.chunks_.size())
        add_chunk();
    for (std::uint32_t i = 0; i != untouched_; ++i)
        at(i) = other.at(i);
}

void hold_watch::take_over(hold_watch& before) noexcept {
    if (before.chunks_.empty())
        return;
    if (chunks_.size() < before.chunks_.size())
        chunks_.swap(before.chunks_);
    else
        std::ranges::swap_ranges(before.chunks_, chunks_);
    untouched_ = before.untouched_;
    unused_ = before.unused_;
    unreported_ = before.unreported_;
}

time_point hold_watch::next_overdue(duration max_hold) const noexcept {
    return unreported_ == 0 ? never : later(at(unreported_).since, max_hold);
}

overdue hold_watch::pop_overdue(time_point now) noexcept {
    auto const& p = at(unreported_);
    overdue const found{.id = (ticket{p.turn} << 32) | unreported_,
                        .count = p.held,
                        .since = p.since,
                        .held = now - p.since};
    unreported_ = p.next;
    return found;
}

ticket hold_watch::take(amount n, time_point now) noexcept {
    if (unused_ == 0 && untouched_ == places_in(chunks_.size())) {  // only debt can need more
        try {
            add_chunk();
        } catch (std::bad_alloc const&) {
            return 0;
        }
    }
    auto const index = unused_ != 0 ? unused_ : untouched_;
    auto& p = at(index);
    auto& ring = at(0);
    if (unused_ != 0) {
        unused_ = p.next;
    } else {
        p.turn = 0;
        ++untouched_;
    }

    p.held = n;
    p.since = now;
    p.next = 0;
    p.previous = ring.previous;
    at(ring.previous).next = index;
    ring.previous = index;
    if (unreported_ == 0)
        unreported_ = index;
    return (ticket{p.turn} << 32) | index;
}

void hold_watch::leave(amount n, ticket t) noexcept {
    auto const index = place_of(t);
    auto& p = at(index);
    p.held -= n;
    if (p.held != 0)
        return;
    if (unreported_ == index)
        unreported_ = p.next;
    at(p.previous).next = p.next;
    at(p.next).previous = p.previous;
    ++p.turn;
    p.next = unused_;
    unused_ = index;
}

ticket hold_watch::merge(ticket a, ticket b, amount n) noexcept {
    if (b != 0)
        leave(n, b);
    if (a != 0)
        at(place_of(a)).held += n;
    return a;
}

hold_watch::place& hold_watch::at(std::uint32_t index) const noexcept {
    if (index < first_chunk)
        return chunks_[0][index];
    auto const c = static_cast<std::size_t>(std::bit_width(index / first_chunk));
    return chunks_[c][index - places_in(c)];
}

void hold_watch::add_chunk() {
    auto const more = chunks_.empty() ? first_chunk : places_in(chunks_.size());
    chunks_.push_back(std::make_unique_for_overwrite<place[]>(more));
    if (untouched_ == 0) {
        at(0) = {};
        untouched_ = 1;
    }
}

}  // namespace weir::inline v0_2::policy
