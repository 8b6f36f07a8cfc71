#include <weir/policy/fed.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace weir::inline v0_2 {
namespace {

__extension__ using wide = __int128;

constexpr std::int64_t most_level = std::int64_t{1} << 61;

// The rate in drops, in lowest terms, so that the numbers stay small.
struct drops_of_rate {
    wide drained;
    wide permit;
};
drops_of_rate in_drops(rate const& r) {
    auto const drained = wide{r.permits()} * 1000;  // per microsecond
    auto const permit = wide{r.period().count()};
    auto a = drained;
    auto b = permit;
    while (b != 0)
        a = std::exchange(b, a % b);
    return {drained / a, permit / a};
}

amount burst_of(shared_options const& o) {
    return o.burst.value_or(o.rate.permits());
}

// The result may exceed the range of nanoseconds.
duration of_microseconds(std::int64_t n) {
    return times(std::chrono::microseconds(1), std::max<std::int64_t>(n, 0));
}

duration prefetch_time_of(shared_options const& o, policy::shared_bucket const& b) {
    if (std::min(o.prefetch, b.burst / 2) == 0)
        return {};
    duration const four = of_microseconds(b.time_of(4));
    return o.prefetch_time.value_or(std::max<duration>(std::chrono::milliseconds(100), four));
}

// Returns the options of the local limit, which applies without the store.
std::optional<token_bucket_options> share_of(shared_options const& o) {
    auto const* const local = std::get_if<fail_local>(&o.on_failure);
    if (!local)
        return std::nullopt;
    auto const period = std::chrono::duration<double, std::nano>(o.rate.period()) / local->share;
    auto const burst = static_cast<double>(burst_of(o)) * local->share;
    return token_bucket_options{.rate = {o.rate.permits(), period},
                                .burst = std::max<amount>(static_cast<amount>(burst), 1)};
}

void validate_log(shared_options const& o) {
    constexpr std::string_view where = "shared sliding_log";
    detail::check_option(where, "permits of rate", o.rate.permits(), 1, 4096);
    detail::check_option(where, "burst", burst_of(o), o.rate.permits(), o.rate.permits());
    validate(o);
}

// The ticket of permits granted without the store, and of debt. The times of a store never have this value.
constexpr ticket without_store = ticket{1} << 63;
constexpr ticket in_debt = 0;

constexpr duration least_timeout = std::chrono::milliseconds(50);

}  // namespace

void validate(shared_options const& o) {
    constexpr std::string_view where = "shared limiter";
    auto const check_time =
        [&](std::string_view option, duration value, duration least, duration most) {
            detail::check_duration(where, option, value, least, most);
        };
    using namespace std::chrono_literals;
    detail::check_option(where, "permits of rate", o.rate.permits(), 1, max_amount);
    detail::check_option(where, "burst", burst_of(o), 1, 500'000'000);
    check_time("reach", o.reach, 0s, 60s);
    if (o.timeout)
        check_time("timeout", *o.timeout, 1us, 60s);
    detail::check_option(where, "prefetch", o.prefetch, 0, 500'000'000);
    if (o.prefetch_time)
        check_time("prefetch_time", *o.prefetch_time, 1ms, 60s);
    policy::validate(where, o.retry);
    if (auto const* const local = std::get_if<fail_local>(&o.on_failure))
        detail::check_option(where, "share of fail_local", local->share, 1e-6, 1);

    check_time("period of rate", o.rate.period(), 1ns, 24h * 3650);

    // A store that counts in 64 bits must not overflow in any product.
    auto const [drained, permit] = in_drops(o.rate);
    auto const most = static_cast<std::int64_t>(most_level / permit);
    detail::check_option(where, "burst, at this rate,", burst_of(o), 1, most);
    constexpr std::int64_t longest_reach = 1'000'000 * 60;
    detail::check_option(
        where, "permits of rate", o.rate.permits(), 1,
        static_cast<std::int64_t>(std::min<wide>(
            max_amount, wide{most_level} / longest_reach * o.rate.permits() / drained)));
}

