#pragma once

#include <weir/policy/cooling_log.hpp>

namespace weir {

struct sliding_window_options {
    /// How many permits any window may see, 1 to `max_amount`.
    amount limit = 1;

    /// The length of the window, at least a nanosecond.
    duration window = std::chrono::seconds(1);

    /// How finely the window is divided, 1 to 1,048,576. The length of a slice is rounded up to whole
    /// nanoseconds: a window of a second in 30 slices is no shorter than a second.
    amount slices = 10;
};

namespace policy {

/// A rate limit in bounded memory: what was granted is counted by the slice of the window in which it
/// was, and a slice cools for `window` from the last grant in it.
///
/// Guarantee: at most `limit` permits are granted in any half-open window of that length, wherever
/// it starts. For a permit counts until its slice has cooled, which is a window after its own grant at
/// the soonest; so whenever one is granted, all others of the window that ends there still count.
/// The price of the slices is paid by the caller: a permit granted at `g` is free again between
/// `g + window` and a slice later; at `g + window` sharp if it was the last of its slice, as when all
/// are taken at once. Callers that always wait get the whole rate, once slices follow each other so.
/// Formula: the free room is `limit` less the sum of the slices that cool, at most `slices` + 1.
/// Memory: 16 bytes for each of these, set aside at once; as many again after a change of options.
/// Source: the counter of an Elixir server, "R per T in n slices". Where slices end with the clock,
/// it takes n + 1 of them for a strict bound, and the n + 1st of the rate is lost; the sum of n lets
/// through 2R in T at worst.
class sliding_window_rule : public cooling_log {
public:
    using options_type = sliding_window_options;

    explicit sliding_window_rule(options_type const& options);

    [[nodiscard]] options_type const& options() const noexcept { return options_; }

private:
    options_type options_;
};

using sliding_window = ruled<sliding_window_rule>;

}  // namespace policy
}  // namespace weir
