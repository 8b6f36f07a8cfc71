#include <weir/policy/settled_window.hpp>

#include <algorithm>

namespace weir::inline v0_2::policy {
namespace {

constexpr double much_variance = 0.25;

}  // namespace

void settled_window::restart(amount seats, time_point now, duration patience) noexcept {
    seats_ = seats;
    drains_ = true;
    drains_until_ = later(now, patience);
    begin(now, work_);
}

void settled_window::begin(time_point now, std::uint64_t work) noexcept {
    began_ = now;
    work_before_ = work_ = work;
    samples_ = served_ = seat_count_ = seats_seen_ = 0;
    sum_ = squares_ = dropped_time_ = 0;
}

bool settled_window::add(ended_call const& c) noexcept {
    work_ = c.work;
    if (drains_) {
        auto const rest = c.in_progress - c.count;
        if (rest > seats_ && c.now < drains_until_)
            return false;
        drains_ = false;
        drained_ = c.now;
        to_end_ = rest;
        begin(c.now, c.work);
        return false;
    }
    if (to_end_ > 0) {
        to_end_ -= c.count;
        if (to_end_ <= 0)
            begin(c.now, c.work);
        return false;
    }
    auto const n = static_cast<double>(c.count);
    auto const latency =
        static_cast<double>(std::max(duration(1), c.now - std::max(c.granted, drained_)).count());
    ++samples_;
    seat_count_ += n;
    seats_seen_ += n * static_cast<double>(c.in_progress);
    if (c.dropped) {
        dropped_time_ += latency;
        return true;
    }
    ++served_;
    sum_ += latency;
    squares_ += latency * latency;
    return true;
}

double settled_window::turns() const noexcept {
    return seats_seen_ > 0 ? seat_count_ / in_progress() : 0;
}

double settled_window::in_progress() const noexcept {
    return seat_count_ > 0 ? seats_seen_ / seat_count_ : 0;
}

double settled_window::latency() const noexcept {
    if (served_ == 0)
        return 0;
    auto const mean = sum_ / served_;
    if (has_drops())
        return mean;
    // The calls that ended soon enough are short ones. Little's law has no such error, but another one: many calls may
    // end at the instant at which the window ends, if their latency hardly varies.
    auto const by_little = static_cast<double>(work_ - work_before_) / seat_count_;
    auto const share = std::min(1., variance() / much_variance);
    return std::max(1., mean + share * (by_little - mean));
}

double settled_window::variance() const noexcept {
    return sum_ > 0 ? std::max(0., squares_ * served_ / (sum_ * sum_) - 1) : 0;
}

double settled_window::throughput() const noexcept {
    return sum_ > 0 ? in_progress() * sum_ / (sum_ + dropped_time_) / latency() : 0;
}

}  // namespace weir::inline v0_2::policy
