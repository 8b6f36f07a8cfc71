#include <weir/policy/seat_algorithms.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace weir::inline v0_2::policy {
namespace {

constexpr double least_smoothing = 0.001;

template <class Options>
Options const& checked_bounds(std::string_view where, Options const& o, double most_backoff = 1) {
    detail::check_option(where, "min", o.min, 1, max_amount);
    detail::check_option(where, "max", o.max, o.min, max_amount);
    detail::check_option(where, "seats", o.seats, o.min, o.max);
    detail::check_option(where, "slow_start", o.slow_start, 0, max_amount);
    detail::check_option(where, "backoff", o.backoff, 0.5, most_backoff);
    detail::check_duration(
        where, "window", o.window, duration::zero(), duration(std::chrono::hours(24)));
    detail::check_option(where, "samples", o.samples, 1, 1'000'000);
    return o;
}

template <class Options>
void check_no_load(std::string_view where, Options const& o) {
    detail::check_option(where, "smoothing", o.smoothing, least_smoothing, 1.);
    detail::check_option(where, "probe", o.probe, 1, 1'000'000);
    detail::check_duration(where, "no_load_min", o.no_load_min, duration(1));
    detail::check_duration(where, "no_load_max", o.no_load_max, o.no_load_min);
}

aimd_options const& checked(aimd_options const& o) {
    detail::check_duration("aimd", "timeout", o.timeout, duration(1));
    return checked_bounds("aimd", o, 0.99);
}
vegas_options const& checked(vegas_options const& o) {
    check_no_load("vegas", o);
    return checked_bounds("vegas", o);
}
gradient2_options const& checked(gradient2_options const& o) {
    check_no_load("gradient2", o);
    detail::check_option("gradient2", "tolerance", o.tolerance, 1., 10.);
    detail::check_option("gradient2", "queue", o.queue, 0, max_amount);
    detail::check_option("gradient2", "long_window", o.long_window, 1, 1'000'000);
    detail::check_duration("gradient2", "ignore_below", o.ignore_below, duration::zero());
    return checked_bounds("gradient2", o);
}

template <class Options>
double clamped(Options const& o, double limit) noexcept {
    return std::clamp(limit, static_cast<double>(o.min), static_cast<double>(o.max));
}

template <class Options>
double no_load_of(Options const& o, double latency) noexcept {
    return std::clamp(latency, static_cast<double>(o.no_load_min.count()),
                      static_cast<double>(o.no_load_max.count()));
}

double nanoseconds(duration d) noexcept {
    return static_cast<double>(d.count());
}

// The number for a probe: so few that no request can wait at the server, if the number is below twice the best.
amount half_of(double limit, amount least) noexcept {
    return std::max(least, static_cast<amount>(limit / 2));
}

bool half_in_use(seat_sample const& s, double limit) noexcept {
    return static_cast<double>(s.in_flight) * 2 >= limit;
}

// Doubles the number, up to the bound of slow start.
double doubled(double limit, amount slow_start) noexcept {
    return std::min(2 * limit, std::max(limit, static_cast<double>(slow_start)));
}

}  // namespace

duration whole_latency(double nanoseconds) noexcept {
    constexpr auto most = static_cast<double>(longest_learned_latency.count());
    return duration(static_cast<duration::rep>(std::min(nanoseconds, most)));
}

// ---- Additive increase, multiplicative decrease.

aimd::aimd(options_type const& options)
    : options_(checked(options)),
      limit_(options_.seats),
      slow_(options_.seats < options_.slow_start) {}

void aimd::update(seat_sample const& s) noexcept {
    auto const limit = static_cast<double>(limit_);
    if (s.dropped || s.latency > options_.timeout) {
        slow_ = false;
        start_with(static_cast<amount>(limit * options_.backoff));
    } else if (half_in_use(s, limit)) {
        auto const more = slow_ ? doubled(limit, options_.slow_start) : limit + 1;
        start_with(static_cast<amount>(more));
        slow_ = slow_ && limit_ < options_.slow_start;
    }
}

