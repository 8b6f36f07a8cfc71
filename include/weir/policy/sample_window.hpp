#pragma once

#include <weir/policy/policy.hpp>
#include <weir/policy/seat_algorithms.hpp>

#include <optional>

namespace weir::inline v0_2::policy {

/// Combines all permits released in a window into one sample, because single latencies vary too much.
///
/// A window lasts twice the mean latency of the window before, but at least `least`, and at most `least` or a second,
/// whichever is longer. It has at least the required number of samples. The first window begins with the first release.
/// After a change of the number of seats, the next window begins with the first release that meets two conditions:
/// twice the mean latency has passed since the change, and the permit was granted after it. Earlier grants measure the
/// old number. The first condition lasts at most for the longest time of a window.
///
/// Source: `WindowedLimit` of Netflix concurrency-limits, which uses the minimum latency instead of the mean, and
/// begins at once.
class sample_window {
public:
    sample_window(duration least, amount samples, duration ignore_below) noexcept
        : least_(least), samples_(samples), ignore_below_(ignore_below) {}

    /// Adds a released permit. Returns the sample of the window if this release ends it.
    [[nodiscard]] std::optional<seat_sample> add(time_point granted, time_point now,
                                                 amount in_flight, bool dropped) noexcept;

    /// Records a change of the number of seats.
    void number_changed(time_point now) noexcept {
        changed_ = now;
        is_stale_ = true;
    }

    friend bool operator==(sample_window const&, sample_window const&) = default;

private:
    void begin(time_point now) noexcept;

    duration least_;
    amount samples_;
    duration ignore_below_;

    duration latency_{};  // twice the mean of the last window
    time_point end_{};
    time_point changed_ = time_point::min();
    bool is_stale_ = true;  // until the release of a permit that was granted after `changed_`
    bool dropped_ = false;
    double sum_ = 0;  // of the latencies in nanoseconds
    amount served_ = 0;
    amount count_ = 0;
    amount in_flight_ = 0;
};

}  // namespace weir::inline v0_2::policy