namespace policy {

shared_bucket shared_bucket::of(shared_options const& o) noexcept {
    auto const [drained, permit] = in_drops(o.rate);
    return {static_cast<std::int64_t>(drained), static_cast<std::int64_t>(permit), burst_of(o)};
}

shared_bucket shared_bucket::log_of(shared_options const& o) noexcept {
    auto b = of(o);
    b.window = std::chrono::ceil<std::chrono::microseconds>(o.rate.period()).count();
    return b;
}

std::int64_t shared_bucket::time_of(amount n) const noexcept {
    if (window != 0)
        return 0;
    return static_cast<std::int64_t>(
        std::min(wide{n} * permit / drained, wide{std::numeric_limits<std::int64_t>::max()}));
}

fed::fed(options_type const& options)
    : fed((validate(options), options), shared_bucket::of(options)) {}

fed::fed(options_type const& options, shared_bucket const& bucket)
    : options_(options),
      bucket_(bucket),
      prefetch_time_(prefetch_time_of(options, bucket_)),
      outage_(options.retry) {
    stats_.timeout = options.timeout.value_or(shared_options::most_timeout);
    if (auto const share = share_of(options))
        local_.emplace(*share);
}

void fed::begin(time_point now) noexcept {
    stats_.mode_since = now;
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
    if (options.timeout || options_.timeout)
        stats_.timeout = options.timeout.value_or(shared_options::most_timeout);
    options_ = options;
    bucket_ = bucket;
    local_ = local;
    prefetch_time_ = length;
    stats_.prefetch = std::min(stats_.prefetch, most_ahead());
    outage_.use(options_.retry);
    kept_until_ = 0;
    rejected_ = {};
    note_mode(now);
}

void fed::note_state(time_point now) noexcept {
    bool const was_unavailable =
        std::exchange(stats_.unavailable, outage_.current() == outage::state::unavailable);
    stats_.outages += stats_.unavailable && !was_unavailable;
    note_mode(now);
}

void fed::note_mode(time_point now) noexcept {
    auto mode = is_misconfigured()   ? shared_mode::misconfigured
                : stats_.unavailable ? shared_mode::closed
                                     : shared_mode::store;
    if (decides_itself())
        mode = local_ ? shared_mode::local : shared_mode::open;
    if (mode == stats_.mode)
        return;
    auto const number = ++stats_.mode_changes;
    changes_[number % changes_.size()] = {stats_.mode, mode, now, number};
    if (number - told_ > changes_.size())
        told_ = number - changes_.size();
    stats_.mode = mode;
    stats_.mode_since = now;
}

std::optional<mode_change> fed::pop_event() noexcept {
    if (!has_event())
        return std::nullopt;
    return changes_[++told_ % changes_.size()];
}

// The store read its clock between the question and the reply.
void fed::read_clock(std::int64_t said, time_point sent, time_point now) noexcept {
    auto const before = std::exchange(clock_, {sent, now, said});
    if (before.said == 0)
        return;
    using std::chrono::ceil;
    using std::chrono::floor;
    using std::chrono::microseconds;
    microseconds const passed(said - before.said);
    auto const slack = std::max(step_least, (now - before.sent) / 1000);
    stats_.steps_forward += passed > floor<microseconds>(now - before.sent + slack);
    stats_.steps_back += passed < ceil<microseconds>(sent - before.received - slack);
}

// The store forgets a state that no longer matters, so only a state that still mattered was lost.
void fed::watch_for_loss(answer const& a) noexcept {
    if (a.granted == 0)
        return;
    auto const said = a.since - a.wait.count();
    stats_.losses += a.is_new && said < kept_until_;
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
    if (outage_.current() != outage::state::none || now >= rejected_.believed_until ||
        missing < rejected_.min)
        return unknown;
    return later(rejected_.at, of_microseconds(bucket_.time_of(missing - rejected_.min)));
}

ticket fed::take(amount n, time_point now) noexcept {
    bool const is_debt = ready_at(n, 0, now) > now;
    if (local_)
        local_->take(std::min(n, local_->remaining(now)), now);
    if (decides_itself() && !is_debt) {
        stats_.bypassed_permits += n;
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
    auto const [least, most] = std::minmax(a, b);
    return most == without_store && least != in_debt ? without_store : least;
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
    return stats_.prefetch != 0 && is_brisk(now) && held(now) < (stats_.prefetch + 3) / 4;
}

time_point fed::next_command(demand const& d, time_point now) const noexcept {
    if (return_count_ != 0 || has_spare(d, now))
        return now;
    bool const is_awaited = asked_.number != 0 || d.all != 0;
    auto const next =
        asked_.number != 0 ? later(asked_.sent, stats_.timeout) : next_question(d, now);
    return std::min({next, next_lapse(), is_awaited ? outage_.begins_at() : never});
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
    auto const earliest =
        std::max({outage_.retry_at(), now, scarce_ ? distance_.pause_ends() : time_point::min()});
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
        return std::max(earliest, lots_[lot_count_ - 1].from - stats_.round_trip);
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
            stats_.lapsed += l.left;
            stats_.prefetch /= 2;
        }
        if (is_spare)
            put_back(std::exchange(l.left, 0), l.since);
    }
    tidy();
    if (return_count_ != 0) {
        auto const& last = returns_[--return_count_];
        stats_.returned += last.count;
        rejected_ = {};  // permits may be free now
        return last;
    }
    if (asked_.number != 0 || next_question(d, now) > now)
        return std::nullopt;
    return make_question(d, now);
}

