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

// For how long a process relies on its seats: shorter than in the store, because clocks run at different speeds.
duration belief(duration lease) {
    return lease - lease / 1000;
}

// A process with messages also asks after this time, because messages may be lost.
constexpr duration shortest_fallback = 500ms;
constexpr duration longest_check = 500ms;

}  // namespace

fed_seats::fed_seats(options_type const& options)
    : options_((validate(options), options)), holder_(some_holder()), outage_(retry_of(options)) {}

void fed_seats::take_over(fed_seats& before, time_point now) noexcept {
    auto const options = options_;
    *this = before;
    options_ = options;
    outage_.use(retry_of(options_));
    renew_at_ = std::min(renew_at_, later(now, options_.lease / 3));
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
    spare_since_ = now;
    has_changed_ = true;
    yields_ = yields_ || (is_crowded_ && now >= turn_ends_);
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

// Returns whether this process waits in the line for another number of seats than it needs.
bool fed_seats::has_wrong_place(demand const& d, time_point now) const noexcept {
    return stands_ && (!lacks_for_head(d, now) || used_ + owed_ + d.head != last_.min);
}

// Returns until when unused seats stay here. A loop that releases a seat and enters again keeps its turn.
time_point fed_seats::unused_until() const noexcept {
    return is_crowded_ ? left_until() : later(spare_since_, options_.poll);
}

// Returns until when a caller that has released a seat is likely to enter again.
time_point fed_seats::left_until() const noexcept {
    return later(spare_since_, std::min(stats_.round_trip, options_.poll));
}

bool fed_seats::gives_up_now(demand const& d, time_point now) const noexcept {
    return spare() != 0 && (yields_ || (d.all == 0 && unused_until() <= now));
}

time_point fed_seats::next_command(demand const& d, time_point now) const noexcept {
    auto const lapses = fence_ != no_fence ? until_ : never;
    auto const order = asking_        ? later(last_.sent, options_.timeout)
                       : has_changed_ ? now
                                      : next_question(d, now);
    bool const is_awaited = asking_ || d.all != 0;
    return std::min({order, lapses, is_awaited ? outage_.begins_at() : never});
}

// Only called while no question is in progress.
time_point fed_seats::next_question(demand const& d, time_point now) const noexcept {
    auto at = never;
    if (lacks_for_head(d, now) || held_ < used_ + owed_)
        at = poll_at_;
    if (fence_ != no_fence) {
        at = std::min({at, renew_at_, is_crowded_ ? never : check_at_});
        if (spare() != 0 && (yields_ || d.all == 0))
            at = std::min(at, yields_ ? now : unused_until());
    }
    bool const is_open = fence_ != no_fence ? outage_.is_failing() : now < doubtful_until_;
    if (has_wrong_place(d, now))
        at = std::min(at, left_until());
    if (is_open)
        at = now;
    return at == never ? never : std::max({at, now, outage_.retry_at()});
}

std::optional<fed_seats::question> fed_seats::pop_command(demand const& d,
                                                          time_point now) noexcept {
    bool const has_lapsed = fence_ != no_fence && now >= until_;
    has_changed_ = false;
    if (asking_ || has_lapsed || next_question(d, now) > now)
        return std::nullopt;
    bool const gives_up = gives_up_now(d, now);
    bool const yields = std::exchange(yields_, false) && gives_up;
    if (yields)
        turn_ends_ = later(now, turn);
    bool const may_ask = yields || stands_ || now >= poll_at_;
    auto const base = used_ + owed_;
    bool const fits = d.all != 0 && base + d.head <= options_.seats;
    bool const asks = may_ask && fits && (yields || lacks_for_head(d, now));
    auto const keep = asks || gives_up ? base : std::max(base, held_);
    last_ = {.number = last_.number + 1,
             .fence = fence_,
             .keep = keep,
             .min = asks ? base + d.head : 0,
             .max = asks ? std::min(base + d.all, options_.seats) : keep,
             .sent = now};
    asking_ = true;
    missed_ = hears_crowd_ = false;
    outage_.asks(now);
    ++stats_.questions;
    return question{
        .seats = options_.seats,
        .lease = std::chrono::floor<std::chrono::microseconds>(options_.lease),
        .holder = holder_,
        .number = last_.number,
        .fence = static_cast<std::int64_t>(fence_),
        .known = static_cast<std::int64_t>(known_),
        .keep = last_.keep,
        .min = last_.min,
        .max = last_.max,
        .yields = yields,
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
    return (has_lapsed || is_late || has_begun) && unavailable_until(now).has_value();
}

std::optional<time_point> fed_seats::unavailable_until(time_point now) const noexcept {
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
    bool const is_new = fence != no_fence && fence != fence_;
    held_ = a.held;
    fence_ = fence;
    known_ = std::max(known_, fence);
    until_ = until;
    renew_at_ = later(last_.sent, options_.lease / 3);
    is_crowded_ = a.waits != 0 || hears_crowd_;
    advances(a.ahead, now);
    stands_ = a.ahead >= 0;
    answer_time_ = a.time;
    stats_.denied += a.held < last_.min;
    if (is_new)
        begin_turn(now);
    check_at_ = a.listens ? never : later(now, check_pause_);
    check_pause_ = std::min(2 * check_pause_, longest_check);
    bool const was_lost = a.held == 0 && last_.keep != 0 && last_.fence != no_fence;
    poll_at_ = time_point::min();
    if (stands_ && !missed_)
        poll_at_ = later(now, pause(a));
    else if (last_.min == 0 && a.held < last_.max && !was_lost)
        poll_at_ = later(now, options_.poll);
    return false;
}

void fed_seats::begin_turn(time_point now) noexcept {
    turn_ends_ = later(now, turn);
    spare_since_ = now;
    check_pause_ = turn;
}

// Measures how fast this process advances in the line. `ahead` is -1 when it leaves the line with its seats.
void fed_seats::advances(amount ahead, time_point now) noexcept {
    if (stands_ && ahead < ahead_ && last_.min != 0) {
        place_time_ += ((now - advanced_) / (ahead_ - ahead) - place_time_) / 4;
        advanced_ = now;
    } else if (!stands_ || ahead > ahead_) {
        advanced_ = now;
    }
    ahead_ = ahead;
}

duration fed_seats::pause(answer const& a) const noexcept {
    auto wait = std::max(a.ahead == 0 ? place_time_ / 8 : times(place_time_, a.ahead) / 5 * 4,
                         options_.poll / 10);
    if (a.listens)
        wait = std::max(2 * times(place_time_, a.ahead + 1), shortest_fallback);
    if (a.wait.count() > 0)
        wait = std::min(wait, std::max<duration>(a.wait, 1ms));
    return std::min(wait, options_.lease / 3);
}

// A grant counts only if its question is the last one, and was answered with a place in the line: then no time since
// the question is unknown. In all other cases the message is a reason to ask.
void fed_seats::heard(notice const& what, time_point now) noexcept {
    auto const fence = static_cast<ticket>(what.fence);
    if (what.held == 0) {
        hears_crowd_ = asking_;
        is_crowded_ = is_crowded_ || fence_ != no_fence;
        return;
    }
    bool const is_mine = !asking_ && stands_ && what.number == last_.number;
    if (is_mine && fence_ != no_fence && fence == fence_ && now < until_) {
        held_ = std::max(held_, what.held);
    } else if (is_mine && fence_ == no_fence && fence > known_) {
        std::chrono::microseconds const passed(what.time - answer_time_);
        auto const lease = std::chrono::floor<std::chrono::microseconds>(options_.lease);
        auto const granted =
            later(last_.sent, std::clamp<std::chrono::microseconds>(passed, 0us, lease));
        auto const until =
            std::min(later(granted, belief(confirm_of(lease))), later(last_.sent, belief(lease)));
        if (now >= until) {
            missed_messages(now);
            return;
        }
        held_ = what.held;
        fence_ = known_ = fence;
        until_ = until;
        renew_at_ = later(granted, confirm_of(lease) / 8);
        begin_turn(now);
        check_at_ = never;
    } else {
        missed_messages(now);
        return;
    }
    advances(-1, now);
    stands_ = false;
    poll_at_ = time_point::min();
    is_crowded_ = what.waits != 0;
}

void fed_seats::missed_messages(time_point now) noexcept {
    missed_ = missed_ || asking_;
    if (stands_)
        poll_at_ = std::min(poll_at_, now);
    check_at_ = std::min(check_at_, now);
}

bool fed_seats::failed(std::uint64_t number, answer const& a, time_point now) noexcept {
    bool const lost = a.lost;
    auto const why = lost ? failure_kind::no_reply : a.kind;
    if (number != last_.number || !asking_) {
        stats_.late += !lost;
        if (why != failure_kind::misconfigured)
            return false;
        outage_.misconfigured(a.wait, now);
        return unavailable_until(now).has_value();
    }
    asking_ = false;
    ++(lost ? stats_.unknown : why == failure_kind::unsent ? stats_.unsent : stats_.failed);
    if (lost)
        held_ = std::min(held_, last_.keep);
    if (fence_ == no_fence && (stands_ || (lost && last_.max != 0)))
        begin_doubt(now);
    stands_ = false;
    outage_.failed(why, a.wait, now);
    return unavailable_until(now).has_value();
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
