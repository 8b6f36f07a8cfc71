#include <weir/policy/shared_bucket.hpp>
#include <weir/policy/store_distance.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace weir::inline v0_2::policy {
namespace {

constexpr double weight = 0.05;  // of the newest question in the mean

double in_microseconds(duration d) {
    return std::chrono::duration<double, std::micro>(d).count();
}

// A number from 0 to 1 that differs between processes, and from grant to grant.
double random_of(std::int64_t since) {
    constexpr std::uint64_t golden_ratio = 0x9E37'79B9'7F4A'7C15;
    return static_cast<double>((static_cast<std::uint64_t>(since) * golden_ratio) >> 11) * 0x1p-53;
}

}  // namespace

void store_distance::booked(shared_bucket const& b, amount n, std::chrono::microseconds wait,
                            std::int64_t since, duration round_trip, time_point now) noexcept {
    auto const time_of_one = static_cast<double>(b.permit) / static_cast<double>(b.drained);
    auto const of_first =
        static_cast<double>(wait.count()) - static_cast<double>(n - 1) * time_of_one;
    auto const sample = std::max(of_first, time_of_one / 2);
    line_ += line_ == 0 ? sample : (sample - line_) * weight;
    bool const makes_up = is_far(round_trip) && n < b.burst;
    auto const longest = makes_up ? round_trip / 4 : duration::zero();
    pause_ends_ = later(now, std::chrono::floor<duration>(longest * random_of(since)));
}

amount store_distance::minimum(shared_bucket const& b, duration round_trip,
                               time_point now) noexcept {
    auto const rate = static_cast<double>(b.drained) / static_cast<double>(b.permit);
    auto const of_near = std::max(rate * 1000, 1.0);
    auto exact = of_near;
    if (is_far(round_trip)) {
        auto const cycle = in_microseconds(std::max(round_trip, now - asked_));
        // If no other process asks, the line is short, and this is the whole rate.
        auto const most = rate * in_microseconds(round_trip) + 1;
        exact = std::clamp(of_near * cycle / line_, of_near, std::max(most, of_near)) + part_;
    }
    auto const n = std::floor(exact);
    part_ = exact - n;
    return static_cast<amount>(std::min(n, static_cast<double>(b.burst)));
}

bool store_distance::is_far(duration round_trip) const noexcept {
    return line_ > 0 && in_microseconds(round_trip) > line_;
}

}  // namespace weir::inline v0_2::policy
