#pragma once

#include <weir/policy/policy.hpp>
#include <weir/policy/seat_algorithms.hpp>

#include <optional>

namespace weir::policy {

/// Makes one sample of all that comes home in a window, since single latencies say little.
///
/// A window lasts for twice the mean latency of the one before, but neither less than `least` nor more than
/// `least` or a second, whichever is longer; and it has at least so many samples. The first one begins when
/// the first permit comes home. After the number of seats has changed, the next begins when twice the mean latency has passed and a permit comes home that was
/// granted since: what was granted before tells about the old number.
/// Source: `WindowedLimit` of Netflix concurrency-limits, which looks at the least latency instead of the
/// mean, and begins at once.
class sample_window {
public:
    sample_window(duration least, amount samples, duration ignore_below) noexcept
        : least_(least), samples_(samples), ignore_below_(ignore_below) {}

    /// A permit has come home. Gives what the window has seen if it ends by that.
    [[nodiscard]] std::optional<seat_sample> add(time_point granted, time_point now,
                                                 amount in_flight, bool dropped) noexcept;

    /// The number of seats has changed.
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

    duration latency_{};  // of the last window, twice
    time_point end_{};
    time_point changed_ = time_point::min();
    bool is_stale_ = true;  // until a permit comes home that was granted after `changed_`
    bool dropped_ = false;
    double sum_ = 0;  // of the latencies in nanoseconds
    amount served_ = 0;
    amount count_ = 0;
    amount in_flight_ = 0;
};

}  // namespace weir::policy
