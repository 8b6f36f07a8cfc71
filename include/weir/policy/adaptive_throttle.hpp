#pragma once

#include <weir/outcome.hpp>
#include <weir/time.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>

namespace weir::inline v0_2 {

/// The options of `adaptive_throttle`.
struct adaptive_throttle_options {
    /// The requests per accepted request from which on the throttle rejects, 1 to 1,000. A smaller number rejects sooner.
    double ratio = 2;
    /// The time for which requests count, 1 s to 1 day.
    duration window = std::chrono::minutes(2);
};

/// The counters of an `adaptive_throttle`.
struct adaptive_throttle_stats {
    std::uint64_t granted = 0;   ///< requests that it granted since construction
    std::uint64_t rejected = 0;  ///< requests that it rejected since construction
    std::uint64_t requests =
        0;  ///< requests in the window: rejected ones, and those with an outcome
    std::uint64_t accepted = 0;  ///< requests in the window that the service accepted
    double probability = 0;      ///< the probability that it rejects the next request, 0 to 1
};

namespace policy {

/// The rule of `adaptive_throttle`, without a clock and a lock: a request is rejected with the probability
/// max(0, (requests - ratio * accepted) / (requests + 1)). A granted request counts when its outcome is reported, a rejected
/// one at once. The window moves in
/// 24 steps.
///
/// Source: "Handling Overload" in "Site Reliability Engineering", O'Reilly 2016.
class adaptive_throttle_rule {
public:
    /// @throws std::invalid_argument if an option is out of range
    explicit adaptive_throttle_rule(adaptive_throttle_options const& options);

    /// Decides by `random`, a uniform number from 0 to below 1.
    [[nodiscard]] bool grant(double random, time_point now) noexcept;
    /// Records the outcome of a granted request. With `outcome::ignored` it does not count.
    void report(outcome o, time_point now) noexcept;

    [[nodiscard]] adaptive_throttle_options const& options() const noexcept { return options_; }
    [[nodiscard]] adaptive_throttle_stats stats(time_point now) noexcept;

private:
    struct counts {
        std::uint64_t requests = 0;
        std::uint64_t accepted = 0;
    };

    [[nodiscard]] double probability() const noexcept;
    [[nodiscard]] counts& current(time_point now) noexcept;

    adaptive_throttle_options options_;
    std::array<counts, 24> slices_{};
    counts all_;  // the sums of the slices
    std::int64_t number_ =
        std::numeric_limits<std::int64_t>::min();  // of the current slice, since the clock began
    std::uint64_t granted_ = 0;
    std::uint64_t rejected_ = 0;
};

}  // namespace policy
}  // namespace weir::inline v0_2
