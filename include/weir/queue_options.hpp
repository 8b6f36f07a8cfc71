#pragma once

#include <weir/time.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

/// What becomes of a request that must wait when the queue is full.
enum class when_full : std::uint8_t {
    /// The new request is refused with `errc::queue_full`.
    reject_newest,
    /// The request that has waited longest is dropped with `errc::shed`, and the new one waits.
    evict_oldest,
};

/// How a limiter keeps requests that wait. They are granted in the order in which they came: a big request
/// at the head is not overtaken by small ones.
///
/// Options can be written as text, each once and in any order, with those left out that have their
/// defaults: `limit 100 full evict_oldest tolerance 1ms patience 2s`. A time is a whole number and its
/// unit, without a space, as in `limiter_config`; or `forever`.
struct queue_options {
    /// Throws `std::invalid_argument` that quotes the text, and says at which column what was expected.
    /// Whether the values make sense is for `validate` to say.
    [[nodiscard]] static queue_options parse(std::string_view text);

    /// How many requests may wait at a time, 0 to 1,000,000,000; 0 means that none ever waits.
    std::int64_t limit = 1024;

    when_full full = when_full::reject_newest;

    /// How late a deadline may be noticed, 0 to an hour, so that many share one wake-up of the timer. It is
    /// never noticed early, and no request is granted past its deadline. 0 is exact, at the price of a
    /// wake-up for each.
    ///
    /// For `token_bucket` and `leaky_bucket` with room to save, the timer comes at most once in a tolerance,
    /// too. At a higher rate than that, what has become due meanwhile is granted together; the rate is
    /// kept, since what comes back meanwhile still fits.
    duration tolerance = std::chrono::milliseconds(1);

    /// How long a request waits that names no patience of its own.
    weir::patience patience = forever;
};

/// Throws `std::invalid_argument`, naming the option, the value and the bound, if one is nonsense.
void validate(queue_options const& options);

/// The text from which `queue_options::parse` makes the same; empty if all have their defaults.
[[nodiscard]] std::string to_string(queue_options const& options);

}  // namespace weir
