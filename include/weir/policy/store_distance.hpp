#pragma once

#include <weir/amount.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <cstdint>

namespace weir::inline v0_2::policy {

struct shared_bucket;

/// The permits that a process asks a store for at once, so that it gets its share of a limit at any distance.
///
/// While permits are booked ahead, a process gets permits once per cycle: the longer of its round trip and of its wait
/// in the line of bookings. A near process has a cycle as long as the line. So a process with a longer cycle asks for
/// as many permits as a near process gets meanwhile: its cycle divided by the length of the line. The length is the mean
/// of what its own questions find there, over about 20 of them.
///
/// Two distant processes that always ask one shortly after the other would find lines of different lengths. So a distant
/// process pauses before each question, for a random part of a quarter of its round trip. It does not if the burst is too
/// small for its share, as a burst of 1 is.
class store_distance {
public:
    /// Records a question.
    void asks(time_point now) noexcept { asked_ = now; }
    /// Records a grant of `n` permits that is booked for `since` on the clock of the store, `wait` after the question.
    void booked(shared_bucket const& b, amount n, std::chrono::microseconds wait,
                std::int64_t since, duration round_trip, time_point now) noexcept;

    /// Returns the fewest permits to ask for at `now`, while permits are booked: at least what drains in a millisecond,
    /// so that a high rate does not need a question for each permit, and at most the burst.
    [[nodiscard]] amount minimum(shared_bucket const& b, duration round_trip,
                                 time_point now) noexcept;
    /// Returns the earliest time of the next question, while permits are booked.
    [[nodiscard]] time_point pause_ends() const noexcept { return pause_ends_; }

private:
    [[nodiscard]] bool is_far(duration round_trip) const noexcept;

    time_point asked_{};
    time_point pause_ends_ = time_point::min();
    double line_ = 0;  // the mean wait of a permit, in microseconds; 0 if unknown
    double part_ = 0;  // of a permit, by which the last result was rounded down
};

}  // namespace weir::inline v0_2::policy
