#include <weir/policy/fed.hpp>

#include "shared_numbers.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace weir::inline v0_2::policy {
namespace {

duration prefetch_time_of(shared_options const& o, shared_bucket const& b) {
    if (std::min(o.prefetch, b.burst / 2) == 0)
        return {};
    duration const four = of_microseconds(b.time_of(4));
    return o.prefetch_time.value_or(std::max<duration>(std::chrono::milliseconds(100), four));
}

}  // namespace

fed::fed(options_type const& options)
    : fed((validate(options), options), shared_bucket::of(options)) {}

fed::fed(options_type const& options, shared_bucket const& bucket)
    : options_(options),
      bucket_(bucket),
      prefetch_time_(prefetch_time_of(options, bucket_)),
      contact_(options) {
    if (auto const share = local_share_of(options))
        local_.emplace(*share);
}

void fed::begin(time_point now) noexcept {
    contact_.begin(now);
    if (local_)
        local_->begin(now);
}

void fed::take_over(fed& before, time_point now) {
    auto local = local_;
    if (local && before.local_)
        local->take_over(*before.local_, now);
    else if (local)
        local->begin(now);
    auto const options = options_;
    auto const bucket = bucket_;
    auto const length = prefetch_time_;
    *this = before;
    options_ = options;
    bucket_ = bucket;
    local_ = local;
    prefetch_time_ = length;
    stats().prefetch = std::min(stats().prefetch, most_ahead());
    contact_.use(options_, now);
    kept_until_ = 0;
    rejected_ = {};
}

// The store forgets a state that no longer matters, so only a state that still mattered was lost.
void fed::watch_for_loss(answer const& a) noexcept {
    if (a.granted == 0)
        return;
    auto const said = a.since - a.wait.count();
    stats().losses += a.is_new && said < kept_until_;
    auto const from = a.is_new ? a.since : std::max(kept_until_, a.since);
    auto const until =
        bucket_.window != 0 ? a.since + bucket_.window : from + bucket_.time_of(a.granted);
    kept_until_ = std::max(bucket_.window != 0 ? kept_until_ : 0, until);
}

amount fed::remaining(time_point now) const noexcept {
    if (decides_itself())
        return local_ ? local_->remaining(now) : capacity();
    amount n = 0;
    for (std::size_t i = 0; i != lot_count_; ++i) {
        auto const& l = lots_[i];
        n += l.from <= now && now <= l.until ? l.left : 0;
    }
    return owed_ == 0 ? n : 0;
}

// Counts booked permits as well.
amount fed::held(time_point now) const noexcept {
    amount n = 0;
    for (std::size_t i = 0; i != lot_count_; ++i)
        n += now <= lots_[i].until ? lots_[i].left : 0;
    return n;
}

time_point fed::ready_at(amount n, amount ahead, time_point now) const noexcept {
    if (decides_itself()) {
        if (!local_)
            return now;
        return n <= local_->capacity() ? local_->ready_at(n, ahead, now) : unknown;
    }
    if (owed_ != 0)
        return unknown;
    auto missing = n + ahead;
    for (std::size_t i = 0; i != lot_count_; ++i) {
        auto const& l = lots_[i];
        if (now <= l.until)
            missing -= l.left;
        if (missing <= 0)
            return std::max(l.from, now);
    }
    if (contact_.outage().current() != outage::state::none || now >= rejected_.believed_until ||
        missing < rejected_.min)
        return unknown;
    return later(rejected_.at, of_microseconds(bucket_.time_of(missing - rejected_.min)));
}

ticket fed::take(amount n, time_point now) noexcept {
    bool const is_debt = ready_at(n, 0, now) > now;
    if (local_)
        local_->take(std::min(n, local_->remaining(now)), now);
    if (decides_itself() && !is_debt) {
        stats().bypassed_permits += n;
        probes_ = true;
        return without_store;
    }
    auto since = std::numeric_limits<std::int64_t>::max();
    auto missing = n;
    for (std::size_t i = 0; i != lot_count_ && missing != 0; ++i) {
        auto& l = lots_[i];
        if (l.from > now || now > l.until || l.left == 0)
            continue;
        auto const taken = std::min(l.left, missing);
        l.left -= taken;
        missing -= taken;
        since = std::min(since, l.since);
    }
    tidy();
    if (missing == 0)
        return static_cast<ticket>(since);
    owed_ = std::min(owed_ + missing, max_amount);
    return in_debt;
}

ticket fed::merge(ticket a, ticket b, amount) noexcept {
    return merge_tickets(a, b);
}

bool fed::refund(amount n, ticket t, time_point now) noexcept {
    if (t == without_store)
        return local_ && local_->refund(n, 0, now);
    if (t != in_debt) {
        auto const since = static_cast<std::int64_t>(t);
        auto const end = lots_.begin() + static_cast<std::ptrdiff_t>(lot_count_);
        auto const found = std::find_if(lots_.begin(), end, [&](auto const& l) {
            return l.since == since && l.from <= now && now <= l.until;
        });
        if (!is_leased() || found == end) {
            put_back(n, since);
            return false;
        }
        found->left += n;
        return true;
    }
    owed_ -= std::min(owed_, n);
    return owed_ == 0;
}

