#pragma once

#include <weir/time.hpp>

#include <cstdint>

namespace weir {

/// What becomes of a request that must wait when the queue is full.
enum class when_full : std::uint8_t {
    /// The newcomer is refused with `errc::queue_full`.
    reject_newest,
    /// The one that has waited longest is dropped with `errc::shed`, and the newcomer waits.
    evict_oldest,
};

/// In what order those who wait are served.
enum class queue_order : std::uint8_t {
    /// First come, first served, strictly: a big request at the head is not overtaken by small ones.
    fifo,
};

/// How a limiter keeps those who wait.
struct queue_options {
    /// How many callers may wait at a time, 0 to 1,000,000,000; 0 means that nobody ever waits.
    std::int64_t limit = 1024;

    queue_order order = queue_order::fifo;

    when_full full = when_full::reject_newest;

    /// How late a deadline may be noticed, so that many share one wake-up of the timer. It is never
    /// noticed early, and nobody is granted a permit past their deadline. 0 is exact, at the price of
    /// a wake-up for each.
    duration tolerance = std::chrono::milliseconds(1);

    /// How long a caller waits who does not say.
    weir::patience patience = forever;
};

/// Throws `std::invalid_argument`, naming the option, the value and the bound, if one is nonsense.
void validate(queue_options const& options);

}  // namespace weir
