#include <weir/policy/knee.hpp>

#include "../check_option.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace weir::inline v0_2::policy {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

// The size of a window.
constexpr double least_samples = 20;
constexpr double decisive_samples = 50;
constexpr double most_samples = 200;
constexpr double least_turns = 4;
constexpr double error = 0.1;             // of a mean, as a part of it
constexpr duration longest = seconds(5);  // with the least samples

// Ratios of throughputs and of latencies.
constexpr double has_fallen = 0.75;
constexpr double has_not_fallen = 0.9;
constexpr double share_in_use = 0.75;  // of the seats: then the number matters
constexpr double is_more = 1.5;
constexpr double is_much_less = 0.7;
constexpr double nothing_waits = 1.1;
constexpr double is_faster = 0.75;
constexpr double is_much_slower = 1.6;
constexpr double is_the_same = 1.35;

// So that one worker has one seat, and two workers have three.
constexpr double rest = 0.6;

constexpr duration shortest_period = seconds(10);  // of the probes
constexpr duration longest_period = seconds(160);
constexpr double most_weight = 4 * most_samples;  // of the known latency

knee_options const& checked(knee_options const& o) {
    detail::check_option("knee", "min", o.min, 1, max_amount);
    detail::check_option("knee", "max", o.max, o.min, max_amount);
    detail::check_option("knee", "seats", o.seats, o.min, o.max);
    detail::check_option("knee", "headroom", o.headroom, 0.05, 2.);
    detail::check_option("knee", "probing", o.probing, 0.001, 0.2);
    return o;
}

duration as_duration(double nanoseconds) noexcept {
    constexpr auto most = static_cast<double>(duration(hours(24)).count());
    return duration(static_cast<duration::rep>(std::clamp(nanoseconds, 0., most)));
}

}  // namespace

knee::knee(options_type const& options)
    : options_(checked(options)), limit_(static_cast<double>(options_.seats)) {}

duration knee::latency() const noexcept {
    return as_duration(latency_);
}

void knee::move(double to) noexcept {
    limit_ = std::clamp(to, static_cast<double>(options_.min), static_cast<double>(options_.max));
}

void knee::restart_window(time_point now) noexcept {
    window_.restart(seats(), now, as_duration(4 * latency_));
}

bool knee::add(ended_call const& c) noexcept {
    if (!window_.add(c) || !is_enough(c.now)) [[likely]]
        return false;
    auto const before = std::pair(seats(), mode_);
    update(c.now);
    if (std::pair(seats(), mode_) == before)
        window_.begin(c.now, c.work);
    else
        restart_window(c.now);
    return true;
}

bool knee::is_enough(time_point now) const noexcept {
    auto const& w = window_;
    if (w.samples() < least_samples || w.turns() < least_turns)
        return false;
    if (w.served() == 0 || mode_ == mode::starting || w.samples() >= most_samples ||
        w.age(now) >= longest)
        return true;
    bool const is_too_many =
        is_probing() && level_ > options_.min && w.throughput() > has_not_fallen * throughput_;
    return is_too_many || w.variance() <= error * error * (w.served() - decisive_samples);
}

void knee::update(time_point now) noexcept {
    if (window_.served() == 0) {
        mode_ = mode::steady;
        return move(limit_ / 2);
    }
    latency_ = window_.latency();
    if (is_probing())
        return look_deeper(now);
    // A probe must confirm that the service is faster: a short window may have no call of a rare, long kind.
    if (latency_ < is_faster * own_)
        next_probe_ = std::min(next_probe_, later(now, as_duration(20 * latency_)));
    if (window_.in_progress() < share_in_use * static_cast<double>(seats()))
        return;
    if (mode_ == mode::starting)
        start(window_.throughput(), now);
    else
        steer(window_.throughput(), now);
}

// Doubles the number as long as this raises the throughput.
void knee::start(double throughput, time_point now) noexcept {
    bool const has_risen = throughput >= is_more * throughput_;
    throughput_ = std::max(throughput, throughput_);
    if (window_.has_drops()) {
        mode_ = mode::steady;
        learn();
        move(throughput * own_ + 1);
    } else if (has_risen && limit_ < static_cast<double>(options_.max)) {
        move(2 * limit_);
    } else {
        probe(throughput_, now);
    }
}

