#pragma once

#include <weir/time.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

/// What becomes of a request that must wait when the queue is full.
enum class when_full : std::uint8_t {
    /// The newcomer is refused with `errc::queue_full`.
    reject_newest,
    /// The one that has waited longest is dropped with `errc::shed`, and the newcomer waits.
    evict_oldest,
};

/// How a limiter keeps those who wait. They are served first come, first served: a big request at the
/// head is not overtaken by small ones.
///
/// Options can be written as text, each once and in any order, with those left out that have their
/// defaults: `limit 100 full evict_oldest tolerance 1ms patience 2s`. A time is a whole number and its
/// unit, without a space, as in `limiter_config`; or `forever`.
struct queue_options {
    /// Throws `std::invalid_argument` that quotes the text, and says at which column what was expected.
    /// Whether the values make sense is for `validate` to say.
    [[nodiscard]] static queue_options parse(std::string_view text);

    /// How many callers may wait at a time, 0 to 1,000,000,000; 0 means that nobody ever waits.
    std::int64_t limit = 1024;

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

/// The text from which `queue_options::parse` makes the same; empty if all have their defaults.
[[nodiscard]] std::string to_string(queue_options const& options);

}  // namespace weir