fed::question fed::make_question(demand const& d, time_point now) noexcept {
    using std::chrono::microseconds;
    question q{.bucket = bucket_, .number = ++last_number_, .timeout = stats_.timeout};
    bool const pays_debt = owed_ != 0;
    if (pays_debt) {
        q.min = q.max = std::min(owed_, bucket_.burst);
        q.ahead = microseconds(most_level / bucket_.drained);
    } else if (decides_itself()) {
        probes_ = false;  // the question is for one permit, which is given back if no request waits
    } else {
        if (is_brisk(now))
            stats_.prefetch = std::min(std::max<amount>(2 * stats_.prefetch, 1), most_ahead());
        auto const have = held(now);
        auto const all = std::clamp<amount>(d.all - have, 1, bucket_.burst);
        auto const head = std::clamp<amount>(d.head - have, 1, all);
        bool const is_probe = outage_.current() != outage::state::none;
        q.min = scarce_ && !is_probe
                    ? std::clamp(distance_.minimum(bucket_, stats_.round_trip, now), head, all)
                    : head;
        q.max = is_probe ? head : std::min(all + stats_.prefetch, bucket_.burst);
        auto const patience = d.all <= have      ? duration::zero()  // no request would wait
                              : d.until == never ? forever
                                                 : d.until - now;
        q.ahead = std::chrono::floor<microseconds>(
            std::clamp(patience, duration::zero(), options_.reach));
    }
    asked_ = {q.number, q.min, q.max, now, pays_debt};
    distance_.asks(now);
    outage_.asks(now);
    ++stats_.questions;
    return q;
}

bool fed::elapse(time_point now) noexcept {
    bool const is_late = asked_.number != 0 && now >= later(asked_.sent, stats_.timeout);
    bool const rejects = is_late && failed(asked_.number, {.lost = true}, now);
    if (is_late && !options_.timeout)
        stats_.timeout = std::min(2 * stats_.timeout, shared_options::most_timeout);
    if (!outage_.elapse(now))
        return rejects;
    note_state(now);
    return true;
}

std::optional<time_point> fed::barred(time_point now) const noexcept {
    bool const is_barred = stats_.mode != shared_mode::store && !decides_itself() &&
                           asked_.number == 0 && now < outage_.retry_at();
    return is_barred ? std::optional(outage_.retry_at()) : std::nullopt;
}

// A late reply shows, too, that the store is available.
bool fed::answered(std::uint64_t number, answer const& a, time_point now) noexcept {
    stats_.failing = 0;
    outage_.replied();
    note_state(now);
    watch_for_loss(a);
    if (number != asked_.number) {
        ++stats_.late;
        stats_.granted += a.granted;
        put_back(a.granted, a.since);
        return false;
    }
    auto const [_, least, most, sent, pays_debt] = std::exchange(asked_, {});
    auto const wait = of_microseconds(a.wait.count());
    ++stats_.answered;
    stats_.round_trip = now - sent;
    auto const limit = stats_.timeout;
    if (!options_.timeout)
        stats_.timeout =
            std::clamp(3 * stats_.round_trip, least_timeout, shared_options::most_timeout);
    stats_.granted += a.granted;
    if (a.granted != 0)
        read_clock(a.since - a.wait.count(), sent, now);

    if (a.granted == 0) {
        ++stats_.denied;
        scarce_ = false;  // otherwise the next question would ask for too much again
        reject_before(later(sent, wait), least, now);
        return true;
    }
    bool const is_booked = wait > duration::zero();
    stats_.booked += is_booked;
    if (is_booked)
        distance_.booked(bucket_, a.granted, a.wait, a.since, stats_.round_trip, now);
    scarce_ = is_booked || a.granted < most;
    rejected_ = {};
    if (is_booked)
        stats_.prefetch /= 2;
    else
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
    auto const why = a.lost ? failure_kind::no_reply : a.kind;
    auto& count = a.lost                        ? stats_.unknown
                  : why == failure_kind::unsent ? stats_.unsent
                                                : stats_.failed;
    ++count;
    if (number != asked_.number) {  // it was unknown until now
        --stats_.unknown;
        if (why != failure_kind::misconfigured)
            return false;
        outage_.misconfigured(a.wait, now);
    } else {
        asked_ = {};
        ++stats_.failing;
        outage_.failed(why, a.wait, now);
    }
    note_state(now);
    return stats_.mode != shared_mode::store;
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
        returns_[return_count_++] = {bucket_, n, since, stats_.timeout};
}

fed_log::fed_log(options_type const& options)
    : fed((validate_log(options), options), shared_bucket::log_of(options)) {}

}  // namespace policy
}  // namespace weir::inline v0_2
