#pragma once

#include <weir/policy/cooling_log.hpp>

namespace weir::inline v0_2 {

/// The options of `sliding_window`.
struct sliding_window_options {
    /// The most permits in any window, 1 to `max_amount`.
    amount limit = 1;

    /// The length of the window, at least 1 ns.
    duration window = std::chrono::seconds(1);

    /// The number of slices of the window, 1 to 1,048,576. The length of a slice is rounded up to whole nanoseconds, so
    /// a window of a second in 30 slices is not shorter than a second.
    amount slices = 10;
};

namespace policy {

/// A strict rate limit in bounded memory: it counts grants per slice of the window, and a slice expires `window` after
/// the last grant in it.
///
/// Guarantee: at most `limit` permits are granted in any half-open window of that length, wherever it starts. A permit
/// counts until its slice expires, at the earliest a window after its own grant. So at each grant, all other grants of
/// the window that ends there still count.
///
/// The caller pays for the slices: a permit granted at `g` is free again between `g + window` and a slice later, and
/// exactly at `g + window` if it was the last of its slice, as when all permits are taken at once. Callers that always
/// wait get the full rate, as soon as the slices follow each other in this way.
///
/// A change of options keeps the slices. The grants in them expire the new window after the last grant of their slice, and
/// the current slice ends when its age is the new length of a slice. So after a change to longer slices a permit may
/// expire earlier than if all slices were as long, but never before its window has passed.
///
/// Formula: the free permits are `limit` minus the sum of the unexpired slices, which are at most `slices` + 1.
///
/// Memory: 16 bytes for each of these slices that has grants, from 128 bytes on; see `sliding_log`.
///
/// Source: the counter of an Elixir server, "R per T in n slices". If slices end at fixed times of the clock, a strict
/// bound needs n + 1 of them, and loses the n + 1st part of the rate; the sum of n slices allows up to 2R in T.
class sliding_window_rule : public cooling_log {
public:
    using options_type = sliding_window_options;

    explicit sliding_window_rule(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }

private:
    options_type options_;
};

/// The policy of `weir::sliding_window`: a strict rate limit in bounded memory.
using sliding_window = ruled<sliding_window_rule>;

}  // namespace policy
}  // namespace weir::inline v0_2