void aimd::take_over(aimd const& before) noexcept {
    start_with(before.limit_);
    slow_ = before.slow_ && limit_ < options_.slow_start;
}

void aimd::start_with(amount n) noexcept {
    limit_ = std::clamp(n, options_.min, options_.max);
}

void aimd::start_from(learned_seats const& before) noexcept {
    start_with(before.seats);
    slow_ = !before.has_started && limit_ < options_.slow_start;
}

// ---- Means and probes.

double exponential_mean::add(double x) noexcept {
    if (count_ < warm_up_) {
        ++count_;
        value_ += (x - value_) / static_cast<double>(count_);
    } else {
        value_ += (x - value_) * factor_;
    }
    return value_;
}

void probe_clock::restart(std::uint64_t noise) noexcept {
    passed_ = 0;
    // splitmix64 of Steele, Lea and Flood, 2014.
    auto z = state_ += 0x9e3779b97f4a7c15U ^ noise;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    share_ = 0.5 + 0.5 * static_cast<double>(z >> 11) / static_cast<double>(1ULL << 53);
}

// ---- Vegas.

vegas::vegas(options_type const& options)
    : options_(checked(options)),
      limit_(static_cast<double>(options_.seats)),
      slow_(options_.seats < options_.slow_start) {}

amount vegas::seats() const noexcept {
    return probing_ ? half_of(limit_, options_.min) : static_cast<amount>(limit_);
}

void vegas::learn(duration latency) noexcept {
    no_load_ = no_load_of(options_, nanoseconds(latency));
}

void vegas::update(seat_sample const& s) noexcept {
    bool const served = s.latency > duration::zero();
    bool const fresh = std::exchange(fresh_, false);
    if (probing_ && served) {
        learn(s.latency);
        probing_ = false;
        fresh_ = true;
        return clock_.restart(static_cast<std::uint64_t>(s.latency.count()));
    }
    auto const interval = static_cast<double>(options_.probe) * limit_;
    clock_.pass(s.count);
    if (clock_.is_due(interval) && !probing_) {
        probing_ = true;
        return;
    }
    auto const latency = nanoseconds(s.latency);
    if (served && (no_load_ == 0 || latency < no_load_)) {
        bool const known = no_load_ != 0;
        learn(s.latency);
        if (!s.dropped && (!known || !slow_))
            return;
    }

    auto const step = std::max(1., std::floor(std::log10(limit_)));
    auto const queue = served ? std::ceil(limit_ * std::max(0., 1 - no_load_ / latency)) : 0;
    auto const too_many = queue - 6 * step;
    auto next = limit_;
    if (s.dropped) {
        slow_ = false;
        next = std::min(limit_ - step, limit_ * options_.backoff);
    } else if (!half_in_use(s, limit_)) {
        return;
    } else if (slow_ && too_many <= 0) {
        next = doubled(limit_, options_.slow_start);
        slow_ = next < static_cast<double>(options_.slow_start);
    } else if (too_many > (slow_ ? 0 : 6 * step) && !fresh &&
               (slow_ || clock_.may_be_early(interval))) {
        probing_ = true;  // the service itself may be slower now
        return;
    } else if (slow_) {
        slow_ = false;  // the queue that built up is removed at once
        next = std::min(limit_, limit_ - queue + 3 * step);
    } else if (queue <= step) {
        next = limit_ + 6 * step;
    } else if (queue < 3 * step) {
        next = limit_ + step;
    } else if (too_many > 0) {
        auto const many = fresh ? static_cast<double>(s.count) * step : step;
        next = std::min(limit_ - std::clamp(too_many, step, many), limit_ * options_.backoff);
    }
    limit_ += options_.smoothing * (clamped(options_, next) - limit_);
}

