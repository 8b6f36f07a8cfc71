#pragma once

#include <weir/detail/random.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <cstdint>
#include <string_view>

namespace weir {

/// How long to wait after failures before the next attempt.
struct backoff_options {
    /// After a failure, at least 1 ns; and twice as long after each further one, up to `max`.
    duration initial = std::chrono::milliseconds(100);
    duration max = std::chrono::seconds(10);
    /// To that is added a random part of up to so many times as much, 0 to 1, so that many clients do not come back
    /// together.
    double jitter = 0.5;
};

namespace policy {

/// Throws `std::invalid_argument` that names `where`, the option, the value and the bound, if one is nonsense.
void validate(std::string_view where, backoff_options const& retry);

/// When to try again after failures.
class backoff {
public:
    explicit backoff(backoff_options const& options) noexcept : options_(options) {}

    [[nodiscard]] std::uint32_t failures() const noexcept { return failures_; }
    [[nodiscard]] time_point retry_at() const noexcept { return retry_at_; }

    /// An attempt has failed that was begun when there were `seen` failures: attempts that fail together
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
}  // namespace weir