// Whether there are permits that no request waits for, or that were not used in time.
bool fed::has_spare(demand const& d, time_point now) const noexcept {
    bool const is_kept = d.all != 0 || is_leased();
    for (std::size_t i = 0; i != lot_count_; ++i) {
        auto const& l = lots_[i];
        if (now > l.until || (!is_kept && l.from <= now))
            return true;
    }
    return false;
}

amount fed::most_ahead() const noexcept {
    return std::min(options_.prefetch, bucket_.burst / 2);
}

// Whether permits are used up so fast that there will be requests for more.
bool fed::is_brisk(time_point now) const noexcept {
    return deposited_ && now - *deposited_ <= prefetch_time_ / 10;
}
bool fed::is_running_out(time_point now) const noexcept {
    return stats().prefetch != 0 && !scarce_ && is_brisk(now) &&
           held(now) < (stats().prefetch + 3) / 4;
}

time_point fed::next_command(demand const& d, time_point now) const noexcept {
    if (return_count_ != 0 || has_spare(d, now))
        return now;
    bool const is_awaited = asked_.number != 0 || d.all != 0;
    auto const next =
        asked_.number != 0 ? later(asked_.sent, stats().timeout) : next_question(d, now);
    return std::min({next, next_lapse(), is_awaited ? contact_.outage().begins_at() : never});
}

// Returns when the first prefetched permits lapse. Other permits are given back as soon as no request waits for them.
time_point fed::next_lapse() const noexcept {
    auto at = never;
    for (std::size_t i = 0; is_leased() && i != lot_count_; ++i) {
        if (lots_[i].left != 0)
            at = std::min(at, later(lots_[i].until, duration(1)));
    }
    return at;
}

// Only called while no question is in progress.
time_point fed::next_question(demand const& d, time_point now) const noexcept {
    auto const earliest = std::max(
        {contact_.outage().retry_at(), now, scarce_ ? distance_.pause_ends() : time_point::min()});
    if (owed_ != 0)
        return std::max(earliest, rejected_.believed_until);
    auto const missing = d.all - held(now);
    if (decides_itself() && (probes_ || missing > 0))
        return earliest;
    if (missing <= 0 && is_running_out(now))
        return std::max(earliest, rejected_.believed_until);
    if (missing <= 0)
        return never;
    auto const head_missing = d.head - held(now);
    // Early enough for the reply to arrive when the last booked permits are due.
    if (lot_count_ != 0 && lots_[lot_count_ - 1].from > now)
        return std::max(earliest, lots_[lot_count_ - 1].from - stats().round_trip);
    if (now < rejected_.believed_until && head_missing >= rejected_.min)
        return std::max(earliest,
                        std::min(rejected_.at - options_.reach / 2, rejected_.believed_until));
    return earliest;
}

std::optional<fed::command_type> fed::pop_command(demand const& d, time_point now) noexcept {
    if (d.all == 0)
        elapse(now);  // no waiting request has to be rejected
    for (std::size_t i = 0; i != lot_count_; ++i) {
        auto& l = lots_[i];
        bool const late = now > l.until;
        bool const is_spare = late || (d.all == 0 && !is_leased() && l.from <= now);
        if (late) {
            stats().lapsed += l.left;
            stats().prefetch /= 2;
        }
        if (is_spare)
            put_back(std::exchange(l.left, 0), l.since);
    }
    tidy();
    if (return_count_ != 0) {
        auto const& last = returns_[--return_count_];
        stats().returned += last.count;
        rejected_ = {};  // permits may be free now
        return last;
    }
    if (asked_.number != 0 || next_question(d, now) > now)
        return std::nullopt;
    return make_question(d, now);
}

fed::question fed::make_question(demand const& d, time_point now) noexcept {
    using std::chrono::microseconds;
    question q{.bucket = bucket_, .number = ++last_number_, .timeout = stats().timeout};
    bool const pays_debt = owed_ != 0;
    if (pays_debt) {
        q.min = q.max = std::min(owed_, bucket_.burst);
        q.ahead = microseconds(most_level / bucket_.drained);
    } else if (decides_itself()) {
        probes_ = false;  // the question is for one permit, which is given back if no request waits
    } else {
        if (is_brisk(now) && !scarce_)
            stats().prefetch = std::min(std::max<amount>(2 * stats().prefetch, 1), most_ahead());
        auto const have = held(now);
        auto const all = std::clamp<amount>(d.all - have, 1, bucket_.burst);
        auto const head = std::clamp<amount>(d.head - have, 1, all);
        bool const is_probe = contact_.outage().current() != outage::state::none;
        q.min = scarce_ && !is_probe
                    ? std::clamp(distance_.minimum(bucket_, stats().round_trip, now), head, all)
                    : head;
        auto const expected = std::exchange(expected_, 0);
        auto const ahead = std::max(stats().prefetch, is_leased() ? expected : 0);
        q.max = is_probe ? head : std::min(all + ahead, bucket_.burst);
        auto const patience = d.all <= have      ? duration::zero()  // no request would wait
                              : d.until == never ? forever
                                                 : d.until - now;
        q.ahead = std::chrono::floor<microseconds>(
            std::clamp(patience, duration::zero(), options_.reach));
    }
    asked_ = {q.number, q.min, q.max, now, pays_debt};
    distance_.asks(now);
    contact_.asks(now);
    return q;
}

