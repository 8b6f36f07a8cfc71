#include <weir/detail/random.hpp>
#include <weir/policy/fed_seats.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace weir::inline v0_2 {

void validate(shared_seats_options const& o) {
    constexpr std::string_view where = "shared seats";
    auto const check_time =
        [&](std::string_view option, duration value, duration least, duration most) {
            detail::check_duration(where, option, value, least, most);
        };
    using namespace std::chrono_literals;
    detail::check_option(where, "seats", o.seats, 1, 1'000'000);
    check_time("lease", o.lease, 100ms, 1h);
    check_time("timeout", o.timeout, 1us, o.lease / 6);
    check_time("poll", o.poll, 1ms, 60s);
}

namespace policy {
namespace {

using namespace std::chrono_literals;

fed_seats::holder_id some_holder() {
    auto const first = detail::random_bits();
    return {first, detail::random_bits()};
}

// Short enough for several attempts in the rest of a lease after its first third.
backoff_options retry_of(shared_seats_options const& o) {
    return {.initial = std::min<duration>(50ms, o.lease / 50),
            .max = std::min<duration>(500ms, o.lease / 6)};
}

// For how long seats stay in a process with waiting requests.
duration turn_of(shared_seats_options const& o) {
    return std::min(times(o.poll, 50), o.lease);
}

// For how long a process relies on its seats: shorter than in the store, because clocks run at different speeds.
duration belief(duration lease) {
    return lease - lease / 1000;
}

}  // namespace

fed_seats::fed_seats(options_type const& options)
    : options_((validate(options), options)), holder_(some_holder()), outage_(retry_of(options)) {}

void fed_seats::take_over(fed_seats& before, time_point) noexcept {
    auto const options = options_;
    *this = before;
    options_ = options;
    outage_.use(retry_of(options_));
}

// Returns the seats that are held and not used, without the seats that the question in progress may give back.
amount fed_seats::spare() const noexcept {
    auto const held = asking_ ? std::min(held_, last_.keep) : held_;
    return std::max<amount>(held - used_ - owed_, 0);
}

amount fed_seats::remaining(time_point now) const noexcept {
    return fence_ != no_fence && now < until_ && !yields_ ? spare() : 0;
}

amount fed_seats::debt(time_point) const noexcept {
    return std::max<amount>(used_ + owed_ - held_, 0);
}

time_point fed_seats::ready_at(amount n, amount ahead, time_point now) const noexcept {
    auto const there = remaining(now);
    return n <= there && ahead <= there - n ? now : unknown;
}

ticket fed_seats::take(amount n, time_point now) noexcept {
    bool const fits = n <= remaining(now);
    auto& of = fits ? used_ : owed_;
    of = std::min(of + n, max_amount);
    return fits ? fence_ : no_fence;
}

bool fed_seats::leave(amount n, ticket t, time_point now) noexcept {
    if (t != no_fence && t != fence_)
        return false;  // the permit was lost
    give_up(n, t);
    yields_ = yields_ || now >= yields_at_;
    return true;
}

void fed_seats::give_up(amount n, ticket t) noexcept {
    auto& of = t == no_fence ? owed_ : used_;
    of -= std::min(of, n);
}

// A merged permit counts like the permit that it joins, as if it had been released and taken again.
ticket fed_seats::merge(ticket a, ticket b, amount n) noexcept {
    if (b == no_fence || b == fence_)
        give_up(n, b);
    if (a == no_fence || a == fence_) {
        auto& of = a == no_fence ? owed_ : used_;
        of = std::min(of + n, max_amount);
    }
    return a;
}

bool fed_seats::is_lost(ticket t, time_point now) const noexcept {
    return t != no_fence && (t == fence_ ? now >= until_ : t <= lost_);
}

bool fed_seats::lacks_for_head(demand const& d, time_point now) const noexcept {
    return d.all > remaining(now) && used_ + owed_ + d.head <= options_.seats;
}

bool fed_seats::lacks_seats(demand const& d, time_point now) const noexcept {
    return lacks_for_head(d, now) || held_ < used_ + owed_;
}

time_point fed_seats::next_command(demand const& d, time_point now) const noexcept {
    auto const lapses = fence_ != no_fence ? until_ : never;
    auto const order = asking_ ? later(last_.sent, options_.timeout) : next_question(d, now);
    bool const is_awaited = asking_ || d.all != 0;
    return std::min({order, lapses, is_awaited ? outage_.begins_at() : never});
}

// Only called while no question is in progress.
time_point fed_seats::next_question(demand const& d, time_point now) const noexcept {
    auto at = never;
    if (lacks_seats(d, now))
        at = poll_at_;
    if (fence_ != no_fence) {
        at = std::min(at, later(renewed_, options_.lease / 3));
        if (spare() != 0 && (d.all == 0 || yields_))
            at = now;
    }
    bool const is_open = fence_ != no_fence ? outage_.is_failing() : now < doubtful_until_;
    if (is_open)
        at = now;
    return at == never ? never : std::max({at, now, outage_.retry_at()});
}

std::optional<fed_seats::question> fed_seats::pop_command(demand const& d,
                                                          time_point now) noexcept {
    bool const has_lapsed = fence_ != no_fence && now >= until_;
    if (asking_ || has_lapsed || next_question(d, now) > now)
        return std::nullopt;
    if (std::exchange(yields_, false) && spare() != 0 && d.all != 0) {
        yields_at_ = later(now, turn_of(options_));
        poll_at_ = later(now, times(options_.poll, 2));
    }
    bool const asks = now >= poll_at_ && lacks_for_head(d, now);
    auto const base = used_ + owed_;
    last_ = {.number = last_.number + 1,
             .fence = fence_,
             .keep = base,
             .min = asks ? base + d.head : 0,
             .max = asks ? std::min(base + d.all, options_.seats) : base,
             .sent = now};
    asking_ = true;
    outage_.asks(now);
    ++stats_.questions;
    return question{
        .seats = options_.seats,
        .lease = std::chrono::floor<std::chrono::microseconds>(options_.lease),
        .holder = holder_,
        .number = last_.number,
        .fence = static_cast<std::int64_t>(fence_),
        .keep = last_.keep,
        .min = last_.min,
        .max = last_.max,
        .timeout = options_.timeout};
}

bool fed_seats::elapse(time_point now) noexcept {
    bool const has_lapsed = fence_ != no_fence && now >= until_;
    if (has_lapsed)
        lose();
    if (now >= doubtful_until_)
        doubtful_until_ = time_point::min();
    bool const is_late = asking_ && now >= later(last_.sent, options_.timeout);
    if (is_late)
        failed(last_.number, {.lost = true}, now);
    bool const has_begun = outage_.elapse(now);
    return (has_lapsed || is_late || has_begun) && barred(now).has_value();
}

std::optional<time_point> fed_seats::barred(time_point now) const noexcept {
    bool const is_barred = outage_.current() != outage::state::none && !asking_ &&
                           now < outage_.retry_at() && fence_ == no_fence;
    return is_barred ? std::optional(outage_.retry_at()) : std::nullopt;
}

// The reply to the last question is valid at any time, because no question followed it.
bool fed_seats::answered(std::uint64_t number, answer const& a, time_point now) noexcept {
    stats_.late += number != last_.number || !asking_;
    outage_.replied();
    if (number != last_.number)
        return false;
    asking_ = false;
    doubtful_until_ = time_point::min();
    stats_.round_trip = now - last_.sent;

    auto const fence = a.held != 0 ? static_cast<ticket>(a.fence) : no_fence;
    auto const until = later(last_.sent, belief(options_.lease));
    if (fence_ != no_fence && (now >= until_ || fence != fence_))
        lose();
    bool const begins = fence_ == no_fence && last_.fence == no_fence && now < until;
    if (fence != fence_ && !begins) {
        begin_doubt(now);  // the lease ended here before the reply arrived
        return false;
    }
    if (begins)
        yields_at_ = later(now, turn_of(options_));
    held_ = a.held;
    fence_ = fence;
    renewed_ = last_.sent;
    until_ = until;
    stats_.denied += a.held < last_.min;
    bool const was_lost = a.held == 0 && last_.keep != 0 && last_.fence != no_fence;
    if (a.held < last_.max && !was_lost) {
        auto const wait = a.wait.count() > 0 ? std::min<duration>(a.wait, pause()) : pause();
        poll_at_ = later(now, std::max<duration>(wait, 1ms));
    }
    return false;
}

bool fed_seats::failed(std::uint64_t number, answer const& a, time_point now) noexcept {
    bool const lost = a.lost;
    auto const why = lost ? failure_kind::no_reply : a.kind;
    if (number != last_.number || !asking_) {
        stats_.late += !lost;
        if (why != failure_kind::misconfigured)
            return false;
        outage_.misconfigured(a.wait, now);
        return barred(now).has_value();
    }
    asking_ = false;
    ++(lost ? stats_.unknown : why == failure_kind::unsent ? stats_.unsent : stats_.failed);
    if (lost)
        held_ = std::min(held_, last_.keep);
    if (lost && fence_ == no_fence && last_.max != 0)
        begin_doubt(now);
    outage_.failed(why, a.wait, now);
    return barred(now).has_value();
}

// Differs each time, and between processes.
duration fed_seats::pause() const noexcept {
    auto const chance = (holder_[0] ^ last_.number * 0x9e3779b97f4a7c15) >> 54;  // 0 to 1023
    return options_.poll - options_.poll * static_cast<std::int64_t>(chance) / 2048;
}

void fed_seats::begin_doubt(time_point now) noexcept {
    doubtful_until_ = later(now, options_.lease);
}

void fed_seats::lose() noexcept {
    if (used_ != 0)
        lost_ = fence_;
    stats_.lost += used_;
    held_ = used_ = 0;
    fence_ = no_fence;
    yields_ = false;
}

shared_seats_stats fed_seats::fed_stats() const noexcept {
    auto s = stats_;
    s.held = held_;
    s.unavailable = outage_.current() == outage::state::unavailable;
    return s;
}

}  // namespace policy
}  // namespace weir::inline v0_2