void knee::steer(double throughput, time_point now) noexcept {
    auto const current = std::floor(limit_);
    if (own_ == 0)
        return probe(throughput, now);
    if (current < 2)
        learn();  // with one seat nothing waits at the service
    bool const is_odd = latency_ > is_much_slower * own_ && throughput < is_much_less * throughput_;
    bool const has_risen = throughput_ > 0 && throughput > is_more * throughput_;
    if (has_risen)
        next_probe_ = std::min(next_probe_, later(now, as_duration(20 * latency_)));
    throughput_ = is_odd || has_risen || throughput_ == 0
                      ? throughput
                      : throughput_ + 0.3 * (throughput - throughput_);
    bool const is_early =
        is_odd && now > later(probe_ended_, times(probe_ended_ - probe_began_, 4));
    if ((now >= next_probe_ || is_early) && seats() > options_.min)
        return probe(throughput, now);

    auto const best = throughput * own_;
    if (window_.has_drops()) {
        gently_ = true;
        hold_ = 10;
        return move(std::min(limit_, best));
    }
    hold_ = std::max<amount>(hold_ - 1, 0);
    auto const grown_from = std::exchange(grown_from_, 0);
    if (latency_ <= nothing_waits * own_) {
        if (hold_ == 0) {
            grown_from_ = current;
            move(std::max(current + 1, gently_ ? 0 : current * (1 + options_.headroom)));
        }
        return;
    }
    auto const to = best * (1 + options_.headroom) + rest;
    if (std::floor(to) <= grown_from)
        hold_ = 2;
    auto const step = std::max(1., 0.5 * std::abs(to - limit_));
    move(to < limit_ ? std::max(to, limit_ - step) : std::min(to, limit_ + step));
}

void knee::probe(double throughput, time_point now) noexcept {
    auto const half = limit_ / 2;
    auto const level = own_ > 0 ? std::min(half, 0.6 * throughput * own_) : half;
    level_ = std::max(options_.min, static_cast<amount>(level));
    throughput_ = throughput;
    probe_began_ = now;
    mode_ = mode::probing;
}

void knee::look_deeper(time_point now) noexcept {
    if (window_.throughput() >= has_fallen * throughput_ && level_ > options_.min) {
        level_ = std::max(options_.min, level_ / 2);
        return;
    }
    bool const is_confirmed = learn();
    // The capacity may have fallen during the probe. So the number does not rise.
    move(std::min(limit_, throughput_ * own_ * (1 + options_.headroom) + rest));
    auto const lasted = now - probe_began_;
    if (!is_confirmed)
        return end_probe(now, times(lasted, 4), false);
    auto const doubt = std::max(window_.variance(), error * error) / (error * error * own_weight_);
    auto const share = std::min(1., 2 / doubt) / 2 / options_.probing;
    end_probe(now, as_duration(static_cast<double>(lasted.count()) * share), true);
}

void knee::end_probe(time_point now, duration pause, bool aligned) noexcept {
    mode_ = mode::steady;
    gently_ = false;
    probe_ended_ = now;
    next_probe_ = later(now, pause);
    if (!aligned)
        return;
    auto const most = std::max(longest_period, times(now - probe_began_, 20));
    auto period = shortest_period;
    while (period < pause && period < most)
        period *= 2;
    next_probe_ = later(now, period - now.time_since_epoch() % period);
}

void knee::abandon_probe(time_point now) noexcept {
    end_probe(now, shortest_period, false);
    restart_window(now);
}

// Returns whether the window confirms the known latency. If so it adds to its mean, otherwise it replaces it. A higher
// latency has little weight then: perhaps the service changed during the probe, and requests waited at it.
bool knee::learn() noexcept {
    auto const latency = window_.latency();
    auto const samples = window_.served();
    bool const same = own_ > 0 && latency < is_the_same * own_ && latency > own_ / is_the_same;
    if (same) {
        own_ += (latency - own_) * samples / (samples + own_weight_);
        own_weight_ = std::min(own_weight_ + samples, most_weight);
    } else {
        own_weight_ = own_ > 0 && latency > own_ ? samples / 16 : samples;
        own_ = latency;
    }
    return same;
}

void knee::take_over(knee const& before, time_point now) noexcept {
    auto const options = options_;
    *this = before;
    options_ = options;
    move(limit_);
    level_ = std::clamp(level_, options_.min, options_.max);
    if (seats() != before.seats())
        restart_window(now);
}

void knee::start_with(amount n, time_point now) noexcept {
    move(static_cast<double>(n));
    restart_window(now);
}

learned_seats knee::learned() const noexcept {
    return {settled_seats(), mode_ != mode::starting, whole_latency(own_)};
}

void knee::start_from(learned_seats const& before, time_point then) noexcept {
    move(static_cast<double>(before.seats));
    if (!before.has_started)
        return;
    mode_ = mode::steady;
    own_ = static_cast<double>(before.latency.count());
    probe_began_ = probe_ended_ = next_probe_ = then;
}

}  // namespace weir::inline v0_2::policy