bool fed::elapse(time_point now) noexcept {
    bool const is_late = asked_.number != 0 && now >= later(asked_.sent, stats().timeout);
    if (is_late) {
        asked_ = {};
        contact_.timed_out(now);
    }
    return contact_.elapse(now) || (is_late && contact_.mode() != shared_mode::store);
}

std::optional<time_point> fed::unavailable_until(time_point now) const noexcept {
    bool const is_barred = stats().mode != shared_mode::store && !decides_itself() &&
                           asked_.number == 0 && now < contact_.outage().retry_at();
    return is_barred ? std::optional(contact_.outage().retry_at()) : std::nullopt;
}

// A late reply shows, too, that the store is available.
bool fed::answered(std::uint64_t number, answer const& a, time_point now) noexcept {
    contact_.replied(now);
    watch_for_loss(a);
    if (number != asked_.number) {
        contact_.answered_late(a);
        put_back(a.granted, a.since);
        return false;
    }
    auto const [_, least, most, sent, pays_debt] = std::exchange(asked_, {});
    auto const wait = of_microseconds(a.wait.count());
    auto const limit = stats().timeout;
    contact_.answered(a, sent, now);
    if (a.granted == 0) {
        stats().prefetch /= 2;
        scarce_ = false;  // otherwise the next question would ask for too much again
        reject_before(later(sent, wait), least, now);
        return true;
    }
    bool const is_booked = wait > duration::zero();
    if (is_booked)
        distance_.booked(bucket_, a.granted, a.wait, a.since, stats().round_trip, now);
    scarce_ = is_booked || a.granted < most;
    rejected_ = {};
    if (scarce_)
        stats().prefetch /= 2;
    if (!is_booked)
        deposited_ = now;
    if (is_booked)  // the bucket will be full then
        reject_before(later(later(sent, wait), of_microseconds(bucket_.time_of(1))), 1, now);
    if (pays_debt)
        owed_ -= std::min(owed_, a.granted);
    else
        keep({a.granted, is_booked ? later(now, wait) : now,
              later(later(sent, wait), limit + prefetch_time_), a.since});
    return false;
}

void fed::reject_before(time_point at, amount least, time_point now) noexcept {
    rejected_ = {least, at, std::min(at, later(now, belief))};
}

bool fed::failed(std::uint64_t number, answer const& a, time_point now) noexcept {
    if (number == asked_.number) {
        asked_ = {};
        contact_.failed(a, now);
    } else {
        contact_.count_failure(a);
        --stats().unknown;  // it was unknown until now
        if (a.lost || a.kind != failure_kind::misconfigured)
            return false;
        contact_.misconfigured(a.wait, now);
    }
    return contact_.mode() != shared_mode::store;
}

void fed::keep(lot const& l) noexcept {
    tidy();
    if (lot_count_ == lots_.size()) {  // give up the rest of the earliest lot
        put_back(lots_[0].left, lots_[0].since);
        std::move(lots_.begin() + 1, lots_.end(), lots_.begin());
        --lot_count_;
    }
    auto const end = lots_.begin() + static_cast<std::ptrdiff_t>(lot_count_);
    auto const place = std::upper_bound(lots_.begin(), end, l, [](lot const& a, lot const& b) {
        return a.from < b.from;
    });
    std::move_backward(place, end, end + 1);
    *place = l;
    ++lot_count_;
}

void fed::tidy() noexcept {
    auto const end =
        std::remove_if(lots_.begin(), lots_.begin() + static_cast<std::ptrdiff_t>(lot_count_),
                       [](lot const& l) { return l.left == 0; });
    lot_count_ = static_cast<std::size_t>(end - lots_.begin());
}

// Permits that find no free entry count as used.
void fed::put_back(amount n, std::int64_t since) noexcept {
    if (n == 0)
        return;
    kept_until_ -= bucket_.window != 0 ? kept_until_ : bucket_.time_of(n);
    auto const end = returns_.begin() + static_cast<std::ptrdiff_t>(return_count_);
    auto const same =
        std::find_if(returns_.begin(), end, [&](give_back const& r) { return r.since == since; });
    if (same != end)
        same->count += n;
    else if (return_count_ != returns_.size())
        returns_[return_count_++] = {bucket_, n, since, stats().timeout};
}

fed_log::fed_log(options_type const& options)
    : fed((validate_log(options), options), shared_bucket::log_of(options)) {}

}  // namespace weir::inline v0_2::policy
