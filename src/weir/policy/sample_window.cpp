#include <weir/policy/sample_window.hpp>

#include <algorithm>
#include <chrono>

namespace weir::inline v0_2::policy {
namespace {

duration longest_window(duration least) noexcept {
    return std::max<duration>(least, std::chrono::seconds(1));
}

}  // namespace

std::optional<seat_sample> sample_window::add(time_point granted, time_point now, amount in_flight,
                                              bool dropped) noexcept {
    if (is_stale_) {
        if (granted < changed_ || now < later(changed_, std::min(latency_, longest_window(least_))))
            return std::nullopt;
        is_stale_ = false;
        begin(now);
    }
    auto const latency = now - granted;
    if (!dropped && latency < ignore_below_)
        return std::nullopt;
    ++count_;
    in_flight_ = std::max(in_flight_, in_flight);
    if (dropped) {
        dropped_ = true;
    } else {
        ++served_;
        sum_ += static_cast<double>(latency.count());
    }
    if (count_ < samples_ || now < end_)
        return std::nullopt;

    seat_sample const seen{
        .latency = served_ == 0
                       ? duration::zero()
                       : duration(static_cast<duration::rep>(sum_ / static_cast<double>(served_))),
        .in_flight = in_flight_,
        .dropped = dropped_,
        .count = count_};
    latency_ = times(seen.latency, 2);
    begin(now);
    return seen;
}

void sample_window::begin(time_point now) noexcept {
    end_ = later(now, std::clamp(latency_, least_, longest_window(least_)));
    dropped_ = false;
    sum_ = 0;
    served_ = count_ = in_flight_ = 0;
}

}  // namespace weir::inline v0_2::policy
