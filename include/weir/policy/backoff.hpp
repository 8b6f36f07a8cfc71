#pragma once

#include <weir/time.hpp>

#include <cstdint>

namespace weir::policy {

/// When to try again after failures: after `first`, and after twice as long each further time, up to `most`. To
/// that is added a random part of up to `jitter` times as much.
class backoff {
public:
    backoff(duration first, duration most, double jitter) noexcept
        : first_(first), most_(most), jitter_(jitter) {}

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
    duration first_;
    duration most_;
    double jitter_;
    std::uint32_t failures_ = 0;
    time_point retry_at_ = time_point::min();
};

}  // namespace weir::policy
