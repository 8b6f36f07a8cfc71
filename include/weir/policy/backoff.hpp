#pragma once

#include <weir/detail/random.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <cstdint>
#include <string_view>

namespace weir::inline v0_2 {

/// The pauses after failures before the next attempt.
struct backoff_options {
    /// The pause after the first failure, at least 1 ns. It doubles with each further failure, up to `max`.
    duration initial = std::chrono::milliseconds(100);
    /// The longest pause, without the random addition; at least `initial`.
    duration max = std::chrono::seconds(10);
    /// The largest random addition to a pause, as a part of it, 0 to 1. It prevents many clients from retrying at the
    /// same time.
    double jitter = 0.5;
};

namespace policy {

/// Throws `std::invalid_argument` if an option is invalid; its text names `where`, the option, the value and the bound.
void validate(std::string_view where, backoff_options const& retry);

/// Computes the time of the next attempt after failures.
class backoff {
public:
    explicit backoff(backoff_options const& options) noexcept : options_(options) {}

    /// Applies `options` to the next failures.
    void use(backoff_options const& options) noexcept { options_ = options; }

    [[nodiscard]] std::uint32_t failures() const noexcept { return failures_; }
    [[nodiscard]] time_point retry_at() const noexcept { return retry_at_; }

    /// Records a failed attempt. `seen` is the number of failures at its start, so that attempts that fail together
    /// count as one.
    void failed(std::uint32_t seen, time_point now) noexcept;
    void succeeded() noexcept {
        failures_ = 0;
        retry_at_ = time_point::min();
    }

private:
    backoff_options options_;
    weir::detail::jitter jitter_;
    std::uint32_t failures_ = 0;
    time_point retry_at_ = time_point::min();
};

}  // namespace policy
}  // namespace weir::inline v0_2
