#pragma once

#include <weir/policy/seat_algorithms.hpp>
#include <weir/time.hpp>

#include <cstdint>

namespace weir::inline v0_2::policy {

/// Measures the latency, the number of calls in progress and the throughput under one number of seats, after the effect
/// of another number is over.
///
/// After `restart` it waits until no more calls than seats are in progress, and then until as many calls have ended as
/// were in progress then. So calls that waited at the service because of the former number are not measured, and the
/// first ones to end, which are short ones, are not preferred. A call that was granted before counts only from the end
/// of the first wait, because it may have waited at the service until then.
class settled_window {
public:
    /// Begins with another number of seats. The first wait ends after `patience` in any case.
    void restart(amount seats, time_point now, duration patience) noexcept;
    /// Begins the next window with the same number of seats. `work` is `ended_call::work` now.
    void begin(time_point now, std::uint64_t work) noexcept;
    /// Adds a call. Returns whether it is a sample.
    bool add(ended_call const& c) noexcept;

    [[nodiscard]] double samples() const noexcept { return samples_; }
    /// Returns the number of samples that were not dropped.
    [[nodiscard]] double served() const noexcept { return served_; }
    [[nodiscard]] bool has_drops() const noexcept { return served_ < samples_; }
    [[nodiscard]] duration age(time_point now) const noexcept { return now - began_; }
    /// Returns how many times each seat was released, on average.
    [[nodiscard]] double turns() const noexcept;
    /// Returns the mean number of seats of calls in progress.
    [[nodiscard]] double in_progress() const noexcept;
    /// Returns the mean latency of served calls in nanoseconds; 0 if there were none. If latencies vary much, it also
    /// counts the calls that have not ended.
    [[nodiscard]] double latency() const noexcept;
    /// Returns the variance of the latency of the calls that ended, divided by the square of their mean.
    [[nodiscard]] double variance() const noexcept;
    /// Returns the seats of served calls that end in a nanosecond, by Little's law: the number in progress, without the
    /// part that dropped calls used, divided by the latency.
    [[nodiscard]] double throughput() const noexcept;

    friend bool operator==(settled_window const&, settled_window const&) = default;

private:
    amount seats_ = 0;
    amount to_end_ = 0;    // calls that end before samples are taken
    bool drains_ = false;  // the first wait lasts
    time_point drained_ = time_point::min();
    time_point drains_until_{};
    time_point began_{};
    std::uint64_t work_ = 0;         // at the last call
    std::uint64_t work_before_ = 0;  // at the beginning
    double samples_ = 0;
    double served_ = 0;
    double seat_count_ = 0;  // seats of samples
    double seats_seen_ = 0;  // seats in progress at the end of a sample, times its seats
    double sum_ = 0;         // of the latencies of served samples
    double squares_ = 0;
    double dropped_time_ = 0;
};

}  // namespace weir::inline v0_2::policy
