#pragma once

#include <weir/amount.hpp>
#include <weir/policy/carry_over.hpp>
#include <weir/policy/smooth_bursty.hpp>
#include <weir/policy/smooth_warming_up.hpp>
#include <weir/rate.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

namespace support {

using real = long double;

[[nodiscard]] inline real to_real(weir::time_point t) {
    return static_cast<real>(t.time_since_epoch().count());
}
[[nodiscard]] inline real to_real(weir::duration d) {
    return static_cast<real>(d.count());
}

/// The time of a permit at the rate, in nanoseconds.
[[nodiscard]] inline real interval_of(weir::rate const& r) {
    return to_real(r.period()) / static_cast<real>(r.permits());
}

/// The integral of `f` from `a` to `b`, by Simpson's rule, halving where it is not smooth.
[[nodiscard]] inline real integral(std::function<real(real)> const& f, real a, real b, real error,
                                   int depth = 40) {
    auto const simpson = [&](real from, real to) {
        return (to - from) / 6 * (f(from) + 4 * f((from + to) / 2) + f(to));
    };
    auto const middle = (a + b) / 2;
    auto const whole = simpson(a, b);
    auto const halves = simpson(a, middle) + simpson(middle, b);
    if (depth == 0 || std::fabs(whole - halves) < error)
        return halves;
    return integral(f, a, middle, error / 2, depth - 1) +
           integral(f, middle, b, error / 2, depth - 1);
}

/// The definition of Guava's limiters, in real numbers of nanoseconds: the time that each saved permit takes, as a
/// function of the number of saved permits, and the time to save one.
struct guava_curve {
    real stable = 1;    // the interval between permits
    real max = 0;       // saved permits
    real cooling = 1;   // the time to save one
    real at_start = 0;  // the number of saved permits at the start
    std::function<real(real)> price = [](real) { return real{0}; };
};

[[nodiscard]] inline guava_curve curve_of(weir::smooth_bursty_options const& o) {
    auto const stable = interval_of(o.rate);
    return {.stable = stable,
            .max = to_real(o.max_burst) / stable,
            .cooling = stable,
            .at_start = to_real(std::min(o.initial, o.max_burst)) / stable,
            .price = [](real) { return real{0}; }};
}

[[nodiscard]] inline guava_curve curve_of(weir::smooth_warming_up_options const& o) {
    auto const stable = interval_of(o.rate);
    auto const warm_up = to_real(o.warm_up);
    auto const cold = stable * o.cold_factor;
    auto const threshold = warm_up / stable / 2;
    auto const most = threshold + 2 * warm_up / (stable + cold);
    auto const slope = most > threshold ? (cold - stable) / (most - threshold) : 0;
    return {.stable = stable,
            .max = most,
            .cooling = most > 0 ? warm_up / most : stable,
            .at_start = most,
            .price = [=](real saved) {
                return saved > threshold ? stable + (saved - threshold) * slope : stable;
            }};
}

/// Guava's algorithm on such a curve. Time is counted from the first request, for precision. It counts whole
/// nanoseconds where Guava counts microseconds: less than one is not idle time.
class guava_limiter {
public:
    explicit guava_limiter(guava_curve curve) : curve_(std::move(curve)), saved_(curve_.at_start) {}

    /// Nanoseconds since the first request, like all times here.
    [[nodiscard]] real free() const { return free_; }
    [[nodiscard]] real saved() const { return saved_; }

    void settle(real now, real least = 1 - 1e-3L) {
        if (now - free_ < least)
            return;
        saved_ = std::min(curve_.max, saved_ + (now - free_) / curve_.cooling);
        free_ = now;
    }

    void take(weir::amount n, real now, real error = 1e-3L) {
        settle(now);
        auto const used = std::min(static_cast<real>(n), saved_);
        free_ += integral(curve_.price, saved_ - used, saved_, error) +
                 (static_cast<real>(n) - used) * curve_.stable;
        saved_ -= used;
    }

    void configure(guava_curve curve, weir::carry_over what, real now) {
        settle(now, 0);
        if (what == weir::carry_over::reset)
            saved_ = curve.at_start;
        else if (curve_.max == 0)  // where Guava starts again
            saved_ = 0;
        else if (what == weir::carry_over::proportional)
            saved_ *= curve.max / curve_.max;
        else
            saved_ = std::min(saved_, curve.max);
        curve_ = std::move(curve);
    }

private:
    guava_curve curve_;
    real saved_;
    real free_ = 0;
};

}  // namespace support
