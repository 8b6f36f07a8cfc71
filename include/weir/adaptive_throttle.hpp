#pragma once

#include <weir/detail/random.hpp>
#include <weir/detail/read_clock.hpp>
#include <weir/policy/adaptive_throttle.hpp>

#include <chrono>
#include <cstdint>
#include <mutex>

namespace weir::inline v0_2 {

/// A throttle for the requests of a client: it rejects a part of them before they are sent, if the service rejects many.
///
///     weir::adaptive_throttle throttle;
///     if (!throttle.try_enter())
///         co_return overloaded;
///     auto const response = co_await call();
///     throttle.report(response.status == 503 ? weir::outcome::dropped : weir::outcome::success);
///
/// The service gets up to `ratio` times the requests that it accepts. The throttle never rejects all requests, so it finds
/// out when the service has recovered. Report each granted request once: it counts only then.
/// `policy::adaptive_throttle_rule` has the formula.
///
/// Thread-safe. Memory: about 500 bytes. Each call takes constant time, under a lock.
template <class Clock = std::chrono::steady_clock>
class basic_adaptive_throttle {
public:
    /// Creates a throttle without a history.
    ///
    /// @throws std::invalid_argument if an option is out of range
    explicit basic_adaptive_throttle(adaptive_throttle_options const& options = {})
        : rule_(options), random_(detail::random_bits()) {}

    /// Decides about a request, and returns whether to send it.
    [[nodiscard]] bool try_enter() noexcept {
        std::lock_guard const lock(mutex_);
        auto const bits = detail::mix_bits(random_ += detail::next_in_series) >> 11;
        return rule_.grant(static_cast<double>(bits) * 0x1p-53, now());
    }

    /// Records the outcome of a granted request: `success` if the service accepted it, `dropped` if it rejected it because
    /// of its load, `ignored` if the request shows nothing about that.
    void report(outcome o) noexcept {
        std::lock_guard const lock(mutex_);
        rule_.report(o, now());
    }

    /// Returns the options.
    [[nodiscard]] adaptive_throttle_options const& options() const noexcept {
        return rule_.options();
    }

    /// Returns the counters, and the probability of a rejection.
    [[nodiscard]] adaptive_throttle_stats stats() noexcept {
        std::lock_guard const lock(mutex_);
        return rule_.stats(now());
    }

private:
    [[nodiscard]] static time_point now() noexcept { return detail::read_clock<Clock>(); }

    std::mutex mutex_;
    policy::adaptive_throttle_rule rule_;
    std::uint64_t random_;
};

/// A throttle for the requests of a client; see `basic_adaptive_throttle`.
using adaptive_throttle = basic_adaptive_throttle<>;

}  // namespace weir::inline v0_2