void vegas::take_over(vegas const& before) noexcept {
    start_with(static_cast<amount>(before.limit_));
    no_load_ = before.no_load_ == 0 ? 0 : no_load_of(options_, before.no_load_);
    clock_ = before.clock_;
    probing_ = before.probing_;
    fresh_ = before.fresh_;
    slow_ = before.slow_ && limit_ < static_cast<double>(options_.slow_start);
}

void vegas::start_with(amount n) noexcept {
    limit_ = clamped(options_, static_cast<double>(n));
}

learned_seats vegas::learned() const noexcept {
    return {static_cast<amount>(limit_), !slow_, whole_latency(no_load_)};
}

void vegas::start_from(learned_seats const& before) noexcept {
    start_with(before.seats);
    if (before.latency > duration::zero())
        learn(before.latency);
    slow_ = !before.has_started && limit_ < static_cast<double>(options_.slow_start);
}

// ---- The gradient.

gradient2::gradient2(options_type const& options)
    : options_(checked(options)),
      limit_(static_cast<double>(options_.seats)),
      long_(options_.long_window),
      slow_(options_.seats < options_.slow_start) {}

amount gradient2::seats() const noexcept {
    return probing_ ? half_of(limit_, options_.min) : static_cast<amount>(limit_);
}

void gradient2::move(double to) noexcept {
    limit_ = clamped(options_, to);
}

void gradient2::update(seat_sample const& s) noexcept {
    if (s.dropped) {
        slow_ = false;
        move(limit_ * options_.backoff);
    }
    auto const latency = nanoseconds(s.latency);
    if (latency <= 0)
        return;
    bool const fresh = std::exchange(fresh_, false);
    if (probing_) {
        auto const before = long_.value();
        long_.set(no_load_of(options_, latency));
        probing_ = false;
        fresh_ = true;
        slow_ = slow_ || (long_.value() > options_.tolerance * before &&
                          limit_ < static_cast<double>(options_.slow_start));
        return clock_.restart(static_cast<std::uint64_t>(s.latency.count()));
    }
    auto const mean = no_load_of(options_, long_.add(latency));
    if (mean / latency > 2)
        long_.scale(0.95);
    auto const interval = static_cast<double>(options_.probe);
    clock_.pass(1);
    if (clock_.is_due(interval)) {
        probing_ = true;
        return;
    }
    if (s.dropped || !half_in_use(s, limit_))
        return;
    auto const gradient = std::clamp(options_.tolerance * mean / latency, 0.5, 1.);
    if (gradient < (slow_ ? 1 : 0.8) && !fresh && (slow_ || clock_.may_be_early(interval))) {
        probing_ = true;  // the service itself may be slower now
        return;
    }
    if (slow_ && gradient == 1) {
        move(doubled(limit_, options_.slow_start));
        slow_ = limit_ < static_cast<double>(options_.slow_start);
        return;
    }
    slow_ = false;
    auto const room = gradient == 1 ? static_cast<double>(options_.queue) : 0;
    auto const next = limit_ * gradient + room;
    auto const share = fresh && gradient < 1 ? 1 : options_.smoothing;
    move(limit_ + share * (next - limit_));
}

void gradient2::take_over(gradient2 const& before) noexcept {
    start_with(static_cast<amount>(before.limit_));
    if (before.long_.value() != 0)
        long_.set(no_load_of(options_, before.long_.value()));
    clock_ = before.clock_;
    probing_ = before.probing_;
    fresh_ = before.fresh_;
    slow_ = before.slow_ && limit_ < static_cast<double>(options_.slow_start);
}

void gradient2::start_with(amount n) noexcept {
    limit_ = clamped(options_, static_cast<double>(n));
}

learned_seats gradient2::learned() const noexcept {
    return {static_cast<amount>(limit_), !slow_, whole_latency(long_.value())};
}

void gradient2::start_from(learned_seats const& before) noexcept {
    start_with(before.seats);
    if (before.latency > duration::zero())
        long_.set(no_load_of(options_, nanoseconds(before.latency)));
    slow_ = !before.has_started && limit_ < static_cast<double>(options_.slow_start);
}

}  // namespace weir::inline v0_2::policy
